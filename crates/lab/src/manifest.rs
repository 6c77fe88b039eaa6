//! The Kubernetes objects of a lab, as YAML.

mod cluster;
mod service;

use std::fmt::Display;

pub(crate) use cluster::of_topology;
pub use service::{Kind, Label, Policy, Port, Service, State, Transport};

/// The elements of a YAML list.
fn listed<T: Display>(list: impl IntoIterator<Item = T>) -> String {
    let list: Vec<String> = list.into_iter().map(|e| e.to_string()).collect();
    list.join(", ")
}
