//! What can go wrong with a lab: the object, then what to do.

use std::path::PathBuf;

/// An operation on a lab failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Namespaces need root.
    #[error("a lab makes network namespaces, which only root may: run it with sudo")]
    NotRoot,
    /// The name of a lab is no good.
    #[error("the lab's name {0:?} is not 1 to 20 of a-z, 0-9 and '-': choose another --name")]
    Name(String),
    /// It is up already.
    #[error("lab {0} is up already: `signpost lab down --name {0}` ends it")]
    Exists(String),
    /// It is not up.
    #[error("there is no lab {0}: `signpost lab up --name {0}` builds it")]
    Missing(String),
    /// The topology is wrong.
    #[error("topology: {0}")]
    Topology(String),
    /// The topology's file does not parse.
    #[error("{file}: {message}")]
    TopologyFile {
        /// The file.
        file: PathBuf,
        /// What the parser says, with line and column.
        message: String,
    },
    /// No such node, pod or client.
    #[error("lab {lab} has no {what}: it has {known}")]
    Unknown {
        /// The lab.
        lab: String,
        /// What was asked for.
        what: String,
        /// What there is.
        known: String,
    },
    /// A program could not be run, or failed.
    #[error("`{command}` in {place}: {message}")]
    Command {
        /// The command line.
        command: String,
        /// The namespace.
        place: String,
        /// Its standard error, or why it did not start.
        message: String,
    },
    /// A file or socket.
    #[error("{what}: {cause}")]
    Io {
        /// The operation and its object.
        what: String,
        /// Why.
        cause: std::io::Error,
    },
    /// An agent did not get ready, or went away.
    #[error("the agent of {node}: {message} (its log: {log})")]
    Agent {
        /// The node.
        node: String,
        /// What happened.
        message: String,
        /// Where its output is.
        log: PathBuf,
    },
    /// Something awaited did not come.
    #[error("not within {seconds} s: {what}")]
    Deadline {
        /// What was awaited.
        what: String,
        /// How long.
        seconds: u64,
    },
    /// A captured or built-in file is not what it must be.
    #[error("{0}")]
    Data(String),
}

/// Names the object of a failed system call.
pub(crate) trait At<T> {
    fn at(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<std::io::Error>> At<T> for Result<T, E> {
    fn at(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|e| Error::Io { what: what(), cause: e.into() })
    }
}
