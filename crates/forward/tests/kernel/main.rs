//! The dataplane on a real kernel, in namespaces of its own. Needs root.
#![allow(clippy::unwrap_used)]

mod bed;
mod edits;
mod flushed;
mod guards;
mod kinds;
mod probe;
mod sctp;
mod senders;
mod tables;
