//! `cargo xtask test`: every check that a commit must pass, tier by tier.

mod floors;
mod tally;
mod tiers;

use std::time::Instant;

use anyhow::{Result, bail};

use crate::machine;
use tally::Tally;
use tiers::{TIERS, Tier};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let tiers = chosen(arguments)?;
    machine::prepare()?;
    let mut total = Tally::default();
    let mut lines = Vec::new();
    for tier in tiers {
        println!("\n== {}: {}", tier.name, tier.what);
        let began = Instant::now();
        let tally = one(tier);
        lines.push(format!("{:10} {:>4} s  {tally}", tier.name, began.elapsed().as_secs()));
        // A word with a colon and the plain form: for people, and for whatever reads logs.
        println!("{}: {tally}", tier.name);
        total += tally;
    }
    println!("\n{}", lines.join("\n"));
    for reason in &total.skipped {
        println!("skipped: {reason}");
    }
    println!("\n{total}");
    if total.failed > 0 {
        bail!("not everything holds");
    }
    Ok(())
}

/// The tiers named by `--tier`, in their own order; all without it.
fn chosen(arguments: &[String]) -> Result<Vec<&'static Tier>> {
    let mut names = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let Some(name) = argument.strip_prefix("--tier") else {
            bail!("`{argument}` is no argument of cargo xtask test [--tier NAME]...\n{}", list());
        };
        let name = match name.strip_prefix('=') {
            Some(name) => name,
            None => rest.next().map_or("", String::as_str),
        };
        if !TIERS.iter().any(|tier| tier.name == name) {
            bail!("no tier `{name}`; there are\n{}", list());
        }
        names.push(name);
    }
    Ok(TIERS.iter().filter(|tier| names.is_empty() || names.contains(&tier.name)).collect())
}

fn list() -> String {
    let lines: Vec<_> =
        TIERS.iter().map(|tier| format!("  {:10} {}", tier.name, tier.what)).collect();
    lines.join("\n")
}

/// Runs a tier. What it cannot run, and a count below its floor, are failures, never silence.
fn one(tier: &Tier) -> Tally {
    let mut tally = match (tier.run)() {
        Ok(tally) => tally,
        Err(error) => {
            println!("{}: {error:#}", tier.name);
            Tally::failed()
        }
    };
    if machine::is_ci() {
        for reason in &tally.skipped {
            println!("{}: skipped in CI: {reason}", tier.name);
            tally.failed += 1;
        }
    }
    let complete = tally.failed == 0 && tally.skipped.is_empty();
    match floors::of(tier.name) {
        Ok(floor) if complete && tally.passed < floor => {
            println!(
                "{}: {} passed, and the floor in xtask/floors.txt is {floor}: tests have vanished",
                tier.name, tally.passed
            );
            tally.failed += 1;
        }
        Ok(_) => {}
        Err(error) => {
            println!("{}: {error:#}", tier.name);
            tally.failed += 1;
        }
    }
    tally
}
