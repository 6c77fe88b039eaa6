//! The oracle: which endpoints serve, for each kind of sender.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::world::{Affinity, Forwarding, Service, ServicePort, TrafficPolicy};
use crate::{Asked, Family, Frontend, NodeName, ServiceKey, World};

mod endpoints;

pub(crate) use endpoints::{Endpoints, endpoints, ready_here};

/// What one node does with packets to one Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The Service.
    pub service: ServiceKey,
    /// One entry a frontend, sorted.
    pub entries: Vec<Entry>,
}

/// What one node does with packets to one frontend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What clients ask.
    pub frontend: Frontend,
    /// The endpoints that serve, of all nodes. Sorted by address and port; no two alike.
    pub cluster: Vec<Backend>,
    /// Those of this node, where somebody gets them; else empty.
    pub local: Vec<Backend>,
    /// What packets from outside get. Those of pods elsewhere that ask a port of this node are
    /// among them.
    pub outsiders: Answer,
    /// What pods get: this node's, and those elsewhere that ask by an address.
    pub pods: Answer,
    /// What this node's processes get.
    pub processes: Answer,
    /// Whether a client stays with its endpoint.
    pub affinity: Affinity,
    /// Who else may ask: others than this node's processes are dropped in silence.
    pub sources: Sources,
}

/// What a sender gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// One of all endpoints that serve.
    Cluster,
    /// One of this node's endpoints.
    Local,
    /// A refusal. If one sender gets it all do: no endpoint serves anywhere.
    Refuse,
    /// Silence.
    Drop,
}

/// `loadBalancerSourceRanges`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sources {
    /// Everybody may ask.
    Any,
    /// Only from these networks, of the frontend's family, sorted.
    Only(Box<[IpNet]>),
}

/// One endpoint that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Backend {
    /// The pod's address.
    pub address: IpAddr,
    /// The pod's port.
    pub port: u16,
    /// On the node that the table is for (`endpoint.nodeName`).
    pub local: bool,
}

impl Entry {
    /// Every sender gets these endpoints alike; without any, a refusal.
    pub fn for_everybody(frontend: Frontend, cluster: Vec<Backend>) -> Self {
        let answer = if cluster.is_empty() { Answer::Refuse } else { Answer::Cluster };
        Self {
            frontend,
            cluster,
            local: Vec::new(),
            outsiders: answer,
            pods: answer,
            processes: answer,
            affinity: Affinity::None,
            sources: Sources::Any,
        }
    }

    /// The endpoints that an answer leads to.
    pub fn backends(&self, answer: Answer) -> &[Backend] {
        match answer {
            Answer::Cluster => &self.cluster,
            Answer::Local => &self.local,
            Answer::Refuse | Answer::Drop => &[],
        }
    }
}

/// The table of one Service on one node, or `None` where nothing is programmed for it.
///
/// An address for outsiders counts once it lies in a pool and is no node's own and no ClusterIP,
/// whatever its `ipMode`. Of two Services with the same frontend only the first by
/// [`Service::precedes`] has the entry.
pub fn table(w: &World, s: &ServiceKey, node: &NodeName) -> Option<Table> {
    let service = w.service(s).filter(|s| s.proxied)?;
    let frontends = frontends(w, service);
    let mut entries = Vec::with_capacity(frontends.len());
    for family in Family::ALL {
        for port in &service.ports {
            let mut serving = None;
            for (frontend, of) in &frontends {
                if frontend.family() != family || *of != port {
                    continue;
                }
                let found = || endpoints(w, service, port, family, node);
                entries.push(entry(w, service, *frontend, serving.get_or_insert_with(found)));
            }
        }
    }
    entries.sort_by_key(|e: &Entry| e.frontend);
    (!entries.is_empty()).then(|| Table { service: s.clone(), entries })
}

/// What is served here of what a Service is asked by.
fn frontends<'a>(w: &'a World, service: &'a Service) -> Vec<(Frontend, &'a ServicePort)> {
    let mut all = Vec::new();
    for vip in service.vips().filter(|a| w.may_serve(*a)) {
        all.extend(service.ports.iter().map(|p| (p.at(Asked::Vip(vip), p.port), p)));
    }
    match w.forwarding() {
        Forwarding::Vip => {}
        Forwarding::All => all.extend(inside(service)),
    }
    all.retain(|(f, _)| holder(w, *f).is_some_and(|h| h.key == service.key));
    all
}

/// ClusterIPs and NodePorts.
pub(crate) fn inside(service: &Service) -> impl Iterator<Item = (Frontend, &ServicePort)> {
    service.ports.iter().flat_map(|p| {
        let ips = service.cluster_ips.iter().map(move |ip| p.at(Asked::ClusterIp(*ip), p.port));
        let families = service.families.iter();
        let nodes = families.filter_map(move |f| Some(p.at(Asked::NodePort(*f), p.node_port?)));
        ips.chain(nodes).map(move |frontend| (frontend, p))
    })
}

impl ServicePort {
    fn at(&self, asked: Asked, port: u16) -> Frontend {
        Frontend { asked, protocol: self.protocol, port }
    }
}

/// The ports of a Service that are served on an address for outsiders: no earlier Service has them
/// there.
pub(crate) fn won_ports<'a>(
    w: &'a World,
    service: &'a Service,
    address: IpAddr,
) -> impl Iterator<Item = &'a ServicePort> {
    let won = move |p: &&ServicePort| {
        holder(w, p.at(Asked::Vip(address), p.port)).is_some_and(|h| h.key == service.key)
    };
    service.ports.iter().filter(won)
}

/// The Service that wins a frontend.
pub(crate) fn holder(w: &World, f: Frontend) -> Option<&Service> {
    fn first<'a>(a: &'a Service, b: &'a Service) -> &'a Service {
        if b.precedes(a) { b } else { a }
    }
    let by_port =
        |s: &&Service| s.ports.iter().any(|p| p.protocol == f.protocol && p.port == f.port);
    match f.asked {
        Asked::Vip(a) => w.services_of_address(a).filter(by_port).reduce(first),
        Asked::ClusterIp(a) => w.services_of_cluster_ip(a).filter(by_port).reduce(first),
        Asked::NodePort(family) => {
            let all = w.services_of_node_port(f.protocol, f.port);
            all.filter(|s| s.families.contains(&family)).reduce(first)
        }
    }
}

fn entry(w: &World, service: &Service, frontend: Frontend, e: &Endpoints) -> Entry {
    let [outsiders, pods, processes] = answers(service, frontend, e);
    let sources = sources(service, frontend);
    let processes = match &sources {
        Sources::Only(ranges) if processes != Answer::Refuse && !is_within(w, ranges) => {
            Answer::Drop
        }
        Sources::Only(_) | Sources::Any => processes,
    };
    let local = [outsiders, pods, processes].contains(&Answer::Local);
    Entry {
        frontend,
        cluster: e.cluster.clone(),
        local: if local { e.local.clone() } else { Vec::new() },
        outsiders,
        pods,
        processes,
        affinity: service.affinity,
        sources,
    }
}

/// What outsiders, pods and this node's processes get, if their address is allowed.
///
/// The destination decides by which policy (KEP-2086). Under `externalTrafficPolicy: Local` senders
/// on this node get every endpoint all the same, as kube-proxy's short-circuit gives them; without
/// any endpoint everybody is refused alike.
fn answers(service: &Service, frontend: Frontend, e: &Endpoints) -> [Answer; 3] {
    if e.cluster.is_empty() {
        return [Answer::Refuse; 3];
    }
    let local = if e.local.is_empty() { Answer::Drop } else { Answer::Local };
    let is_internal = match frontend.asked {
        Asked::ClusterIp(_) => true,
        Asked::Vip(_) | Asked::NodePort(_) => false,
    };
    match (is_internal, service.internal_policy, service.external_policy) {
        (true, TrafficPolicy::Local, _) => [local; 3],
        (false, _, TrafficPolicy::Local) => [local, Answer::Cluster, Answer::Cluster],
        (true, TrafficPolicy::Cluster, _) | (false, _, TrafficPolicy::Cluster) => {
            [Answer::Cluster; 3]
        }
    }
}

/// Source ranges guard a LoadBalancer Service's addresses, not its external IPs and NodePorts, and
/// not a family that they do not name (kube-proxy's `serviceport.go`).
fn sources(service: &Service, frontend: Frontend) -> Sources {
    let is_guarded = frontend.vip().is_some_and(|a| service.addresses.contains(&a));
    let is_of_family = |net: &&IpNet| Family::of(net.addr()) == frontend.family();
    let mut ranges: Vec<_> =
        service.source_ranges.iter().filter(is_of_family).map(IpNet::trunc).collect();
    if !is_guarded || ranges.is_empty() {
        return Sources::Any;
    }
    // No range inside another: the kernel refuses ranges that overlap.
    ranges = IpNet::aggregate(&ranges);
    ranges.sort();
    Sources::Only(ranges.into())
}

/// Whether an address of this node is in the ranges: its processes may ask then, by whatever address
/// they do (kube-proxy lets them).
fn is_within(w: &World, ranges: &[IpNet]) -> bool {
    let node = w.node(w.this_node()).into_iter().flat_map(|n| n.internal_ips.iter().copied());
    let mut own = w.host().addresses().chain(node);
    own.any(|a| ranges.iter().any(|net| net.contains(&a)))
}
