//! The tasks that cargo has no word for. `cargo xtask` lists them.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a task talks to a person")]

mod bench;
mod cluster;
mod demo;
mod fuzz;
mod licences;
mod machine;
mod mutants;
mod release;
mod rules;
mod run;
mod test;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
cargo xtask TASK

  demo                      build the static binary and show Signpost at work (root)
  test [--tier NAME]...     every check that a commit must pass; --tier runs only those
  cluster VERB              the real Kubernetes components on a lab: up, kubectl, down, ... (root, Go)
  bench [NAME]              figures against a baseline of the same run; no name lists them
  mutants [NAME]...         break each promise on purpose; a test must notice
  fuzz [--minutes N] [NAME]...  fuzz the parsers of hostile input (nightly)
  deps                      who depends on whom, what pure crates contain, where unsafe stands
  licences                  the licences of everything that is linked
  release                   build the static binary";

fn main() -> ExitCode {
    // In a cluster's guest this program serves, and does not what a person asks.
    let own: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(asked) = signpost_cluster::guest::run(&own) {
        return asked.unwrap_or_else(|error| failed(&error.into()));
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    dispatch(&arguments).unwrap_or_else(|error| failed(&error))
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}

fn dispatch(arguments: &[String]) -> Result<ExitCode> {
    let Some((task, rest)) = arguments.split_first() else {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    };
    match task.as_str() {
        // What kubectl ends with is told on.
        "cluster" => return cluster::run(rest),
        "demo" => demo::run(rest),
        "test" => test::run(rest),
        "bench" => bench::run(rest),
        "mutants" => mutants::run(rest),
        "fuzz" => fuzz::run(rest),
        "deps" => rules::run(),
        "licences" => licences::run(),
        "release" => release::run(),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        unknown => bail!("no task `{unknown}`\n\n{USAGE}"),
    }?;
    Ok(ExitCode::SUCCESS)
}
