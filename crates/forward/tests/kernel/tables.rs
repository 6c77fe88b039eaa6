//! Tables as the plan would give them.

use std::net::IpAddr;

use signpost_plan::{Backend, Entry, Outsiders, Protocol, ServiceKey, Table};

use crate::bed::POD_PORT;

pub(crate) fn key(name: &str) -> ServiceKey {
    ServiceKey { namespace: "default".into(), name: name.into() }
}

/// An endpoint on the node.
pub(crate) fn here(address: &str) -> Backend {
    Backend { address: address.parse().unwrap(), port: POD_PORT, local: true }
}

/// An endpoint elsewhere.
pub(crate) fn there(address: &str) -> Backend {
    Backend { local: false, ..here(address) }
}

/// A Service with one port, by TCP and UDP, under `externalTrafficPolicy: Cluster`.
pub(crate) fn cluster(name: &str, vip: &str, backends: &[Backend]) -> Table {
    table(name, vip, backends, |_| Outsiders::AsCluster)
}

/// The same under `Local`.
pub(crate) fn local(name: &str, vip: &str, backends: &[Backend]) -> Table {
    table(name, vip, backends, |backends| {
        Outsiders::Local(backends.iter().filter(|b| b.local).copied().collect())
    })
}

fn table(
    name: &str,
    vip: &str,
    backends: &[Backend],
    outsiders: impl Fn(&[Backend]) -> Outsiders,
) -> Table {
    let address: IpAddr = vip.parse().unwrap();
    let mut backends = backends.to_vec();
    backends.sort();
    let entry = |protocol| Entry {
        address,
        protocol,
        port: 80,
        cluster: backends.clone(),
        outsiders: outsiders(&backends),
    };
    Table { service: key(name), entries: vec![entry(Protocol::Tcp), entry(Protocol::Udp)] }
}
