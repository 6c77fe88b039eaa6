//! What people wrote and the plan cannot do as written.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::IpAddr;

use signpost_report::{Diagnostic, Span};

use crate::table::holder;
use crate::verdict::advertisements_here;
use crate::world::{Pool, Service, ServicePort};
use crate::{World, is_served};

/// Everything in the world that is not done as written.
pub fn diagnostics(w: &World) -> Vec<Diagnostic> {
    let mut all = Vec::new();
    for service in w.services().filter(|s| s.is_programmed()) {
        all.extend(addresses(w, service));
        all.extend(conflicts(w, service));
        all.extend(unmatched_ports(w, service));
    }
    all.extend(overlaps(w));
    all.extend(not_advertised(w));
    all.extend(unknown_pools(w));
    all.extend(missing_interfaces(w));
    all.extend(far_pools(w));
    all
}

/// Addresses that a Service asks for and cannot have.
fn addresses(w: &World, s: &Service) -> Vec<Diagnostic> {
    if s.addresses.is_empty() {
        let message =
            "asks for no address, and there is no automatic allocation yet: not announced";
        let cure = "write one into the annotation metallb.io/loadBalancerIPs";
        return vec![Diagnostic::warning(object(s), message).with_cure(cure).at(s.span.clone())];
    }
    let refuse = |a: &IpAddr| {
        let (message, cure) = if let Some(node) = w.nodes().find(|n| n.internal_ips.contains(a)) {
            (
                format!("{a} is node {}'s own address: not served", node.name),
                "ask for an address that no machine bears",
            )
        } else if w.pool_of(*a).is_none() {
            (
                format!("{a} lies in no IPAddressPool: not served"),
                "add it to a pool, or ask for an address of one",
            )
        } else {
            return None;
        };
        Some(Diagnostic::error(object(s), message).with_cure(cure).at(s.span.clone()))
    };
    s.addresses.iter().filter_map(refuse).collect()
}

/// Ports that an earlier Service has on the same address.
fn conflicts(w: &World, s: &Service) -> Vec<Diagnostic> {
    let mut lost = Vec::new();
    for address in &s.addresses {
        for port in s.ports.iter().filter(|p| is_served(*address, p.protocol)) {
            let Some(winner) = holder(w, *address, port).filter(|h| h.key != s.key) else {
                continue;
            };
            let message = format!(
                "{address}:{}/{} is Service {}'s{}, which is older: not served by this one",
                port.port,
                port.protocol,
                winner.key,
                place(winner.span.as_ref()),
            );
            let cure = "give one of them another port or address";
            lost.push(Diagnostic::error(object(s), message).with_cure(cure).at(s.span.clone()));
        }
    }
    lost
}

/// Ports that no slice has by name and protocol, though there are slices.
fn unmatched_ports(w: &World, s: &Service) -> Vec<Diagnostic> {
    let slices = w.stored(&s.key);
    if slices.iter().all(|slice| slice.endpoints.is_empty()) {
        return Vec::new();
    }
    let named = |p: &&ServicePort| {
        slices
            .iter()
            .flat_map(|slice| &slice.ports)
            .any(|e| e.name == p.name && e.protocol == p.protocol)
    };
    let tell = |p: &ServicePort| {
        let message = format!(
            "port {}/{}: no EndpointSlice has a {} port named {:?}: refused",
            p.port, p.protocol, p.protocol, p.name,
        );
        let cure = "give the Service's port and the slice's the same name";
        Diagnostic::warning(object(s), message).with_cure(cure).at(s.span.clone())
    };
    s.ports.iter().filter(|p| !named(p)).map(tell).collect()
}

fn overlaps(w: &World) -> Vec<Diagnostic> {
    let pools: Vec<_> = w.pools().collect();
    let mut all = Vec::new();
    for (i, pool) in pools.iter().enumerate() {
        for earlier in &pools[..i] {
            let Some((first, last)) = common(earlier, pool) else { continue };
            let message = format!(
                "{first}-{last} is in IPAddressPool {} too{}: that one counts",
                earlier.name,
                place(earlier.span.as_ref()),
            );
            let d = Diagnostic::error(format!("IPAddressPool {}", pool.name), message);
            all.push(d.with_cure("take it out of one of them").at(pool.span.clone()));
        }
    }
    all
}

/// The first range that two pools share.
fn common(a: &Pool, b: &Pool) -> Option<(IpAddr, IpAddr)> {
    let pairs = a.ranges.iter().flat_map(|x| b.ranges.iter().map(move |y| (x, y)));
    let shared = pairs.map(|(x, y)| (x.0.max(y.0), x.1.min(y.1)));
    shared.into_iter().find(|(first, last)| first <= last)
}

fn not_advertised(w: &World) -> impl Iterator<Item = Diagnostic> {
    let silent = w.pools().filter(|p| !w.advertisements().any(|ad| ad.selects_pool(p)));
    silent.map(|p| {
        let message = "no L2Advertisement selects it: its addresses are not announced";
        let cure = format!("add an L2Advertisement with ipAddressPools [{}]", p.name);
        Diagnostic::warning(format!("IPAddressPool {}", p.name), message)
            .with_cure(cure)
            .at(p.span.clone())
    })
}

fn unknown_pools(w: &World) -> impl Iterator<Item = Diagnostic> {
    let known: BTreeSet<_> = w.pools().map(|p| &p.name).collect();
    let names = w.advertisements().flat_map(|ad| ad.pools.iter().map(move |p| (ad, p)));
    names.filter(move |(_, pool)| !known.contains(pool)).map(|(ad, pool)| {
        let message = format!("there is no IPAddressPool {pool}");
        let d = Diagnostic::warning(format!("L2Advertisement {}", ad.name), message);
        d.with_cure("correct spec.ipAddressPools, or add the pool").at(ad.span.clone())
    })
}

fn missing_interfaces(w: &World) -> impl Iterator<Item = Diagnostic> {
    let labels = w.node(w.this_node()).map(|n| n.labels.clone()).unwrap_or_default();
    let here = w.advertisements().filter(move |ad| ad.selects_node(&labels));
    let names = here.flat_map(|ad| ad.interfaces.iter().map(move |i| (ad, i)));
    names.filter(|(_, name)| w.host().link_named(name).is_none()).map(|(ad, name)| {
        let message = format!("{} has no interface {name}", w.this_node());
        let d = Diagnostic::warning(format!("L2Advertisement {}", ad.name), message);
        d.with_cure("correct spec.interfaces, or select other nodes").at(ad.span.clone())
    })
}

/// Pools with an address that no subnet here holds: announced on every uplink.
fn far_pools(w: &World) -> Vec<Diagnostic> {
    let mut far: Vec<(&Pool, IpAddr)> = Vec::new();
    for a in w.addresses().filter(|a| w.may_serve(*a) && w.host().links_near(*a).next().is_none()) {
        let Some(pool) = w.pool_of(a) else { continue };
        let everywhere = advertisements_here(w, a).iter().any(|ad| ad.interfaces.is_empty());
        if everywhere && far.iter().all(|(p, _)| p.name != pool.name) {
            far.push((pool, a));
        }
    }
    let tell = |(pool, a): (&Pool, IpAddr)| {
        let message = format!("no interface here has a subnet with {a}: announced on every uplink");
        let d = Diagnostic::note(format!("IPAddressPool {}", pool.name), message);
        d.with_cure("name the interfaces in the L2Advertisement").at(pool.span.clone())
    };
    far.into_iter().map(tell).collect()
}

fn object(s: &Service) -> String {
    format!("Service {}", s.key)
}

fn place(span: Option<&Span>) -> impl Display {
    span.map_or_else(String::new, |s| format!(" ({s})"))
}
