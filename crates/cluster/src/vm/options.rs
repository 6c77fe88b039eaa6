//! What a guest is like and where its files are.

use std::ffi::OsString;
use std::path::PathBuf;

use signpost_lab::Namespace;

use super::Error;
use super::error::At;

/// Three nodes with a kube-proxy each need about 600 MiB.
const MEMORY_MIB: u32 = 1024;

/// More than the host has make emulation slower, and two are what a small host has.
const CPUS: u32 = 2;

/// A guest to boot.
#[derive(Debug)]
pub struct Options {
    /// Its memory; what it writes to files is in it too.
    pub memory_mib: u32,
    /// Its processors.
    pub cpus: u32,
    /// For its log, its process' number and what [`Vm::attach`](super::Vm::attach) needs.
    pub directory: PathBuf,
    /// Ports of the host that lead into it.
    pub forwards: Vec<Forward>,
    /// Where its network is, instead of this process' own namespace.
    pub namespace: Option<Namespace>,
    /// What serves commands in it.
    pub server: Server,
}

impl Options {
    /// A guest of ordinary size.
    pub fn new(directory: PathBuf, server: Server) -> Self {
        Self {
            memory_mib: MEMORY_MIB,
            cpus: CPUS,
            directory,
            forwards: Vec::new(),
            namespace: None,
            server,
        }
    }
}

/// A TCP port of 127.0.0.1 on the host, and the guest's that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The host's.
    pub host_port: u16,
    /// The guest's.
    pub guest_port: u16,
}

/// A program of the host that calls [`serve`](super::serve) with the arguments that follow these.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its path.
    pub program: PathBuf,
    /// What comes first, such as a verb.
    pub arguments: Vec<OsString>,
}

impl Server {
    /// The program that runs now, with a verb.
    pub fn this_program(verb: &str) -> Result<Self, Error> {
        let program = std::env::current_exe().at(|| "the path of this program".to_owned())?;
        Ok(Self { program, arguments: vec![verb.into()] })
    }
}
