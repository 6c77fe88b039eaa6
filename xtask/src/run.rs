//! Commands: shown, run, and their output counted.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// `cargo`, the same one that runs this task, from the workspace's root.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).stdin(Stdio::null());
    // Set for this program by the cargo that runs it; another workspace's build must not see them.
    for variable in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME"] {
        command.env_remove(variable);
    }
    command
}

/// Runs it with our own output; an exit code other than 0 is an error that names the command.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let line = shown(command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Runs it and returns what it printed; an exit code other than 0 is an error with its stderr.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let line = shown(command);
    let output = command.output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed: {}\n{}", output.status, why.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether it starts and succeeds; what it prints is thrown away.
pub(crate) fn works(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs it, passes each line of its output on, and gives each to `see`.
pub(crate) fn streamed(command: &mut Command, mut see: impl FnMut(&str)) -> Result<ExitStatus> {
    let line = shown(command);
    println!("$ {line}");
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start `{line}`"))?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            see(&line);
        }
    }
    Ok(child.wait()?)
}

/// The command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let mut words = vec![name(command.get_program())];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}

fn name(program: &std::ffi::OsStr) -> String {
    Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned()
}
