//! Which endpoints of one Service port serve.

use std::cmp::Reverse;
use std::net::IpAddr;

use super::Backend;
use crate::world::{EndpointPort, Service, ServicePort};
use crate::{NodeName, World};

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
    address: IpAddr,
    node: &NodeName,
) -> Endpoints {
    let merged = merge(w, service, port, address, node);
    let (cluster, cluster_ready) = choose(&merged, |_| true);
    let (local, local_ready) = choose(&merged, |b| b.local);
    Endpoints { cluster, cluster_ready, local, local_ready }
}

/// The ready ones, or if there is none the terminating ones; and whether they are ready.
fn choose(merged: &[Merged], among: impl Fn(&Backend) -> bool) -> (Vec<Backend>, bool) {
    let of = |state| {
        let all = merged.iter().filter(|m| m.state == state).map(|m| m.backend).filter(&among);
        let mut all: Vec<_> = all.collect();
        // Thousands of these stay in memory.
        all.shrink_to_fit();
        all
    };
    let ready = of(State::Ready);
    if ready.is_empty() { (of(State::Terminating), false) } else { (ready, true) }
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
}

/// The union over the slices, sorted. A port matches by name and protocol; an endpoint that several
/// slices list counts once: the one on this node first (as kube-proxy merges them), then the
/// fitter one.
fn merge(
    w: &World,
    service: &Service,
    port: &ServicePort,
    address: IpAddr,
    node: &NodeName,
) -> Vec<Merged> {
    let here = w.interned(node);
    let mut merged = Vec::new();
    for slice in w.stored(&service.key) {
        let same = |p: &&EndpointPort| p.name == port.name && p.protocol == port.protocol;
        for port in slice.ports.iter().filter(same).filter_map(|p| p.port) {
            let family =
                slice.endpoints.iter().filter(|e| e.address.is_ipv4() == address.is_ipv4());
            merged.extend(family.map(|e| Merged {
                backend: Backend {
                    address: e.address,
                    port,
                    local: here.is_some() && e.node == here,
                },
                state: state(e.ready, e.serving, e.terminating),
            }));
        }
    }
    let place = |m: &Merged| (m.backend.address, m.backend.port);
    merged.sort_by_key(|m| (place(m), Reverse((m.backend.local, m.state))));
    merged.dedup_by_key(|m| place(m));
    merged
}

fn state(ready: bool, serving: bool, terminating: bool) -> State {
    if ready {
        State::Ready
    } else if serving && terminating {
        State::Terminating
    } else {
        State::Unfit
    }
}
