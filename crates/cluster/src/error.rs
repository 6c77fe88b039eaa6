//! What can go wrong with a cluster: the object, then what to do.

use std::path::PathBuf;

/// An operation on a cluster failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lab below it.
    #[error(transparent)]
    Lab(#[from] signpost_lab::Error),
    /// The guest of IPVS mode.
    #[error(transparent)]
    Guest(#[from] crate::vm::Error),
    /// A recording, or its measurement.
    #[error(transparent)]
    Truth(#[from] crate::truth::Error),
    /// There is none of this name.
    #[error("there is no cluster {0}: `cargo xtask cluster up --name {0}` builds it")]
    Missing(String),
    /// There is one of this name, or what is left of one.
    #[error(
        "there is a cluster {0}, or what is left of one: `cargo xtask cluster down --name {0}` ends it"
    )]
    Exists(String),
    /// It is a lab without a cluster on it.
    #[error("{0} is a lab and no cluster: `signpost lab down --name {0}` ends it")]
    Plain(String),
    /// The components cannot be built.
    #[error("the Kubernetes components are built with Go: {0}")]
    Build(String),
    /// A component did not get ready, or went away.
    #[error("{component}: {message} (its log: {log})")]
    Component {
        /// Which.
        component: String,
        /// What happened.
        message: String,
        /// Where its output is.
        log: PathBuf,
    },
    /// A program failed.
    #[error("`{command}`: {message}")]
    Command {
        /// The command line.
        command: String,
        /// Its standard error, or why it did not start.
        message: String,
    },
    /// A file.
    #[error("{what}: {cause}")]
    Io {
        /// The operation and its object.
        what: String,
        /// Why.
        cause: std::io::Error,
    },
    /// A built-in file or an answer is not what it must be.
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
