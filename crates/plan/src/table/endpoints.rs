//! Which endpoints of one Service port serve.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::Backend;
use crate::world::{EndpointPort, Hints, Interned, Service, ServicePort, StoredEndpoint};
use crate::{Family, NodeName, World};

/// The endpoints of one Service port that serve, as one node sees them.
#[derive(Debug)]
pub(crate) struct Endpoints {
    /// Those of all nodes: the ready ones, and if there is none the terminating ones that serve.
    pub(crate) cluster: Vec<Backend>,
    /// Whether `cluster` are ready ones.
    pub(crate) cluster_ready: bool,
    /// Those of this node, with a fallback of their own.
    pub(crate) local: Vec<Backend>,
    /// Whether `local` are ready ones.
    pub(crate) local_ready: bool,
}

/// KEP-1669 (GA in 1.28): the fallback to terminating endpoints is taken for the cluster and for
/// the node independently. Kubernetes' `pkg/proxy/topology.go` decides the same.
pub(crate) fn endpoints(
    w: &World,
    service: &Service,
    port: &ServicePort,
    family: Family,
    node: &NodeName,
) -> Endpoints {
    let merged = merge(w, service, port, family, node);
    let mut near: Vec<&Merged> = merged.iter().filter(|m| m.state == State::Ready).collect();
    let cluster_ready = !near.is_empty();
    if cluster_ready {
        heed_hints(w, node, &mut near);
    } else {
        near = merged.iter().filter(|m| m.state == State::Terminating).collect();
    }
    // Thousands of these stay in memory: no larger than what they hold.
    let backends = |of: &[&Merged]| of.iter().map(|m| m.backend).collect::<Vec<_>>();
    let here = |state| -> Vec<&Merged> {
        merged.iter().filter(|m| m.backend.local && m.state == state).collect()
    };
    let ready = here(State::Ready);
    let local_ready = !ready.is_empty();
    let local = if local_ready { ready } else { here(State::Terminating) };
    Endpoints { cluster: backends(&near), cluster_ready, local: backends(&local), local_ready }
}

/// KEP-2433, KEP-3015: hints count where every ready endpoint has them and one names this node, or
/// else this node's zone.
fn heed_hints(w: &World, node: &NodeName, ready: &mut Vec<&Merged>) {
    let all = |has: fn(&Hints) -> bool| {
        ready.iter().all(|m| m.hints.and_then(|h| w.hints(h)).is_some_and(has))
    };
    let by_node = all(|h| !h.nodes.is_empty());
    let by_zone = all(|h| !h.zones.is_empty());
    let zone = w.node(node).and_then(|n| n.zone.as_ref());
    let names_node = |h: &Hints| by_node && h.nodes.contains(node);
    let names_zone = |h: &Hints| by_zone && zone.is_some_and(|zone| h.zones.contains(zone));
    let hinted = |m: &Merged| m.hints.and_then(|h| w.hints(h));
    if ready.iter().any(|m| hinted(m).is_some_and(names_node)) {
        ready.retain(|m| hinted(m).is_some_and(names_node));
    } else if ready.iter().any(|m| hinted(m).is_some_and(names_zone)) {
        ready.retain(|m| hinted(m).is_some_and(names_zone));
    }
}

/// How many endpoints of a Service are ready on a node, whatever their ports: what a health check
/// tells. Not the terminating ones, so that load balancers turn away while they still serve.
pub(crate) fn ready_here(w: &World, service: &Service, node: &NodeName) -> usize {
    let here = w.interned(node);
    let all = w.stored(&service.key).iter().flat_map(|slice| &slice.endpoints);
    let ready = all.filter(|e| here.is_some() && e.node == here);
    let ready = ready.filter(|e| state(service, e) == State::Ready);
    ready.map(|e| e.address).collect::<BTreeSet<_>>().len()
}

/// Ordered by what is preferred of two slices that disagree about one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Unfit,
    Terminating,
    Ready,
}

struct Merged {
    backend: Backend,
    state: State,
    hints: Option<Interned>,
}

/// The union over the slices, sorted. A port matches by name and protocol; an endpoint that several
/// slices list counts once: the one on this node first (as kube-proxy merges them), then the
/// fitter one.
fn merge(
    w: &World,
    service: &Service,
    port: &ServicePort,
    family: Family,
    node: &NodeName,
) -> Vec<Merged> {
    let here = w.interned(node);
    let mut merged = Vec::new();
    for slice in w.stored(&service.key) {
        let same = |p: &&EndpointPort| p.name == port.name && p.protocol == port.protocol;
        for port in slice.ports.iter().filter(same).filter_map(|p| p.port) {
            let of_family = slice.endpoints.iter().filter(|e| Family::of(e.address) == family);
            merged.extend(of_family.map(|e| Merged {
                backend: Backend {
                    address: e.address,
                    port,
                    local: here.is_some() && e.node == here,
                },
                state: state(service, e),
                hints: e.hints,
            }));
        }
    }
    let place = |m: &Merged| (m.backend.address, m.backend.port);
    merged.sort_by_key(|m| (place(m), Reverse((m.backend.local, m.state))));
    merged.dedup_by_key(|m| place(m));
    merged
}

/// `publishNotReadyAddresses` makes every endpoint a ready one (Kubernetes' slice controller writes
/// it so; slices written by hand may not).
fn state(service: &Service, e: &StoredEndpoint) -> State {
    if e.ready || service.publishes_not_ready {
        State::Ready
    } else if e.serving && e.terminating {
        State::Terminating
    } else {
        State::Unfit
    }
}
