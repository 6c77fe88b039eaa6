//! A file per verb.

mod agent;
mod drain;
mod lab;
mod socket;
mod status;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Forwards and announces Kubernetes Services on machines that you own, as one system.
#[derive(Parser)]
#[command(name = "signpost", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// The node: forwards Service traffic and announces the addresses that this node can serve
    Agent(agent::Agent),
    /// Moves this node's addresses to other nodes, and keeps them away until `undrain`
    Drain(drain::Drain),
    /// A whole cluster of network namespaces on this machine, to try things out
    Lab(lab::Lab),
    /// Who announces what, from where, and why
    Status(status::Status),
    /// Lets addresses come back to this node
    Undrain(drain::Drain),
}

/// Where the agent of this node listens.
#[derive(clap::Args)]
struct AgentSocket {
    /// The agent's UNIX socket
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET, env = "SIGNPOST_SOCKET")]
    socket: PathBuf,
}

const DEFAULT_SOCKET: &str = "/run/signpost/agent.sock";

pub(crate) fn run() -> ExitCode {
    let verb = Cli::parse().verb;
    let done = match verb {
        Verb::Agent(a) => agent::run(a),
        Verb::Drain(d) => drain::run(&d, drain::Direction::Off),
        Verb::Lab(l) => lab::run(l),
        Verb::Status(s) => status::run(&s),
        Verb::Undrain(d) => drain::run(&d, drain::Direction::Back),
    };
    match done {
        Ok(code) => code,
        Err(e) if broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(std::io::stderr(), "error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the reader of our output went away, as `| head` does.
fn broken_pipe(e: &anyhow::Error) -> bool {
    e.chain().any(|c| {
        c.downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
