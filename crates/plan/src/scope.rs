//! What the dataplane must know of the node beside the tables.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::World;
use crate::verdict::internal_ips;

/// Who is a pod: a packet that came in by an interface that is not an uplink, or whose source lies
/// in a pod range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Interfaces by which outsiders' packets come in, sorted.
    pub uplinks: Vec<Box<str>>,
    /// Where pods' addresses lie, sorted.
    pub pod_cidrs: Vec<IpNet>,
}

/// The scope of this node.
///
/// An uplink is an interface that a default route leaves by, that bears one of the node's own
/// addresses, that an L2Advertisement names, or that has a subnet with addresses of a pool:
/// everything that an outsider's packet to one of our addresses may come in by.
pub fn scope(w: &World) -> Scope {
    let host = w.host();
    let own = internal_ips(w.node(w.this_node()));
    let named =
        |name: &str| w.advertisements().any(|ad| ad.interfaces.iter().any(|i| **i == *name));
    let pooled = |net: &IpNet| w.pools().flat_map(|p| &p.ranges).any(|r| overlap(*r, net));
    let outside = host.links.iter().filter(|(index, link)| {
        host.gateways.iter().any(|(g, _)| g == *index)
            || link.addresses.iter().any(|n| own.contains(&n.addr()) || pooled(n))
            || named(&link.name)
    });
    let mut uplinks: Vec<_> = outside.map(|(_, link)| link.name.clone()).collect();
    uplinks.sort();
    Scope { uplinks, pod_cidrs: w.pod_ranges() }
}

fn overlap((first, last): (IpAddr, IpAddr), net: &IpNet) -> bool {
    first <= net.broadcast() && net.network() <= last
}
