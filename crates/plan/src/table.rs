//! The oracle: which endpoints serve, for each kind of sender.

use std::net::IpAddr;

use crate::{NodeName, Protocol, ServiceKey, World};

/// What one node does with packets to one Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The Service.
    pub service: ServiceKey,
    /// One entry an address and port, sorted.
    pub entries: Vec<Entry>,
}

/// What one node does with packets to one address and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The address that clients ask.
    pub address: IpAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The port that clients ask.
    pub port: u16,
    /// For this node's processes and pods, and, under `Cluster`, for outsiders. Empty: refuse.
    /// Sorted by address and port; no two alike.
    pub cluster: Vec<Backend>,
    /// For packets from outside.
    pub outsiders: Outsiders,
}

/// What outsiders get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outsiders {
    /// `externalTrafficPolicy: Cluster`, or no endpoint anywhere (everybody is refused alike).
    AsCluster,
    /// `externalTrafficPolicy: Local`: these. Empty: drop, in silence.
    Local(Vec<Backend>),
}

/// One endpoint that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Backend {
    /// The pod's address.
    pub address: IpAddr,
    /// The pod's port.
    pub port: u16,
    /// On the node that the table is for (`endpoint.nodeName`).
    pub local: bool,
}

/// The table of one Service on one node, or `None` where nothing is programmed for it.
pub fn table(_w: &World, _s: &ServiceKey, _node: &NodeName) -> Option<Table> {
    None
}
