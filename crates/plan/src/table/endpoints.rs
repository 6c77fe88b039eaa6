//! Which endpoints of one Service port serve.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Backend;
use crate::world::{Service, ServicePort};
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
    let pick = |wanted: State, only_local: bool| -> Vec<Backend> {
        let all = merged.iter().map(|((address, port), e)| {
            (Backend { address: *address, port: *port, local: e.local }, e)
        });
        all.filter(|(_, e)| e.state == wanted && (e.local || !only_local)).map(|(b, _)| b).collect()
    };
    let choose = |only_local: bool| {
        let ready = pick(State::Ready, only_local);
        if ready.is_empty() { (pick(State::Terminating, only_local), false) } else { (ready, true) }
    };
    let (cluster, cluster_ready) = choose(false);
    let (local, local_ready) = choose(true);
    Endpoints { cluster, cluster_ready, local, local_ready }
}

/// Ordered by what is preferred of two slices that disagree about one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Unfit,
    Terminating,
    Ready,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Merged {
    local: bool,
    state: State,
}

/// The union over the slices. A port matches by name and protocol; an endpoint that several slices
/// list counts once, the one on this node first (as kube-proxy merges them), then the fitter one.
fn merge(
    w: &World,
    service: &Service,
    port: &ServicePort,
    address: IpAddr,
    node: &NodeName,
) -> BTreeMap<(IpAddr, u16), Merged> {
    let here = w.interned(node);
    let mut merged = BTreeMap::new();
    for slice in w.stored(&service.key) {
        let matches =
            slice.ports.iter().filter(|p| p.name == port.name && p.protocol == port.protocol);
        for number in matches.filter_map(|p| p.port) {
            for e in slice.endpoints.iter().filter(|e| e.address.is_ipv4() == address.is_ipv4()) {
                let local = here.is_some() && e.node == here;
                let new = Merged { local, state: state(e.ready, e.serving, e.terminating) };
                merged
                    .entry((e.address, number))
                    .and_modify(|old: &mut Merged| *old = new.max(*old))
                    .or_insert(new);
            }
        }
    }
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
