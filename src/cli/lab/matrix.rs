//! `signpost lab matrix`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use signpost_lab::manifest::Transport;
use signpost_lab::matrix::{self, Expected, Forward, Scope};
use signpost_lab::{Error, Family, Lab, LabName, Scoped, Topology};

#[derive(Args)]
pub(super) struct Matrix {
    /// A lab that is up; if none of this name is, one is built for the measurement
    #[arg(long, default_value = "matrix", value_parser = super::lab_name)]
    name: LabName,
    /// For a lab that is built
    #[command(flatten)]
    topology: super::topology::Which,
    /// What the agents forward; `vip` asks for nothing else
    #[arg(long, value_enum, default_value_t = Forwards::Vip)]
    forward: Forwards,
    /// Measure only one family
    #[arg(long, value_name = "ipv4|ipv6")]
    family: Option<Family>,
    /// Measure SCTP beside TCP and UDP
    #[arg(long)]
    sctp: bool,
    /// Measure only the rows of the table whose names contain this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Another table of expectations than the built-in one
    #[arg(long, value_name = "FILE")]
    expected: Option<PathBuf>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Forwards {
    /// LoadBalancers and external addresses
    Vip,
    /// ClusterIPs and NodePorts too
    All,
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
        Ok(lab) => matrix::run(&lab, &expected, &m.scope(lab.topology()))?,
        Err(Error::Missing(_)) => {
            let agent_args = match m.forward {
                Forwards::Vip => Vec::new(),
                Forwards::All => ["--forward", "all"].map(str::to_owned).to_vec(),
            };
            let options = super::options(true, agent_args)?;
            let lab = Scoped::up(&m.name, m.topology.read()?, options)?;
            matrix::run(&lab, &expected, &m.scope(lab.topology()))?
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

impl Matrix {
    fn scope(&self, t: &Topology) -> Scope {
        let forward = match self.forward {
            Forwards::Vip => Forward::Vip,
            Forwards::All => Forward::All,
        };
        let mut scope = Scope::of(forward, t);
        if let Some(family) = self.family {
            scope.families = vec![family];
        }
        if self.sctp {
            scope.transports.push(Transport::Sctp);
        }
        match &self.only {
            Some(text) => scope.only(text),
            None => scope,
        }
    }
}
