//! What people wrote and the plan cannot do as written.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::IpAddr;

use signpost_report::{Diagnostic, Span};

use crate::degraded::best;
use crate::table::{holder, inside};
use crate::verdict::advertisements_here;
use crate::world::{Forwarding, Pool, Service, ServicePort, TrafficPolicy};
use crate::{Asked, Family, Frontend, World};

/// Everything in the world that is not done as written.
pub fn diagnostics(w: &World) -> Vec<Diagnostic> {
    let mut all = Vec::new();
    for service in w.services().filter(|s| s.proxied) {
        if !service.is_load_balancer() && service.external_ips.is_empty() && !is_inside(w) {
            continue;
        }
        all.extend(addresses(w, service));
        all.extend(conflicts(w, service));
        all.extend(unmatched_ports(w, service));
        all.extend(idle_ranges(service));
    }
    all.extend(parted(w));
    all.extend(overlaps(w));
    all.extend(not_advertised(w));
    all.extend(unknown_pools(w));
    all.extend(missing_interfaces(w));
    all.extend(far_pools(w));
    all
}

/// Whether ClusterIPs and NodePorts are ours to serve.
fn is_inside(w: &World) -> bool {
    match w.forwarding() {
        Forwarding::Vip => false,
        Forwarding::All => true,
    }
}

/// Addresses that a Service asks for and cannot have.
fn addresses(w: &World, s: &Service) -> Vec<Diagnostic> {
    if s.is_load_balancer() && s.vips().next().is_none() {
        let message =
            "asks for no address, and there is no automatic allocation yet: not announced";
        let cure = "write one into the annotation metallb.io/loadBalancerIPs";
        return vec![Diagnostic::warning(object(s), message).with_cure(cure).at(s.span.clone())];
    }
    let refuse = |a: IpAddr| {
        let what = if s.addresses.contains(&a) { "" } else { "externalIPs: " };
        let (message, cure) = if let Some(node) = w.nodes().find(|n| n.internal_ips.contains(&a)) {
            (
                format!("{what}{a} is node {}'s own address: not served", node.name),
                "ask for an address that no machine bears",
            )
        } else if w.is_cluster_ip(a) {
            (
                format!("{what}{a} is a Service's ClusterIP: not served"),
                "ask for an address that no Service has as its ClusterIP",
            )
        } else if w.pool_of(a).is_some() {
            return None;
        } else if s.addresses.contains(&a) {
            (
                format!("{a} lies in no IPAddressPool: not served"),
                "add it to a pool, or ask for an address of one",
            )
        } else {
            (
                format!(
                    "externalIPs: {a} lies in no IPAddressPool: not served, for who may write a \
                     Service could take anybody's traffic by it (CVE-2020-8554)"
                ),
                "add it to a pool if it is yours to serve",
            )
        };
        Some(Diagnostic::error(object(s), message).with_cure(cure).at(s.span.clone()))
    };
    s.vips().filter_map(refuse).collect()
}

/// Frontends that an earlier Service has.
fn conflicts(w: &World, s: &Service) -> Vec<Diagnostic> {
    let vips = s.vips().flat_map(|a| {
        let at = move |p: &ServicePort| Frontend {
            asked: Asked::Vip(a),
            protocol: p.protocol,
            port: p.port,
        };
        s.ports.iter().map(at)
    });
    let inside = inside(s).map(|(f, _)| f).filter(|_| is_inside(w));
    let mut lost = Vec::new();
    for frontend in vips.chain(inside) {
        let Some(winner) = holder(w, frontend).filter(|h| h.key != s.key) else { continue };
        let message = format!(
            "{frontend} is Service {}'s{}, which is older: not served by this one",
            winner.key,
            place(winner.span.as_ref()),
        );
        let cure = "give one of them another port or address";
        lost.push(Diagnostic::error(object(s), message).with_cure(cure).at(s.span.clone()));
    }
    lost
}

/// Source ranges of one family only guard nothing of the other.
fn idle_ranges(s: &Service) -> Vec<Diagnostic> {
    if s.source_ranges.is_empty() || !s.is_load_balancer() {
        return Vec::new();
    }
    let open = |family: &Family| {
        s.addresses.iter().any(|a| Family::of(*a) == *family)
            && !s.source_ranges.iter().any(|net| Family::of(net.addr()) == *family)
    };
    let tell = |family: Family| {
        let message = format!(
            "spec.loadBalancerSourceRanges has no {family} range: its {family} addresses are open \
             to everybody"
        );
        let cure = match family {
            Family::V4 => "add the ranges that may ask, or 127.0.0.0/8 for nobody",
            Family::V6 => "add the ranges that may ask, or ::1/128 for nobody",
        };
        Diagnostic::warning(object(s), message).with_cure(cure).at(s.span.clone())
    };
    Family::ALL.into_iter().filter(open).map(tell).collect()
}

/// Shared addresses of which no node serves all ports.
fn parted(w: &World) -> Vec<Diagnostic> {
    // One Service has the same endpoints for all its ports, but for the rarest.
    let is_shared = |a: &IpAddr| w.services_of_address(*a).nth(1).is_some();
    let shared = w.addresses().filter(|a| is_shared(a) && w.may_serve(*a));
    let is_local = |s: &Service| s.external_policy == TrafficPolicy::Local;
    let local = shared.filter(|a| w.services_of_address(*a).any(is_local));
    let mut all = Vec::new();
    for (a, (node, lost)) in local.filter_map(|a| Some((a, best(w, a)?))) {
        for s in w.services_of_address(a) {
            let mine = |f: &&Frontend| holder(w, **f).is_some_and(|h| h.key == s.key);
            let mine: Vec<_> = lost.iter().filter(mine).map(ToString::to_string).collect();
            if mine.is_empty() {
                continue;
            }
            let message = format!(
                "{}: under externalTrafficPolicy Local no node has endpoints of all ports of {a}; \
                 {node} has most of them, and none of these: degraded",
                mine.join(", "),
            );
            let cure = "give them addresses of their own, or the policy Cluster, or endpoints on \
                        the same nodes";
            all.push(Diagnostic::warning(object(s), message).with_cure(cure).at(s.span.clone()));
        }
    }
    all
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
