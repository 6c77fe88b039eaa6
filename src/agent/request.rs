//! What may be asked of a running agent: one JSON line, answered by one.

use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Addresses, members, rules, diagnostics.
    Status,
    /// Move this node's addresses off, and keep them off.
    Drain,
    /// Let them come back.
    Undrain,
    /// Hand the sockets and the lock over and end.
    Takeover,
    /// Misbehave, for the lab (`--lab-faults`).
    Fault {
        /// How.
        fault: Fault,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fault {
    /// The kernel writer writes nothing.
    HoldWrites,
    /// It writes again.
    ReleaseWrites,
    /// The control loop stands still.
    HangControl,
    /// It goes on.
    ReleaseControl,
}
