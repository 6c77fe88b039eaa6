//! The places of a lab, by the words that the recordings have for them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use signpost_lab::Topology;
use signpost_lab::topology::ROUTER;

/// Words and addresses.
pub(super) struct Places(BTreeMap<String, Ipv4Addr>);

impl Places {
    /// Those of a topology.
    pub(super) fn of(t: &Topology) -> Self {
        let mut places = BTreeMap::from([
            (ROUTER.to_owned(), t.router),
            ("loopback".to_owned(), Ipv4Addr::LOCALHOST),
        ]);
        for client in t.outsiders() {
            places.insert(client.name.clone(), client.address);
        }
        for node in &t.nodes {
            let letter = node.name.trim_start_matches("node-");
            places.insert(node.name.clone(), node.address);
            places.insert(format!("gateway-{letter}"), node.gateway());
            places.extend(t.management(node).map(|a| (format!("mgmt-{letter}"), a)));
            places.extend(node.pods.iter().map(|p| (p.name.clone(), p.address)));
        }
        Self(places)
    }

    /// The address of a place; an address is itself.
    pub(super) fn address(&self, word: &str) -> Option<Ipv4Addr> {
        self.0.get(word).copied().or_else(|| word.parse().ok())
    }

    /// The word for an address, or the address.
    pub(super) fn word(&self, address: Ipv4Addr) -> String {
        let known = self.0.iter().find(|(_, a)| **a == address);
        known.map_or_else(|| address.to_string(), |(word, _)| word.clone())
    }

    /// Whether something of the lab has it.
    pub(super) fn taken(&self, address: Ipv4Addr) -> bool {
        self.0.values().any(|a| *a == address)
    }
}
