//! `cargo xtask fuzz`: hostile bytes against every parser. libFuzzer needs nightly; the seeds and
//! simple damage to them are a test that runs anywhere.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{run, workspace};

/// By libFuzzer, in minutes a target, unless `--minutes` says otherwise.
const MINUTES: u32 = 10;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut minutes = MINUTES;
    let mut names = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--minutes" {
            let value = rest.next().context("--minutes lacks its number")?;
            minutes = value
                .parse()
                .ok()
                // libFuzzer takes 0 for "for ever".
                .filter(|minutes| *minutes > 0)
                .with_context(|| format!("--minutes {value}: a number from 1"))?;
        } else {
            names.push(argument.as_str());
        }
    }
    let targets = targets()?;
    if let Some(unknown) = names.iter().find(|name| !targets.iter().any(|target| target == *name)) {
        bail!("no fuzz target `{unknown}`; there are {}", targets.join(", "));
    }
    install()?;
    for target in targets.iter().filter(|t| names.is_empty() || names.contains(&t.as_str())) {
        libfuzzer(target, minutes * 60)?;
    }
    Ok(())
}

/// The seeds and their damaged copies through every target: how many passed and failed.
pub(crate) fn smoke() -> Result<(u32, u32)> {
    let root = workspace::root();
    let mut command = run::cargo(&root);
    command.args(["test", "--locked", "--manifest-path", "fuzz/Cargo.toml"]);
    // Beside the others, so that crates of others that both build are built once.
    command.arg("--target-dir").arg(workspace::target());
    let (mut passed, mut failed) = (0, 0);
    let status = run::streamed(&mut command, |line| {
        passed += u32::from(line.starts_with("test ") && line.ends_with("... ok"));
        failed += u32::from(line.starts_with("test ") && line.ends_with("... FAILED"));
    })?;
    if !status.success() && failed == 0 {
        bail!("`{}` failed without a failed test: {status}", run::shown(&command));
    }
    Ok((passed, failed))
}

/// The programs of `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(workspace::root().join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        names.push(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn libfuzzer(target: &str, seconds: u32) -> Result<()> {
    let root = workspace::root();
    let corpus = root.join("fuzz/corpus").join(target);
    std::fs::create_dir_all(&corpus)?;
    // Found inputs go to the first folder; the committed seeds are only read.
    run::succeed(
        nightly()
            .args(["fuzz", "run", "--features", "libfuzzer", target])
            .arg(&corpus)
            .arg(root.join("fuzz/seeds").join(target))
            .arg("--")
            .arg(format!("-max_total_time={seconds}"))
            .args(["-timeout=5", "-rss_limit_mb=1024", "-print_final_stats=1"]),
    )
}

fn install() -> Result<()> {
    if !run::works(nightly().arg("--version")) {
        bail!("fuzzing needs a nightly compiler: rustup toolchain install nightly");
    }
    if run::works(nightly().args(["fuzz", "--version"])) {
        return Ok(());
    }
    run::succeed(run::cargo(&workspace::root()).args(["install", "--locked", "cargo-fuzz"]))
}

fn nightly() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(workspace::root()).arg("+nightly");
    // rustup sets this for the toolchain that runs us, and it would win over `+nightly`.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    command
}
