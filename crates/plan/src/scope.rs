//! What the dataplane must know of the node beside the tables.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::verdict::internal_ips;
use crate::world::{Forwarding, NodePortAddresses};
use crate::{Family, World};

/// Who is a pod: a packet that came in by an interface that is not an uplink, or whose source lies
/// in a pod range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Interfaces by which outsiders' packets come in, sorted.
    pub uplinks: Vec<Box<str>>,
    /// Where pods' addresses lie, sorted.
    pub pod_cidrs: Vec<IpNet>,
    /// In which networks this node's addresses answer for NodePorts, sorted; never on loopback.
    pub node_ports: Vec<IpNet>,
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
    Scope { uplinks, pod_cidrs: w.pod_ranges(), node_ports: node_ports(w) }
}

/// Where NodePorts answer. Not on loopback, which packets to pods cannot leave from.
fn node_ports(w: &World) -> Vec<IpNet> {
    let every =
        |family: Family| IpNet::new(family.unspecified(), 0).expect("no prefix is shorter than 0");
    let own = || internal_ips(w.node(w.this_node())).iter().copied().map(IpNet::from);
    let within = |nets: &[IpNet], family| {
        let of_family: Vec<_> =
            nets.iter().filter(|n| Family::of(n.addr()) == family).map(IpNet::trunc).collect();
        if of_family.is_empty() { vec![every(family)] } else { of_family }
    };
    let nets: Vec<IpNet> = match (w.forwarding(), w.node_port_addresses()) {
        (Forwarding::Vip, _) => Vec::new(),
        (Forwarding::All, NodePortAddresses::Every) => Family::ALL.map(every).into(),
        (Forwarding::All, NodePortAddresses::Primary) => own().collect(),
        (Forwarding::All, NodePortAddresses::Within(nets)) => {
            Family::ALL.into_iter().flat_map(|f| within(nets, f)).collect()
        }
    };
    let mut nets = IpNet::aggregate(&nets.into_iter().flat_map(without_loopback).collect());
    nets.sort();
    nets
}

/// A network without the loopback addresses in it.
fn without_loopback(net: IpNet) -> Vec<IpNet> {
    let loopback: IpNet = match Family::of(net.addr()) {
        Family::V4 => IpNet::new(Ipv4Addr::LOCALHOST.into(), 8),
        Family::V6 => IpNet::new(Ipv6Addr::LOCALHOST.into(), 128),
    }
    .expect("the prefixes are not too long");
    if loopback.trunc().contains(&net) {
        return Vec::new();
    }
    if !net.contains(&loopback) {
        return vec![net];
    }
    let halves = net.subnets(net.prefix_len() + 1).expect("it holds more than one address");
    halves.flat_map(without_loopback).collect()
}

fn overlap((first, last): (IpAddr, IpAddr), net: &IpNet) -> bool {
    first <= net.broadcast() && net.network() <= last
}
