//! The guest: booted, found again, told to run programs, ended.

use std::fs::{DirBuilder, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::Pid;
use signpost_lab::Namespace;

use super::channel::{self, Caller, Key, Output};
use super::error::At;
use super::qemu::{self, CommandLine};
use super::ready::Ready;
use super::state::State;
use super::{Error, Image, Options};

/// Enough to see why a kernel stopped.
const TAIL_LINES: usize = 20;

/// A guest that runs. It goes on when this is dropped; [`end`](Self::end) ends it.
#[derive(Debug)]
pub struct Vm {
    pid: Pid,
    caller: Caller,
}

impl Vm {
    /// Starts it and waits until it takes commands.
    pub fn boot(image: &Image, options: Options) -> Result<Self, Error> {
        let directory = own_directory(&options.directory)?;
        // Another boot here is over before this one looks.
        let folder = File::open(&directory).at(|| directory.display().to_string())?;
        let _lock = Flock::lock(folder, FlockArg::LockExclusive)
            .map_err(|(_, e)| e)
            .at(|| format!("locking {}", directory.display()))?;
        match (qemu::running(&directory), State::read(&directory)?) {
            (Some(_), Some(_)) => return Err(Error::Exists(directory)),
            // Whoever booted it was killed before it was up.
            (Some(left), None) => qemu::end(left, &directory)?,
            (None, _) => {}
        }
        State::remove(&directory)?;
        let port = free_port(options.namespace.as_ref())?;
        Key::make(&directory)?;
        let line = CommandLine { image, options: &options, directory: &directory, port };
        let ready = Ready::listen(&directory)?;
        let pid = qemu::start(&line)?;
        if let Err(why) = ready.wait() {
            let tail = tail(&directory);
            qemu::end(pid, &directory)?;
            State::remove(&directory)?;
            return Err(Error::Boot { directory, why, tail });
        }
        let namespace = options.namespace;
        State::new(port, namespace.as_ref().map(Namespace::name)).write(&directory)?;
        Ok(Self { pid, caller: Caller { directory, port, namespace } })
    }

    /// Finds the one that was booted with this directory.
    pub fn attach(directory: &Path) -> Result<Self, Error> {
        let missing = || Error::Missing(directory.to_owned());
        let directory = directory.canonicalize().map_err(|_| missing())?;
        let pid = qemu::running(&directory).ok_or_else(missing)?;
        let state = State::read(&directory)?.ok_or_else(missing)?;
        let namespace = state.namespace().map(Namespace::open).transpose()?;
        let caller = Caller { directory, port: state.port(), namespace };
        Ok(Self { pid, caller })
    }

    /// Runs a program to its end. Many may run at once.
    pub fn run(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, Error> {
        channel::run(&self.caller, argv, stdin)
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        &self.caller.directory
    }

    /// Where its kernel's messages are.
    pub fn log(&self) -> PathBuf {
        qemu::log(self.directory())
    }

    /// Ends it, as if its power went. The log stays.
    pub fn end(self) -> Result<(), Error> {
        self.stop()
    }

    pub(super) fn stop(&self) -> Result<(), Error> {
        qemu::end(self.pid, self.directory())?;
        State::remove(self.directory())
    }
}

/// The key in it opens the host's files to whoever reads it.
fn own_directory(directory: &Path) -> Result<PathBuf, Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .and_then(|()| directory.canonicalize())
        .at(|| directory.display().to_string())
}

/// A port of 127.0.0.1 that is free now. The kernel gives such numbers at random: that another
/// program gets the same one until qemu asks for it is unlikely, and qemu would say so.
fn free_port(namespace: Option<&Namespace>) -> Result<u16, Error> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|s| s.local_addr());
    let address = match namespace {
        Some(namespace) => namespace.run(bind)?,
        None => bind(),
    };
    let place = || namespace.map_or("this machine", Namespace::name).to_owned();
    Ok(address.at(|| format!("a port of 127.0.0.1 in {}", place()))?.port())
}

fn tail(directory: &Path) -> String {
    let log = std::fs::read(qemu::log(directory)).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
