//! The real Kubernetes components on a lab: an API server, its controllers, a kube-proxy for each
//! node, and a stand-in for each kubelet.

mod cluster;
mod components;
mod control;
mod error;
pub mod guest;
mod nodes;
pub mod snapshot;
pub mod truth;
pub mod vm;

pub use cluster::{Cluster, Options, down};
pub use components::Components;
pub use error::Error;
pub use nodes::Mode;
