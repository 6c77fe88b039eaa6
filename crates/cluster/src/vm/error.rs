//! What can go wrong with a guest: the object, then what to do.

use std::path::PathBuf;

/// An operation on a guest failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The guest runs this machine's programs.
    #[error("a guest runs this machine's own programs on x86_64, and this machine is {0}")]
    Machine(&'static str),
    /// Packages are missing and this process may not install them.
    #[error("packages are missing; install them and try again:\n  sudo {0}")]
    NotInstalled(String),
    /// Packages are missing and there is no apt.
    #[error("these Debian packages, or what brings the same here, are missing: {0}")]
    NoApt(String),
    /// apt does not know the kernel.
    #[error(
        "apt knows no package {package}*, which Debian 12 has: put its file, and busybox-static's, \
         into {folder} (from https://packages.debian.org/bookworm/linux-image-amd64)"
    )]
    NoKernel {
        /// What its name begins with.
        package: &'static str,
        /// Where to put it.
        folder: PathBuf,
    },
    /// A file of the kernel is not what it must be.
    #[error("{file}: {why}; delete the image's folder to get it anew")]
    Image {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// A program could not be run, or failed.
    #[error("`{command}`: {message}")]
    Command {
        /// The command line.
        command: String,
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
    /// The namespace for the guest.
    #[error(transparent)]
    Lab(#[from] signpost_lab::Error),
    /// One runs already.
    #[error("{0}: a guest runs here already: end it, or choose another directory")]
    Exists(PathBuf),
    /// None runs.
    #[error("{0}: no guest runs here: boot one")]
    Missing(PathBuf),
    /// The kernel reads no longer ones.
    #[error(
        "the kernel's command line has {length} bytes of {max}: take a shorter path for {what}"
    )]
    CommandLine {
        /// How long it is.
        length: usize,
        /// How long it may be.
        max: usize,
        /// What there is of paths in it.
        what: String,
    },
    /// The guest did not come up.
    #[error("the guest in {directory} {why}; the end of its kernel's log:\n{tail}")]
    Boot {
        /// Where its files are.
        directory: PathBuf,
        /// What happened, as a verb.
        why: String,
        /// The last lines of the log.
        tail: String,
    },
    /// A command was not run to its end.
    #[error("`{command}` in the guest: {message}")]
    Run {
        /// The command line.
        command: String,
        /// What happened.
        message: String,
    },
    /// The command server got arguments that [`Vm::boot`](super::Vm::boot) does not give.
    #[error("this serves commands in a guest and is started there: {0}")]
    Serve(String),
}

/// Names the object of a failed system call.
pub(super) trait At<T> {
    fn at(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<std::io::Error>> At<T> for Result<T, E> {
    fn at(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|e| Error::Io { what: what(), cause: e.into() })
    }
}
