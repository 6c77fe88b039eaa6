//! How many passed, how many failed, what was skipped.

use std::fmt;
use std::ops::AddAssign;

use anyhow::Result;

/// The outcome of a tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: u32,
    pub(super) failed: u32,
    /// Why something was not run, one sentence each.
    pub(super) skipped: Vec<String>,
}

impl Tally {
    /// One check that failed.
    pub(super) fn failed() -> Self {
        Self { failed: 1, ..Self::default() }
    }

    /// Something that this machine cannot run.
    pub(super) fn skipped(reason: &str) -> Self {
        Self { skipped: vec![reason.to_owned()], ..Self::default() }
    }

    /// Counts a check, and prints why it failed.
    pub(super) fn check(&mut self, what: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(error) => {
                println!("FAILED {what}: {error:#}");
                self.failed += 1;
            }
        }
    }

    /// Counts a line such as `test result: ok. 12 passed; 0 failed; 1 ignored; ...`, as the test
    /// runners of cargo and libtest-mimic end with. An ignored test is a skipped one.
    pub(super) fn read(&mut self, line: &str) {
        let Some(counts) = line.trim_start().strip_prefix("test result: ") else { return };
        let mut words = counts.split([' ', ';']).filter(|word| !word.is_empty()).peekable();
        while let Some(word) = words.next() {
            let Ok(count) = word.parse::<u32>() else { continue };
            match words.peek() {
                Some(&"passed") => self.passed += count,
                Some(&"failed") => self.failed += count,
                Some(&"ignored") if count > 0 => {
                    self.skipped.push(format!("{count} ignored tests"));
                }
                Some(_) | None => {}
            }
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        match self.skipped.len() {
            0 => Ok(()),
            count => write!(f, ", {count} skipped"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn result_lines_add_up() {
        let mut tally = Tally::default();
        tally.read("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.00s");
        tally
            .read("test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out");
        tally.read("test plan::result ... ok");
        assert_eq!((tally.passed, tally.failed), (15, 2));
        assert_eq!(tally.skipped, ["1 ignored tests"]);
        assert_eq!(tally.to_string(), "15 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn the_summary_is_plain_when_nothing_is_skipped() {
        assert_eq!(Tally { passed: 3, ..Tally::default() }.to_string(), "3 passed, 0 failed");
    }
}
