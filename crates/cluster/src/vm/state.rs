//! What a directory says of its guest, for the processes that come after the one that booted it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Error;
use super::channel::Key;
use super::error::At;
use super::qemu;

/// A guest that came up. Its process is in qemu's own file.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct State {
    port: u16,
    namespace: Option<String>,
}

impl State {
    pub(super) fn new(port: u16, namespace: Option<&str>) -> Self {
        Self { port, namespace: namespace.map(str::to_owned) }
    }

    /// Of 127.0.0.1 on the host: it leads to the command server.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Where that 127.0.0.1 is, if not in the host's own.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// What the directory says; nothing if no guest came up, or it was ended.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>, Error> {
        let path = path(directory);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e).at(|| path.display().to_string()),
        };
        serde_json::from_slice(&text).map(Some).at(|| path.display().to_string())
    }

    pub(super) fn write(&self, directory: &Path) -> Result<(), Error> {
        let text = serde_json::to_vec(self).expect("a number and a name");
        // Whoever looks sees all of it or nothing.
        let (part, path) = (directory.join("state.part"), path(directory));
        std::fs::write(&part, text)
            .and_then(|()| std::fs::rename(&part, &path))
            .at(|| path.display().to_string())
    }

    /// Removes everything but the log.
    pub(super) fn remove(directory: &Path) -> Result<(), Error> {
        for path in [path(directory), Key::path(directory), qemu::pid_file(directory)] {
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(e).at(|| path.display().to_string());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn path(directory: &Path) -> PathBuf {
    directory.join("state.json")
}
