//! Signpost: forwards and announces Kubernetes Services on machines that you own, as one system.

mod agent;
mod cli;
mod watch;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
