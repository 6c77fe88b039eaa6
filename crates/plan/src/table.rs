//! The oracle: which endpoints serve, for each kind of sender.

use std::net::IpAddr;

use crate::world::{Service, ServicePort, TrafficPolicy};
use crate::{NodeName, Protocol, ServiceKey, World};

mod endpoints;

pub(crate) use endpoints::{Endpoints, endpoints};

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

impl Entry {
    /// The endpoints that packets from outside are led to.
    pub fn outsider_backends(&self) -> &[Backend] {
        match &self.outsiders {
            Outsiders::AsCluster => &self.cluster,
            Outsiders::Local(backends) => backends,
        }
    }
}

/// The table of one Service on one node, or `None` where nothing is programmed for it.
///
/// An address counts once it lies in a pool and is no node's own, whatever its `ipMode`. Of two
/// Services with the same address, protocol and port only the first by [`Service::precedes`] has the
/// entry.
pub fn table(w: &World, s: &ServiceKey, node: &NodeName) -> Option<Table> {
    let service = w.service(s).filter(|s| s.is_programmed())?;
    let mut entries = Vec::new();
    for address in service.addresses.iter().copied().filter(|a| w.may_serve(*a)) {
        for port in won_ports(w, service, address) {
            entries.push(entry(service, port, address, endpoints(w, service, port, address, node)));
        }
    }
    entries.sort_by_key(|e: &Entry| (e.address, e.protocol, e.port));
    // Thousands of these stay in memory.
    entries.shrink_to_fit();
    (!entries.is_empty()).then(|| Table { service: s.clone(), entries })
}

/// What this version serves: IPv4, TCP and UDP. The rest is noted where it is parsed.
pub fn is_served(address: IpAddr, protocol: Protocol) -> bool {
    match protocol {
        Protocol::Tcp | Protocol::Udp => address.is_ipv4(),
        Protocol::Sctp => false,
    }
}

/// The ports of a Service that are served on an address and that no earlier Service has there.
pub(crate) fn won_ports<'a>(
    w: &'a World,
    service: &'a Service,
    address: IpAddr,
) -> impl Iterator<Item = &'a ServicePort> {
    let served = service.ports.iter().filter(move |p| is_served(address, p.protocol));
    served.filter(move |p| holder(w, address, p).is_some_and(|h| h.key == service.key))
}

/// The Service that wins an address and port.
pub(crate) fn holder<'a>(w: &'a World, address: IpAddr, port: &ServicePort) -> Option<&'a Service> {
    let asks =
        |s: &&Service| s.ports.iter().any(|p| p.protocol == port.protocol && p.port == port.port);
    w.services_of_address(address).filter(asks).reduce(|a, b| if b.precedes(a) { b } else { a })
}

fn entry(service: &Service, port: &ServicePort, address: IpAddr, e: Endpoints) -> Entry {
    let outsiders = match service.external_policy {
        TrafficPolicy::Local if !e.cluster.is_empty() => Outsiders::Local(e.local),
        TrafficPolicy::Local | TrafficPolicy::Cluster => Outsiders::AsCluster,
    };
    Entry { address, protocol: port.protocol, port: port.port, cluster: e.cluster, outsiders }
}
