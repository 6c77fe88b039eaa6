//! An address of which no node can serve all ports.

use std::net::IpAddr;

use crate::verdict::{PortOffer, ServingPort, serving_ports};
use crate::{Frontend, NodeName, World};

/// The ports of an address that serve, and not from this node: with `externalTrafficPolicy: Local`
/// their endpoints are on other nodes.
///
/// One node answers for an address. Where several ports share it and none has endpoints of all,
/// the one that serves most is preferred, and these stay silent.
pub fn unserved(w: &World, a: IpAddr) -> Vec<Frontend> {
    let ports = serving_ports(w, a, w.this_node());
    ports.iter().filter(|p| !is_served(p)).map(|p| p.frontend).collect()
}

/// The node that serves most ports of an address, and those that it does not serve; `None`: some
/// node serves all, or none any.
pub(crate) fn best(w: &World, a: IpAddr) -> Option<(&NodeName, Vec<Frontend>)> {
    let offers = w.nodes().map(|n| (&n.name, serving_ports(w, a, &n.name)));
    let count = |ports: &[ServingPort<'_>]| ports.iter().filter(|p| is_served(p)).count();
    let counted = offers.map(|(name, ports)| (count(&ports), name, ports));
    // Of several the first by name: which one wins is up to those that are up.
    let (served, name, ports) =
        counted.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    if served == 0 || served == ports.len() {
        return None;
    }
    let lost = ports.iter().filter(|p| !is_served(p)).map(|p| p.frontend);
    Some((name, lost.collect()))
}

fn is_served(port: &ServingPort<'_>) -> bool {
    match port.offer {
        PortOffer::Full | PortOffer::Terminating | PortOffer::Worse => true,
        PortOffer::Nothing => false,
    }
}
