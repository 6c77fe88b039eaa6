//! A cluster of network namespaces on this machine: nodes, pods, a router, clients, faults.
//!
//! A [`Lab`] is real kernels' worth of network stacks with real processes in them. It touches
//! nothing outside its own namespaces and `/run/signpost-lab/NAME`.

mod added;
mod agent;
pub mod arp;
pub mod bench;
pub mod demo;
mod error;
mod fault;
mod lab;
pub mod manifest;
pub mod matrix;
mod name;
mod namespace;
pub mod pod;
pub mod probe;
mod process;
mod scoped;
mod server;
mod stage;
pub mod topology;
mod wiring;

pub use added::Added;
pub use error::Error;
pub use fault::Fault;
pub use lab::{Lab, Options, POD_PORT, down, root};
pub use name::LabName;
pub use namespace::Namespace;
pub use scoped::Scoped;
pub use server::Server;
pub use topology::Topology;
