//! `signpost drain`, `signpost undrain`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

#[derive(clap::Args)]
pub(super) struct Drain {
    #[command(flatten)]
    agent: super::AgentSocket,
}

#[derive(Clone, Copy)]
pub(super) enum Direction {
    Off,
    Back,
}

pub(super) fn run(drain: &Drain, direction: Direction) -> Result<ExitCode> {
    let (request, done) = match direction {
        Direction::Off => ("drain", "drained: other members take this node's addresses over"),
        Direction::Back => ("undrain", "undrained: this node may own addresses again"),
    };
    super::socket::ask(&drain.agent.socket, &json!({ "request": request }))?;
    writeln!(std::io::stdout(), "{done}")?;
    Ok(ExitCode::SUCCESS)
}
