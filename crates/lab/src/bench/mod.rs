//! Figures of whole labs: an absolute, and its ratio to a baseline of the same run.

mod cable;
mod drain;
mod many;
mod restart;

pub use cable::cable;
pub use drain::drain;
pub use many::{change, rss};
pub use restart::restart;

use std::path::PathBuf;
use std::time::Duration;

use crate::stage::{publish, settled};
use crate::{Error, LabName, Options, Scoped, Topology};

/// One line of a bench.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// The absolute.
    pub measured: String,
    /// Its ratio to the baseline, and what that is.
    pub ratio: Option<(f64, &'static str)>,
}

impl Figure {
    fn new(what: impl Into<String>, measured: impl Into<String>) -> Self {
        Self { what: what.into(), measured: measured.into(), ratio: None }
    }

    fn against(self, ratio: f64, baseline: &'static str) -> Self {
        Self { ratio: Some((ratio, baseline)), ..self }
    }
}

/// A lab whose Service has endpoints on two of three nodes, settled.
fn two_of_three(name: &LabName, program: PathBuf, args: &[&str]) -> Result<Scoped, Error> {
    let agent_args = args.iter().map(|a| (*a).to_owned()).collect();
    let options = Options { program, agents: true, agent_args };
    let lab = Scoped::up(name, Topology::default(), options)?;
    publish(&lab, &["b1", "c1"])?;
    settled(&lab)?;
    Ok(lab)
}

/// The value below which so many of a hundred lie.
fn percentile(values: &[Duration], hundredths: usize) -> Duration {
    let mut sorted = values.to_vec();
    sorted.sort();
    let last = sorted.len().saturating_sub(1);
    sorted.get((last * hundredths).div_ceil(100)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&values, 100), Duration::from_millis(100));
        assert_eq!(percentile(&values, 50), Duration::from_millis(51));
        assert_eq!(percentile(&[], 99), Duration::ZERO);
    }
}
