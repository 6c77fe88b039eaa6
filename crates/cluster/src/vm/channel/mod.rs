//! How programs are run in the guest: one TCP connection each, through the emulator's network.
//!
//! The guest greets; the caller sends a [`Request`] and the standard input; the guest answers with a
//! [`Reply`], the standard output and the standard error. Each is a [`frame`].

mod caller;
mod collect;
mod frame;
mod key;
mod server;

use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ready;

pub(super) use caller::{Caller, run};
pub(super) use key::Key;
pub use server::serve;

/// The guest's port.
pub(super) const PORT: u16 = 9999;

/// What the guest says to whoever comes.
const GREETING: &[u8] = b"signpost guest";

/// A program ran to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// What it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error.
    pub stderr: Vec<u8>,
    /// Its exit code; 128 and the signal's number if a signal ended it.
    pub code: i32,
}

/// What a caller wants.
#[derive(Serialize, Deserialize)]
struct Request {
    key: Key,
    argv: Vec<String>,
}

/// What became of it.
#[derive(Serialize, Deserialize, Debug)]
enum Reply {
    /// It ran to its end, with this code; its output follows.
    Ended(i32),
    /// It did not, and this is why.
    Failed(String),
}

/// What [`serve`] takes, after whatever leads to it.
pub(super) fn arguments(key: &Path) -> [OsString; 3] {
    [format!("0.0.0.0:{PORT}").into(), key.into(), ready::PORT.into()]
}
