//! Who may run programs in the guest.
//!
//! Every user of the host reaches 127.0.0.1, and a guest of root's reads every file of the host: a
//! request bears what only a reader of the guest's directory knows.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::vm::Error;
use crate::vm::error::At;

/// 256 bits, in hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::vm) struct Key(String);

impl Key {
    /// Leaves a new one in the directory.
    pub(in crate::vm) fn make(directory: &Path) -> Result<(), Error> {
        let mut bytes = [0; 32];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut bytes))
            .at(|| "/dev/urandom".to_owned())?;
        let key: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = Self::path(directory);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(key.as_bytes()))
            .at(|| path.display().to_string())
    }

    /// The one in a file.
    pub(super) fn read(mut file: &File) -> std::io::Result<Self> {
        let mut key = String::new();
        file.read_to_string(&mut key)?;
        Ok(Self(key))
    }

    /// Where it is.
    pub(in crate::vm) fn path(directory: &Path) -> PathBuf {
        directory.join("key")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}
