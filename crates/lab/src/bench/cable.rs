//! The owner's cable is pulled, again and again.

use std::path::PathBuf;
use std::time::Duration;

use super::{Figure, percentile, two_of_three};
use crate::stage::{Watch, settled};
use crate::{Error, Fault, LabName};

/// So many pulls for each interval.
const RUNS: u64 = 20;

/// With the default and with half of it, three of them each.
const INTERVALS_MS: [u64; 2] = [100, 50];

/// The pulls fall onto different parts of an interval: 37 has no divisor in common with either.
const PHASE_MS: u64 = 37;

/// Measures it; the baseline is the configured detection time.
pub fn cable(name: &LabName, program: PathBuf) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for interval in INTERVALS_MS {
        let text = interval.to_string();
        let args = ["--mesh-interval-ms", &text, "--preempt-delay-ms", "600000"];
        let mut lab = two_of_three(name, program.clone(), &args)?;
        let (mut claims, mut gaps) = (Vec::new(), Vec::new());
        for run in 0..RUNS {
            let owner = settled(&lab)?;
            std::thread::sleep(Duration::from_millis(run * PHASE_MS % interval));
            let mut watch = Watch::start(&lab)?;
            lab.fault(Fault::Link, &owner)?;
            let (_, after) = watch.other_claims(&lab, &owner)?;
            let (udp, _) = watch.stop()?;
            claims.push(after);
            gaps.push(Duration::from_secs_f64(udp.outage_ms / 1000.0));
            lab.mend(Fault::Link, &owner)?;
        }
        let detection = Duration::from_millis(3 * interval);
        for (what, values) in [("claimed by another", &claims), ("longest gap", &gaps)] {
            let (half, all) = (percentile(values, 50), percentile(values, 100));
            let measured = format!("p50 {:.1} ms, p100 {:.1} ms", ms(half), ms(all));
            let figure = Figure::new(format!("3 x {interval} ms, {RUNS} runs: {what}"), measured);
            let ratio = all.as_secs_f64() / detection.as_secs_f64();
            figures.push(figure.against(ratio, "three intervals"));
        }
    }
    Ok(figures)
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1000.0
}
