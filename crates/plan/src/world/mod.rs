//! The world as data: what people declared, what the cluster says, what this node's kernel is.
//!
//! [`World`] changes only through [`World::apply`] and the methods behind it, which keep the
//! indexes true and say what a change touches, so that an event re-plans that and not the world.

mod endpoints;
mod forwarding;
mod host;
mod node;
mod pods;
mod pool;
mod service;
mod touched;

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

pub use endpoints::{Endpoint, EndpointPort, EndpointSlice, Hints, SliceKey};
pub use forwarding::{Forwarding, NodePortAddresses};
pub use host::{Host, Link};
pub use node::Node;
pub use pool::{L2Advertisement, LabelSelector, Pool, Requirement};
pub use service::{Affinity, Service, ServiceKind, ServicePort, TrafficPolicy};
pub use touched::Touched;

pub(crate) use endpoints::{Interned, Stored, StoredEndpoint};

use crate::{NodeName, Protocol, ServiceKey};
use endpoints::Interner;
use pods::Pods;
use service::Index;

/// Everything that decisions are made from, except what was observed of their effect.
#[derive(Clone, Debug, Default)]
pub struct World {
    this: NodeName,
    /// Boxed: a tree's nodes are filled to two thirds.
    services: BTreeMap<ServiceKey, Box<Service>>,
    /// By Service, sorted by name: nearly always one or two.
    slices: BTreeMap<ServiceKey, Vec<Stored>>,
    /// Which Service a slice is of: its label may change, and a deletion does not tell it.
    slice_services: BTreeMap<SliceKey, ServiceKey>,
    names: Interner<NodeName>,
    hints: Interner<Hints>,
    nodes: BTreeMap<NodeName, Node>,
    pools: BTreeMap<Box<str>, Pool>,
    advertisements: BTreeMap<Box<str>, L2Advertisement>,
    host: Host,
    index: Index,
    pods: Pods,
    forwarding: Forwarding,
    node_port_addresses: NodePortAddresses,
}

/// One step of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A Service came or changed.
    Service(Service),
    /// A Service went.
    ServiceGone(ServiceKey),
    /// An EndpointSlice came or changed.
    Slice(EndpointSlice),
    /// An EndpointSlice went.
    SliceGone(SliceKey),
    /// A Node came or changed.
    Node(Node),
    /// A Node went.
    NodeGone(NodeName),
    /// An IPAddressPool came or changed.
    Pool(Pool),
    /// An IPAddressPool went.
    PoolGone(Box<str>),
    /// An L2Advertisement came or changed.
    Advertisement(L2Advertisement),
    /// An L2Advertisement went.
    AdvertisementGone(Box<str>),
    /// This node's kernel changed.
    Host(Host),
}

impl World {
    /// The empty world, seen from a node.
    pub fn new(this: NodeName) -> Self {
        Self { this, ..Self::default() }
    }

    /// The node that this agent runs on.
    pub fn this_node(&self) -> &NodeName {
        &self.this
    }

    /// Takes one step, and says what may differ now.
    pub fn apply(&mut self, change: Change) -> Touched {
        match change {
            Change::Service(s) => self.set_service(s),
            Change::ServiceGone(k) => self.remove_service(&k),
            Change::Slice(s) => self.set_slice(s),
            Change::SliceGone(k) => self.remove_slice(&k),
            Change::Node(n) => self.set_node(n),
            Change::NodeGone(n) => self.remove_node(&n),
            Change::Pool(p) => self.set_pool(p),
            Change::PoolGone(n) => self.remove_pool(&n),
            Change::Advertisement(a) => self.set_advertisement(a),
            Change::AdvertisementGone(n) => self.remove_advertisement(&n),
            Change::Host(h) => self.set_host(h),
        }
    }

    /// All Services, also those that nothing is programmed for.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.services.values().map(|s| &**s)
    }

    /// One Service.
    pub fn service(&self, key: &ServiceKey) -> Option<&Service> {
        self.services.get(key).map(|s| &**s)
    }

    /// All Nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// One Node.
    pub fn node(&self, name: &NodeName) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// All pools.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.pools.values()
    }

    /// All L2Advertisements.
    pub fn advertisements(&self) -> impl Iterator<Item = &L2Advertisement> {
        self.advertisements.values()
    }

    /// This node's kernel.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Whether an address is a Node's own (InternalIP).
    pub fn is_node_address(&self, address: IpAddr) -> bool {
        self.pods.is_host(address)
    }

    /// Whether an address is a Service's ClusterIP.
    pub fn is_cluster_ip(&self, address: IpAddr) -> bool {
        !self.index.cluster_ips.of(address).is_empty()
    }

    /// Whether outsiders may be served by an address: it lies in a pool, and it is no machine's and
    /// no ClusterIP.
    pub(crate) fn may_serve(&self, address: IpAddr) -> bool {
        let taken = self.is_node_address(address) || self.is_cluster_ip(address);
        self.pool_of(address).is_some() && !taken
    }

    /// Every address for outsiders: those that LoadBalancer Services of ours ask for, and external
    /// IPs.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.index.vips.places()
    }

    /// The Services that ask for an address for outsiders.
    pub fn services_of_address(&self, address: IpAddr) -> impl Iterator<Item = &Service> {
        self.all_of(self.index.vips.of(address))
    }

    /// The Services with a ClusterIP.
    pub(crate) fn services_of_cluster_ip(&self, ip: IpAddr) -> impl Iterator<Item = &Service> {
        self.all_of(self.index.cluster_ips.of(ip))
    }

    /// The Services with a NodePort.
    pub(crate) fn services_of_node_port(
        &self,
        protocol: Protocol,
        port: u16,
    ) -> impl Iterator<Item = &Service> {
        self.all_of(self.index.node_ports.of((protocol, port)))
    }

    fn all_of<'a>(&'a self, keys: &'a [ServiceKey]) -> impl Iterator<Item = &'a Service> {
        keys.iter().filter_map(|k| self.service(k))
    }

    /// The pool that an address lies in; of several the first by name.
    pub fn pool_of(&self, address: IpAddr) -> Option<&Pool> {
        self.pools.values().find(|p| p.contains(address))
    }

    /// The slices of a Service, as stored.
    pub(crate) fn stored(&self, key: &ServiceKey) -> &[Stored] {
        self.slices.get(key).map_or(&[], Vec::as_slice)
    }

    /// The number that stands for a node's name in stored endpoints.
    pub(crate) fn interned(&self, node: &NodeName) -> Option<Interned> {
        self.names.find(node)
    }

    /// The hints that a number in stored endpoints stands for.
    pub(crate) fn hints(&self, number: Interned) -> Option<&Hints> {
        self.hints.value(number)
    }

    /// Replaces this node's kernel.
    pub fn set_host(&mut self, host: Host) -> Touched {
        if self.host == host {
            return Touched::default();
        }
        self.host = host;
        Touched::everything()
    }

    /// Pod ranges beside the Nodes' podCIDRs (`--pod-cidr`).
    pub fn set_pod_cidrs(&mut self, cidrs: Vec<IpNet>) -> Touched {
        self.pods.set_extra(cidrs);
        self.count_pods();
        Touched { scope: true, ..Touched::default() }
    }

    /// Where pods' addresses lie: the Nodes' podCIDRs, `--pod-cidr`, and the endpoints outside
    /// both. Never a Node's own address: what comes from there is a host process's.
    pub fn pod_ranges(&self) -> Vec<IpNet> {
        self.pods.ranges()
    }
}
