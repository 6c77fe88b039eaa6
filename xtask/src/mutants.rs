//! `cargo xtask mutants`: a test that cannot fail proves nothing, so each promise is broken on
//! purpose, by a patch, and the test that the patch names must go red.

mod patch;
mod seed;
mod tree;

use std::collections::BTreeMap;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{run, workspace};
use patch::Patch;
use tree::Tree;

/// A mutant that makes its test hang is as good as one that survives: nobody waits for the answer.
const TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) fn run(names: &[String]) -> Result<()> {
    let (_, failed) = all(names)?;
    if failed > 0 {
        bail!("{failed} mutants were not caught");
    }
    Ok(())
}

/// Tries those named, or all; returns how many were caught and how many were not.
pub(crate) fn all(names: &[String]) -> Result<(u32, u32)> {
    let patches = chosen(names)?;
    let tree = Tree::copy(&workspace::root())?;
    seed::link(&workspace::target(), &tree.target)?;
    println!("-- without a mutant");
    let mut before = BTreeMap::new();
    for patch in &patches {
        if !before.contains_key(patch.test.as_str()) {
            before.insert(patch.test.as_str(), test(&tree, patch)?);
        }
    }
    let mut rows = Vec::new();
    let (mut caught, mut missed) = (0, 0);
    for patch in &patches {
        println!("\n-- {} (promise {}): {}", patch.name, patch.promise, patch.what);
        let outcome = if before.get(patch.test.as_str()) == Some(&Verdict::Green) {
            one(&tree, patch)?
        } else {
            Outcome::RedBefore
        };
        println!("{}: {}", patch.name, outcome.word());
        if outcome == Outcome::Caught {
            caught += 1
        } else {
            missed += 1
        }
        rows.push(format!(
            "{:7} {:32} {:14} {}",
            patch.promise,
            patch.name,
            outcome.word(),
            patch.test
        ));
    }
    rows.sort();
    println!("\npromise {:32} {:14} test", "mutant", "outcome");
    println!("{}", rows.join("\n"));
    Ok((caught, missed))
}

fn chosen(names: &[String]) -> Result<Vec<Patch>> {
    let mut patches = patch::all(&workspace::root().join("tests/mutants"))?;
    if let Some(unknown) = names.iter().find(|name| !patches.iter().any(|p| p.name == **name)) {
        let known: Vec<_> = patches.iter().map(|patch| patch.name.as_str()).collect();
        bail!("no mutant `{unknown}`; there are {}", known.join(", "));
    }
    patches.retain(|patch| names.is_empty() || names.contains(&patch.name));
    Ok(patches)
}

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Green without the patch, red with it.
    Caught,
    /// Green with the patch.
    Survived,
    /// Red, or no test at all, without the patch.
    RedBefore,
    /// The patch does not apply.
    Stale,
    /// The patched tree does not build: that says nothing about the test.
    DoesNotBuild,
    /// The test did not end.
    Hangs,
    /// The test died without a result.
    NoResult,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Survived => "SURVIVED",
            Self::RedBefore => "RED BEFORE",
            Self::Stale => "STALE",
            Self::DoesNotBuild => "DOES NOT BUILD",
            Self::Hangs => "HANGS",
            Self::NoResult => "NO RESULT",
        }
    }
}

fn one(tree: &Tree, patch: &Patch) -> Result<Outcome> {
    if !tree.applies(patch)? {
        return Ok(Outcome::Stale);
    }
    let _applied = tree.apply(patch)?;
    if !run::works(cargo_test(tree, patch).arg("--no-run")) {
        return Ok(Outcome::DoesNotBuild);
    }
    Ok(match test(tree, patch)? {
        Verdict::Red => Outcome::Caught,
        Verdict::Green => Outcome::Survived,
        Verdict::Hung => Outcome::Hangs,
        Verdict::Nothing => Outcome::NoResult,
    })
}

/// What a run of a test says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Green,
    Red,
    Hung,
    /// It ran no test.
    Nothing,
}

fn test(tree: &Tree, patch: &Patch) -> Result<Verdict> {
    let cargo = cargo_test(tree, patch);
    let mut command = Command::new("timeout");
    command.arg("--kill-after=10").arg(TIMEOUT.as_secs().to_string());
    command.arg(cargo.get_program()).args(cargo.get_args()).current_dir(&tree.folder);
    for (name, value) in cargo.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    println!("$ {}", run::shown(&cargo));
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("cannot start `timeout` (Debian package coreutils)")?;
    Ok(verdict(output.status, &String::from_utf8_lossy(&output.stdout)))
}

fn cargo_test(tree: &Tree, patch: &Patch) -> Command {
    let mut command = run::cargo(&tree.folder);
    // All packages, of which the named target is one's: the same features as in other tiers.
    command.env("CARGO_TARGET_DIR", &tree.target).args(["test", "--workspace"]);
    command.args(patch.arguments());
    command
}

/// Exit codes 124 and 137 are `timeout`'s.
fn verdict(status: ExitStatus, output: &str) -> Verdict {
    if matches!(status.code(), Some(124 | 137)) {
        return Verdict::Hung;
    }
    let results: Vec<&str> =
        output.lines().filter_map(|line| line.trim_start().strip_prefix("test result: ")).collect();
    if results.iter().any(|result| result.starts_with("FAILED")) {
        Verdict::Red
    } else if status.success() && results.iter().any(|result| !result.contains(" 0 passed;")) {
        Verdict::Green
    } else {
        Verdict::Nothing
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::{Verdict, verdict};

    fn check(code: i32, output: &str, expect: Verdict) {
        assert_eq!(verdict(ExitStatus::from_raw(code << 8), output), expect, "{output}");
    }

    #[test]
    fn only_a_test_that_ran_and_failed_is_red() {
        check(101, "test result: FAILED. 0 passed; 1 failed; 0 ignored", Verdict::Red);
        check(101, "error[E0308]: mismatched types", Verdict::Nothing);
        check(124, "test result: ok. 1 passed; 0 failed", Verdict::Hung);
    }

    #[test]
    fn only_a_test_that_ran_and_passed_is_green() {
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out";
        let some = "test result: ok. 10 passed; 0 failed; 0 ignored";
        check(0, &format!("{none}\n{some}"), Verdict::Green);
        check(0, none, Verdict::Nothing);
    }
}
