//! One request to the agent of this node, one reply.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The agent answers from memory; a longer silence means that it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn ask(socket: &Path, request: &Value) -> Result<Value> {
    let mut stream = UnixStream::connect(socket).with_context(|| {
        format!(
            "no agent answers at {} (is it running? `--socket` names another place)",
            socket.display()
        )
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).context("the agent does not answer")?;
    let reply: Value = serde_json::from_str(&line).context("the agent's answer is not JSON")?;
    if let Some(e) = reply.get("error").and_then(Value::as_str) {
        bail!("{e}");
    }
    Ok(reply)
}
