//! Programs of this machine: found, run, listened to.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::vm::Error;

/// System folders that an ordinary user's PATH leaves out.
const SYSTEM_FOLDERS: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Where it is.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// The program, also where PATH leaves it out; its start fails if it is not there.
pub(super) fn command(name: &str) -> Command {
    Command::new(find(name).as_deref().unwrap_or(Path::new(name)))
}

/// Runs it to its end and returns what it printed.
pub(super) fn output(command: &mut Command, stdin: &[u8]) -> Result<Vec<u8>, Error> {
    let line = shown(command);
    let fault = |message: String| Error::Command { command: line.clone(), message };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| fault(e.to_string()))?;
    let pipe = child.stdin.take();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // One that does not want all of it says so with its exit code.
            let _ = pipe.map(|mut pipe| pipe.write_all(stdin));
        });
        child.wait_with_output()
    });
    let output = output.map_err(|e| fault(e.to_string()))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(fault(format!("{}: {}", output.status, stderr.trim())))
}

fn shown(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_named_with_its_words() {
        let mut command = command("sh");
        command.args(["-c", "cat >&2; exit 3"]);
        let error = output(&mut command, b"no good").unwrap_err().to_string();
        assert!(error.contains("sh -c cat"), "{error}");
        assert!(error.ends_with("exit status: 3: no good"), "{error}");
    }

    #[test]
    fn more_input_than_a_pipe_holds_comes_through() {
        let input = vec![b'x'; 1 << 20];
        assert_eq!(output(&mut command("cat"), &input).unwrap(), input);
    }
}
