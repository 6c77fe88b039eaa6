//! The gate: whether this node may attract traffic for an address, and does.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::table::{Endpoints, endpoints, won_ports};
use crate::world::{L2Advertisement, Node, Service, TrafficPolicy};
use crate::{
    Asked, Backend, Entry, Family, Frontend, Lease, LinkIndex, NodeName, Observed, Reason,
    ServiceKey, World,
};

/// The weight of a node that serves everything that an address has to offer. Below it weights are
/// ranks: of members that serve a part the one that serves most ports is preferred.
pub const FULL_WEIGHT: u16 = 100;

/// What this node does about an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It owns the address and answers for it on these interfaces.
    Own(Vec<LinkIndex>),
    /// It could, and another member does.
    StandBy(NodeName),
    /// It must not.
    Withhold(Reason),
}

/// What this node offers the other members for an address: the part of the verdict that does not
/// depend on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Where it would answer.
    pub links: Vec<LinkIndex>,
    /// See [`crate::Member::weight`].
    pub weight: u16,
}

/// The gate of one address: what this node offers, or why it must not.
pub fn eligible(w: &World, o: &Observed, a: IpAddr) -> Result<Offer, Reason> {
    let advertisements = declared(w, a)?;
    let links = usable_links(w, &advertisements, a)?;
    let serving = serving(w, a)?;
    proven(o, &serving, a)?;
    Ok(Offer { links, weight: if o.drained { 0 } else { weight(&serving) } })
}

/// By the ports that this node serves as well as any.
fn weight(serving: &[ServingPort<'_>]) -> u16 {
    let full = serving.iter().filter(|p| p.offer == PortOffer::Full).count();
    if full == serving.len() {
        return FULL_WEIGHT;
    }
    // Of more ports than there are ranks the last few count alike.
    u16::try_from(full).map_or(FULL_WEIGHT - 1, |full| full.min(FULL_WEIGHT - 1))
}

/// What this node does about an address: [`eligible`], and who owns it.
///
/// While nobody owns it this node keeps still: it may become the owner in a moment.
pub fn verdict(w: &World, o: &Observed, a: IpAddr) -> Verdict {
    decide(w, o, a, eligible(w, o, a))
}

/// What follows from an offer that was worked out already.
pub fn decide(w: &World, o: &Observed, a: IpAddr, offer: Result<Offer, Reason>) -> Verdict {
    let offer = match offer {
        Ok(offer) => offer,
        Err(reason) => return Verdict::Withhold(reason),
    };
    // These two the wire side decides on its own, whatever is offered.
    if o.lease == Lease::Lapsed {
        return Verdict::Withhold(Reason::ControlHung);
    }
    if o.cut_off {
        return Verdict::Withhold(Reason::CutOff);
    }
    match o.owners.get(&a) {
        Some(owner) if owner == w.this_node() => Verdict::Own(offer.links),
        Some(owner) => Verdict::StandBy(owner.clone()),
        None => Verdict::Withhold(Reason::Undecided),
    }
}

/// What people and the cluster declared: Service, pool, advertisements, node.
fn declared(w: &World, a: IpAddr) -> Result<Vec<&L2Advertisement>, Reason> {
    if !w.services_of_address(a).any(|s| won_ports(w, s, a).next().is_some()) {
        return Err(Reason::NoService);
    }
    let pool = w.pool_of(a).ok_or(Reason::OutsidePools)?;
    if w.is_node_address(a) {
        return Err(Reason::NodeAddress);
    }
    if w.is_cluster_ip(a) {
        return Err(Reason::ClusterIp);
    }
    if !w.advertisements().any(|ad| ad.selects_pool(pool)) {
        return Err(Reason::NotAdvertised);
    }
    let advertisements = advertisements_here(w, a);
    if advertisements.is_empty() {
        return Err(Reason::NodeNotSelected);
    }
    let node = w.node(w.this_node());
    if node.is_some_and(|n| n.excluded) {
        return Err(Reason::NodeExcluded);
    }
    if node.is_some_and(|n| n.network_unavailable) {
        return Err(Reason::NetworkUnavailable);
    }
    Ok(advertisements)
}

/// The L2Advertisements that select an address's pool and this node.
pub(crate) fn advertisements_here(w: &World, a: IpAddr) -> Vec<&L2Advertisement> {
    let unlabelled = BTreeMap::new();
    let labels = w.node(w.this_node()).map_or(&unlabelled, |n| &n.labels);
    let selects = |ad: &&L2Advertisement| {
        w.pool_of(a).is_some_and(|pool| ad.selects_pool(pool)) && ad.selects_node(labels)
    };
    w.advertisements().filter(selects).collect()
}

/// The interfaces to answer on that could pass a packet on now.
fn usable_links(w: &World, ads: &[&L2Advertisement], a: IpAddr) -> Result<Vec<LinkIndex>, Reason> {
    let mut links = links_for(w, ads, a);
    if links.is_empty() {
        return Err(Reason::NoLink);
    }
    let of = |index: &LinkIndex| w.host().links.get(index);
    links.retain(|l| of(l).is_some_and(|l| l.up));
    if links.is_empty() {
        return Err(Reason::CarrierDown);
    }
    // Linux asks the interface that a packet came in by whether it may be forwarded.
    links.retain(|l| of(l).is_some_and(|l| l.forwards(Family::of(a))));
    if links.is_empty() {
        return Err(Reason::ForwardingDisabled);
    }
    Ok(links)
}

/// Where an address is announced: the interfaces that the advertisements name; for one that names
/// none, those with a subnet that holds the address, and if none does every uplink.
pub(crate) fn links_for(w: &World, ads: &[&L2Advertisement], a: IpAddr) -> Vec<LinkIndex> {
    let host = w.host();
    let named = ads.iter().flat_map(|ad| &ad.interfaces).filter_map(|name| host.link_named(name));
    let ethernet = |l: &LinkIndex| host.links.get(l).is_some_and(|l| l.mac.is_some());
    let mut links: Vec<_> = named.filter(ethernet).collect();
    if ads.iter().any(|ad| ad.interfaces.is_empty()) {
        let near: Vec<_> = host.links_near(a).collect();
        if near.is_empty() {
            links.extend(host.uplinks(internal_ips(w.node(w.this_node()))));
        } else {
            links.extend(near);
        }
    }
    links.sort();
    links.dedup();
    links
}

pub(crate) fn internal_ips(node: Option<&Node>) -> &[IpAddr] {
    node.map_or(&[], |n| &n.internal_ips)
}

/// A port of an address that this node could lead outsiders to.
pub(crate) struct ServingPort<'a> {
    service: &'a ServiceKey,
    pub(crate) frontend: Frontend,
    backends: Vec<Backend>,
    pub(crate) offer: PortOffer,
}

/// How well a node serves outsiders on a port, beside the other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortOffer {
    /// As well as any node.
    Full,
    /// `Local`, and only terminating endpoints anywhere, some of them here.
    Terminating,
    /// `Local`, only terminating endpoints here, and ready ones elsewhere.
    Worse,
    /// `Local`, and no endpoint here.
    Nothing,
}

/// The ports of an address that serve somewhere, as this node offers them. At least one must lead
/// outsiders from here to an endpoint that no other node would serve better.
fn serving(w: &World, a: IpAddr) -> Result<Vec<ServingPort<'_>>, Reason> {
    let ports = serving_ports(w, a, w.this_node());
    let any = |wanted: fn(PortOffer) -> bool| ports.iter().any(|p| wanted(p.offer));
    if ports.is_empty() {
        Err(Reason::NoEndpoints)
    } else if any(|o| matches!(o, PortOffer::Full | PortOffer::Terminating)) {
        Ok(ports)
    } else if any(|o| o == PortOffer::Worse) {
        Err(Reason::OnlyTerminatingHere)
    } else {
        Err(Reason::NoLocalEndpoints)
    }
}

/// The ports of an address that serve somewhere, as a node offers them.
pub(crate) fn serving_ports<'a>(w: &'a World, a: IpAddr, node: &NodeName) -> Vec<ServingPort<'a>> {
    let mut ports = Vec::new();
    for service in w.services_of_address(a) {
        for port in won_ports(w, service, a) {
            let e = endpoints(w, service, port, Family::of(a), node);
            if e.cluster.is_empty() {
                continue;
            }
            let (offer, backends) = port_offer(service, e);
            let (protocol, port) = (port.protocol, port.port);
            let frontend = Frontend { asked: Asked::Vip(a), protocol, port };
            ports.push(ServingPort { service: &service.key, frontend, backends, offer });
        }
    }
    ports
}

fn port_offer(service: &Service, e: Endpoints) -> (PortOffer, Vec<Backend>) {
    match service.external_policy {
        TrafficPolicy::Cluster => (PortOffer::Full, e.cluster),
        TrafficPolicy::Local if e.local.is_empty() => (PortOffer::Nothing, e.local),
        TrafficPolicy::Local if e.local_ready => (PortOffer::Full, e.local),
        TrafficPolicy::Local if e.cluster_ready => (PortOffer::Worse, e.local),
        TrafficPolicy::Local => (PortOffer::Terminating, e.local),
    }
}

/// Whether rules that the kernel acknowledged lead outsiders to an endpoint that serves.
///
/// Newer rules in flight, or refused, withdraw nothing as long as those before them still do.
fn proven(o: &Observed, serving: &[ServingPort<'_>], a: IpAddr) -> Result<(), Reason> {
    let leads = serving.iter().any(|p| leads(o, p));
    if !leads && serving.iter().any(|p| o.refused.contains_key(p.service)) {
        Err(Reason::RulesRefused)
    } else if o.damaged.contains(&a) {
        Err(Reason::RulesDamaged)
    } else if !leads {
        Err(Reason::RulesNotAcknowledged)
    } else {
        Ok(())
    }
}

fn leads(o: &Observed, port: &ServingPort<'_>) -> bool {
    let Some(table) = o.acknowledged.get(port.service) else { return false };
    let same = |e: &&Entry| e.frontend == port.frontend;
    let backends = table.entries.iter().filter(same).flat_map(|e| e.backends(e.outsiders));
    let mut backends = backends.map(|b| (b.address, b.port));
    backends.any(|b| port.backends.iter().any(|serving| (serving.address, serving.port) == b))
}
