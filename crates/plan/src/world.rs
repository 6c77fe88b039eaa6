//! The world as data: what people declared, what the cluster says, what this node's kernel is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use signpost_report::{Diagnostic, Span};

use crate::{LinkIndex, NodeName, Protocol, ServiceKey};

/// Everything that decisions are made from, except what was observed of their effect.
///
/// Changed only through its methods, which keep the indexes true and say what a change touches.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub(crate) services: BTreeMap<ServiceKey, Service>,
    pub(crate) slices: BTreeMap<ServiceKey, BTreeMap<Box<str>, EndpointSlice>>,
    pub(crate) nodes: BTreeMap<NodeName, Node>,
    pub(crate) pools: BTreeMap<Box<str>, Pool>,
    pub(crate) advertisements: BTreeMap<Box<str>, L2Advertisement>,
    pub(crate) host: Host,
    /// Which Services ask for an address.
    pub(crate) by_address: BTreeMap<IpAddr, BTreeSet<ServiceKey>>,
    /// Which Services have an endpoint on a node: a change of the node touches only those.
    pub(crate) pod_ranges: Vec<IpNet>,
}

/// What a change of the world touches, to be planned again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Services whose table may differ.
    pub services: BTreeSet<ServiceKey>,
    /// Addresses whose verdict may differ.
    pub addresses: BTreeSet<IpAddr>,
    /// Everything may differ (a pool, a node, this host).
    pub all: bool,
}

/// A v1 Service, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Namespace and name.
    pub key: ServiceKey,
    /// Where it was written.
    pub span: Option<Span>,
    /// `metadata.creationTimestamp`, seconds since the epoch; absent sorts last.
    pub created: Option<i64>,
    /// `spec.type`.
    pub kind: ServiceKind,
    /// `spec.externalTrafficPolicy`.
    pub external_policy: TrafficPolicy,
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
    /// Addresses asked for, each once.
    pub addresses: Vec<IpAddr>,
}

/// `spec.type` of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// The default.
    ClusterIp,
    /// A port on every node.
    NodePort,
    /// An address from outside.
    LoadBalancer,
    /// A DNS alias.
    ExternalName,
}

/// `externalTrafficPolicy`, `internalTrafficPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficPolicy {
    /// Any endpoint of the cluster.
    Cluster,
    /// Only endpoints on the node that translates the packet.
    Local,
}

/// One of `spec.ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// The name; empty where the only port has none.
    pub name: Box<str>,
    /// The protocol.
    pub protocol: Protocol,
    /// The port that clients ask.
    pub port: u16,
}

/// A discovery.k8s.io/v1 EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// The Service, from the label `kubernetes.io/service-name`.
    pub service: ServiceKey,
    /// `metadata.name`.
    pub name: Box<str>,
    /// Where it was written.
    pub span: Option<Span>,
    /// The ports, by the name of the Service's port.
    pub ports: Vec<EndpointPort>,
    /// The endpoints.
    pub endpoints: Vec<Endpoint>,
}

/// One of an EndpointSlice's `ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointPort {
    /// Matches [`ServicePort::name`].
    pub name: Box<str>,
    /// The protocol.
    pub protocol: Protocol,
    /// The port on the pod; absent means that the slice serves no port by that name.
    pub port: Option<u16>,
}

/// One of an EndpointSlice's `endpoints`; the conditions are resolved (nil counts as the API says).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `addresses[0]`; the rest is never used (API: "all but the first are ignored").
    pub address: IpAddr,
    /// `nodeName`.
    pub node: Option<NodeName>,
    /// `conditions.ready`; nil is true.
    pub ready: bool,
    /// `conditions.serving`; nil is true.
    pub serving: bool,
    /// `conditions.terminating`; nil is false.
    pub terminating: bool,
}

/// A v1 Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// Where it was written.
    pub span: Option<Span>,
    /// Its labels, for nodeSelectors.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// `status.addresses` of type InternalIP.
    pub internal_ips: Vec<IpAddr>,
    /// `spec.podCIDRs`.
    pub pod_cidrs: Vec<IpNet>,
    /// The label `node.kubernetes.io/exclude-from-external-load-balancers`.
    pub excluded: bool,
    /// The condition NetworkUnavailable is True.
    pub network_unavailable: bool,
}

/// A metallb.io/v1beta1 IPAddressPool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// `metadata.name`.
    pub name: Box<str>,
    /// Where it was written.
    pub span: Option<Span>,
    /// The labels, for an advertisement's selectors.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Inclusive ranges, first and last of one family.
    pub ranges: Vec<(IpAddr, IpAddr)>,
}

/// A metallb.io/v1beta1 L2Advertisement. Selectors are a disjunction; none selects everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct L2Advertisement {
    /// `metadata.name`.
    pub name: Box<str>,
    /// Where it was written.
    pub span: Option<Span>,
    /// `ipAddressPools`.
    pub pools: Vec<Box<str>>,
    /// `ipAddressPoolSelectors`.
    pub pool_selectors: Vec<LabelSelector>,
    /// `nodeSelectors`.
    pub node_selectors: Vec<LabelSelector>,
    /// `interfaces`.
    pub interfaces: Vec<Box<str>>,
}

/// A meta/v1 LabelSelector: all requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(pub Vec<Requirement>);

/// One requirement of a [`LabelSelector`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The label has one of the values (`matchLabels` is the case of one).
    In(Box<str>, Vec<Box<str>>),
    /// It has none of them, or is absent.
    NotIn(Box<str>, Vec<Box<str>>),
    /// It is there.
    Exists(Box<str>),
    /// It is not.
    DoesNotExist(Box<str>),
}

/// What this node's kernel is, as far as serving depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Its network interfaces.
    pub links: BTreeMap<LinkIndex, Link>,
    /// Interfaces that a default route leaves by, with the gateway where it has one.
    pub gateways: Vec<(LinkIndex, Option<IpAddr>)>,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: Box<str>,
    /// Its Ethernet address; absent for other kinds (lo, tun).
    pub mac: Option<[u8; 6]>,
    /// Administratively up, with a carrier (IFF_UP and IFF_LOWER_UP).
    pub up: bool,
    /// `net.ipv4.conf.IF.forwarding`.
    pub forwarding: bool,
    /// Its addresses with their prefix lengths.
    pub addresses: Vec<IpNet>,
}

/// Something that people wrote and that the plan cannot do as written.
pub fn diagnostics(_w: &World) -> Vec<Diagnostic> {
    Vec::new()
}
