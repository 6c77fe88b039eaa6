//! Tables as the plan would give them.

use signpost_plan::{Answer, Asked, Backend, Entry, Frontend, Protocol, ServiceKey, Table};

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
    table(name, Asked::Vip(vip.parse().unwrap()), 80, backends)
}

/// The same under `Local`.
pub(crate) fn local(name: &str, vip: &str, backends: &[Backend]) -> Table {
    let mut table = cluster(name, vip, backends);
    table.entries.iter_mut().for_each(for_outsiders_local);
    table
}

/// What `externalTrafficPolicy: Local` makes of an entry.
pub(crate) fn for_outsiders_local(entry: &mut Entry) {
    entry.local = entry.cluster.iter().filter(|b| b.local).copied().collect();
    entry.outsiders = if entry.local.is_empty() { Answer::Drop } else { Answer::Local };
}

/// A Service that is asked at one place and port, by TCP and UDP.
pub(crate) fn table(name: &str, asked: Asked, port: u16, backends: &[Backend]) -> Table {
    let mut backends = backends.to_vec();
    backends.sort();
    let entry =
        |protocol| Entry::for_everybody(Frontend { asked, protocol, port }, backends.clone());
    Table { service: key(name), entries: vec![entry(Protocol::Tcp), entry(Protocol::Udp)] }
}
