//! `signpost lab bench`: figures of whole labs.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use signpost_lab::bench::{self, Figure};
use signpost_lab::{Error, LabName};

#[derive(Args)]
pub(super) struct Bench {
    /// Which
    #[arg(value_enum)]
    which: Which,
    /// What its lab is called; it is up only while the bench runs
    #[arg(long, default_value = "bench", value_parser = super::lab_name)]
    name: LabName,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    /// The owner's cable pulled
    Cable,
    /// One endpoint changes among many
    Change,
    /// Nodes drained under probes
    Drain,
    /// Agents restarted under long-lived connections
    Restart,
    /// The agent's memory
    Rss,
}

pub(super) fn run(b: &Bench, out: &mut impl Write) -> Result<ExitCode> {
    let program = std::env::current_exe()?;
    let measure: fn(&LabName, PathBuf) -> Result<Vec<Figure>, Error> = match b.which {
        Which::Cable => bench::cable,
        Which::Change => bench::change,
        Which::Drain => bench::drain,
        Which::Restart => bench::restart,
        Which::Rss => bench::rss,
    };
    for figure in measure(&b.name, program)? {
        write!(out, "{}: {}", figure.what, figure.measured)?;
        if let Some((ratio, baseline)) = figure.ratio {
            write!(out, "; {ratio:.2} x {baseline}")?;
        }
        writeln!(out)?;
    }
    Ok(ExitCode::SUCCESS)
}
