//! Runs the mesh under faults, seed by seed: `simulate --seeds 0..10000 --members 3..10 --addresses 20`.
//! `--seed N` replays one and prints what happened.

#![allow(clippy::print_stdout)]

#[path = "../tests/sim/mod.rs"]
mod sim;

use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sim::{Outcome, Size, run};

struct Options {
    seeds: RangeInclusive<u64>,
    members: RangeInclusive<u64>,
    addresses: usize,
    seconds: u64,
    faults: usize,
    threads: usize,
    log: bool,
}

fn main() -> ExitCode {
    let Some(options) = parse(std::env::args().skip(1)) else {
        println!(
            "simulate [--seeds A..B | --seed N] [--members A..B] [--addresses N] [--seconds N] \
             [--faults N] [--threads N]"
        );
        return ExitCode::FAILURE;
    };
    let next = AtomicU64::new(*options.seeds.start());
    let total = Mutex::new((Outcome::default(), 0u64));
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > *options.seeds.end() {
                        return;
                    }
                    let outcome = run(seed, size(seed, &options));
                    for line in outcome.log.iter().chain(&outcome.violations) {
                        println!("{line}");
                    }
                    add(&mut total.lock().expect("no thread panics with it"), outcome);
                }
            });
        }
    });
    let (total, seeds) = total.into_inner().expect("no thread panics with it");
    println!(
        "{seeds} seeds, {} faults, {} claims, {} inputs; longest with two {:?}, with none {:?}; {} violations",
        total.faults,
        total.moves,
        total.inputs,
        total.longest_two,
        total.longest_none,
        total.violations.len()
    );
    if total.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn size(seed: u64, o: &Options) -> Size {
    let span = o.members.end() - o.members.start() + 1;
    Size {
        members: (o.members.start() + seed % span) as usize,
        addresses: o.addresses,
        length: Duration::from_secs(o.seconds),
        faults: o.faults,
        log: o.log,
    }
}

fn add((total, seeds): &mut (Outcome, u64), outcome: Outcome) {
    *seeds += 1;
    total.faults += outcome.faults;
    total.moves += outcome.moves;
    total.inputs += outcome.inputs;
    total.longest_two = total.longest_two.max(outcome.longest_two);
    total.longest_none = total.longest_none.max(outcome.longest_none);
    total.violations.extend(outcome.violations);
}

fn parse(mut args: impl Iterator<Item = String>) -> Option<Options> {
    let mut o = Options {
        seeds: 0..=99,
        members: 3..=10,
        addresses: 20,
        seconds: 65,
        faults: 8,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        log: false,
    };
    while let Some(flag) = args.next() {
        let value = args.next()?;
        match flag.as_str() {
            "--seeds" => o.seeds = range(&value, false)?,
            "--seed" => {
                let seed = value.parse().ok()?;
                (o.seeds, o.log) = (seed..=seed, true);
            }
            "--members" => o.members = range(&value, true)?,
            "--addresses" => o.addresses = value.parse().ok()?,
            "--seconds" => o.seconds = value.parse().ok().filter(|&s| s >= 20)?,
            "--faults" => o.faults = value.parse().ok()?,
            "--threads" => o.threads = value.parse().ok()?,
            _ => return None,
        }
    }
    Some(o)
}

/// `A..B`; B belongs to it where it counts members, and does not where it counts seeds.
fn range(text: &str, inclusive: bool) -> Option<RangeInclusive<u64>> {
    match text.split_once("..") {
        Some((a, b)) => {
            let (a, b): (u64, u64) = (a.parse().ok()?, b.parse().ok()?);
            let last = if inclusive { b } else { b.checked_sub(1)? };
            (a <= last).then_some(a..=last)
        }
        None => text.parse().ok().map(|n| n..=n),
    }
}
