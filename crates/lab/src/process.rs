//! Processes in a lab's namespaces: started there, found there, ended there.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::At;
use crate::{Error, Namespace};

/// SIGKILL takes effect in microseconds; a process that is still there then hangs in the kernel.
const END: Duration = Duration::from_secs(5);

/// Starts a program that outlives this one. Its output goes to `log`; with none, to a pipe.
pub(crate) fn start(
    ns: &Namespace,
    program: &Path,
    args: &[String],
    log: Option<&Path>,
) -> Result<Child, Error> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).process_group(0);
    match log {
        Some(path) => {
            let file = File::options()
                .create(true)
                .append(true)
                .open(path)
                .at(|| path.display().to_string())?;
            command.stderr(file.try_clone().at(|| path.display().to_string())?).stdout(file);
        }
        None => {
            command.stdout(Stdio::piped()).stderr(Stdio::null());
        }
    }
    ns.run(|| command.spawn())?.map_err(|e| Error::Command {
        command: program.display().to_string(),
        place: ns.name().to_owned(),
        message: e.to_string(),
    })
}

/// The processes whose network namespace is one of these.
pub(crate) fn inside(inodes: &BTreeSet<u64>) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|e| {
            let pid: i32 = e.file_name().to_str()?.parse().ok()?;
            let ns = std::fs::metadata(e.path().join("ns/net")).ok()?;
            inodes.contains(&ns.ino()).then(|| Pid::from_raw(pid))
        })
        .filter(|pid| *pid != Pid::this())
        .collect()
}

/// Ends every process whose network namespace is one of these, also ones that were stopped.
pub(crate) fn end(inodes: &BTreeSet<u64>) -> Result<(), Error> {
    let deadline = Instant::now() + END;
    loop {
        let left = inside(inodes);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Error::Deadline {
                what: format!("the end of processes {left:?}"),
                seconds: END.as_secs(),
            });
        }
        for pid in left {
            // It may have ended on its own meanwhile.
            let _ = kill(pid, Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
