//! The dataplane on a real kernel, in namespaces of its own. Needs root.

mod bed;
mod probe;
mod senders;
mod tables;
