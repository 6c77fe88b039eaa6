//! `signpost lab matrix`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use signpost_lab::matrix::{self, Expected};
use signpost_lab::{Error, Lab, LabName, Scoped, Topology};

#[derive(Args)]
pub(super) struct Matrix {
    /// A lab that is up; if none of this name is, one is built for the measurement
    #[arg(long, default_value = "matrix", value_parser = super::lab_name)]
    name: LabName,
    /// For a lab that is built: nodes, pods and clients as YAML or JSON
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Another table of expectations than the built-in one
    #[arg(long, value_name = "FILE")]
    expected: Option<PathBuf>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

pub(super) fn run(m: &Matrix, out: &mut impl Write) -> Result<ExitCode> {
    let expected = match &m.expected {
        None => Expected::built_in(),
        Some(file) => std::fs::read_to_string(file)
            .with_context(|| file.display().to_string())?
            .parse()
            .with_context(|| file.display().to_string())?,
    };
    let report = match Lab::attach(&m.name) {
        Ok(lab) => matrix::run(&lab, &expected)?,
        Err(Error::Missing(_)) => {
            let topology = match &m.topology {
                Some(file) => Topology::from_file(file)?,
                None => Topology::default(),
            };
            let lab = Scoped::up(&m.name, topology, super::options(true, Vec::new())?)?;
            matrix::run(&lab, &expected)?
        }
        Err(e) => return Err(e.into()),
    };
    match m.output {
        Output::Table => write!(out, "{}", report.text())?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            writeln!(out)?;
        }
    }
    Ok(if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
