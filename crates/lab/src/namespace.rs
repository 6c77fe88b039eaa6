//! One network namespace: entering it, and running programs and closures there.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use nix::sched::{CloneFlags, setns};

use crate::Error;
use crate::error::At;

/// An open network namespace with a name under `/run/netns`.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// Opens the one of this name.
    pub fn open(name: &str) -> Result<Self, Error> {
        let file = File::open(path(name)).at(|| format!("network namespace {name}"))?;
        Ok(Self { name: name.to_owned(), file })
    }

    /// Its name under `/run/netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its inode: what `/proc/PID/ns/net` shows for the processes in it.
    pub fn inode(&self) -> Result<u64, Error> {
        Ok(self.file.metadata().at(|| self.name.clone())?.ino())
    }

    /// Runs `f` in it, on a thread of its own, and waits.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, Error> {
        std::thread::scope(|s| {
            s.spawn(|| self.enter().map(|()| f()))
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs `f` in it, on a thread of its own, and goes on.
    pub fn spawn<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<Result<T, Error>>, Error> {
        let there =
            Self { name: self.name.clone(), file: self.file.try_clone().at(|| self.name.clone())? };
        Ok(std::thread::spawn(move || there.enter().map(|()| f())))
    }

    /// Runs a program in it to its end and returns what it printed.
    pub fn command(&self, program: &str, args: &[&str], stdin: &str) -> Result<String, Error> {
        let fault = |message: String| Error::Command {
            command: format!("{program} {}", args.join(" ")),
            place: self.name.clone(),
            message,
        };
        let output = self
            .run(|| -> std::io::Result<_> {
                let mut child = Command::new(program)
                    .args(args)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()?;
                if let Some(mut pipe) = child.stdin.take() {
                    pipe.write_all(stdin.as_bytes())?;
                }
                child.wait_with_output()
            })?
            .map_err(|e| fault(e.to_string()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(fault(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }

    /// Starts a program in it that outlives this one, with its output appended to a file.
    pub fn start(&self, program: &Path, args: &[String], log: &Path) -> Result<Child, Error> {
        crate::process::start(self, program, args, Some(log))
    }

    /// Runs lines of `ip` in it, in one process.
    pub fn ip(&self, lines: &str) -> Result<(), Error> {
        self.command("ip", &["-batch", "-"], lines).map(|_| ())
    }

    /// Sets a sysctl of this namespace, by its path below `/proc/sys/net`.
    pub fn sysctl(&self, path: &str, value: &str) -> Result<(), Error> {
        self.run(|| std::fs::write(format!("/proc/sys/net/{path}"), value))?
            .at(|| format!("net/{path} in {}", self.name))
    }

    /// Moves the calling thread into it, for good.
    fn enter(&self) -> Result<(), Error> {
        setns(&self.file, CloneFlags::CLONE_NEWNET).at(|| format!("entering {}", self.name))
    }
}

/// The names under `/run/netns` that begin so.
pub(crate) fn with_prefix(prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.filter_map(|e| e.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|n| n.starts_with(prefix)).collect();
    names.sort();
    names
}

/// Makes or removes namespaces, in one process.
pub(crate) fn change(verb: &str, names: &[String]) -> Result<(), Error> {
    let fault = |message: String| Error::Command {
        command: format!("ip netns {verb}"),
        place: "this machine".to_owned(),
        message,
    };
    let mut child = Command::new("ip")
        .args(["-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| fault(format!("{e} (is iproute2 installed?)")))?;
    if let Some(mut pipe) = child.stdin.take() {
        for name in names {
            writeln!(pipe, "netns {verb} {name}").at(|| format!("ip netns {verb}"))?;
        }
    }
    let output = child.wait_with_output().at(|| format!("ip netns {verb}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(fault(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(name)
}
