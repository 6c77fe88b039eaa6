//! v1 Service.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use signpost_report::Span;

use super::{Touched, World};
use crate::{Family, Protocol, ServiceKey};

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
    /// `spec.internalTrafficPolicy`.
    pub internal_policy: TrafficPolicy,
    /// `spec.ports`.
    pub ports: Box<[ServicePort]>,
    /// Addresses that a LoadBalancer Service of ours asks for, each once.
    pub addresses: Box<[IpAddr]>,
    /// `spec.externalIPs`.
    pub external_ips: Box<[IpAddr]>,
    /// `spec.clusterIPs`.
    pub cluster_ips: Box<[IpAddr]>,
    /// The families that it has NodePorts in.
    pub families: Box<[Family]>,
    /// `spec.sessionAffinity`.
    pub affinity: Affinity,
    /// `spec.loadBalancerSourceRanges`, of both families.
    pub source_ranges: Box<[IpNet]>,
    /// `spec.healthCheckNodePort`.
    pub health_check_port: Option<u16>,
    /// `spec.publishNotReadyAddresses`.
    pub publishes_not_ready: bool,
    /// Whether its addresses are for us to serve: no `loadBalancerClass` of others.
    pub ours: bool,
    /// False where another proxy or nobody forwards: the label
    /// `service.kubernetes.io/service-proxy-name`, headless, ExternalName.
    pub proxied: bool,
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

/// `sessionAffinity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Affinity {
    /// Every connection goes anywhere.
    None,
    /// A client's connections go where its last one went.
    ClientIp {
        /// Forgotten after so many seconds without a new connection.
        timeout_s: u32,
    },
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
    /// The port that they ask of nodes; none with `allocateLoadBalancerNodePorts: false`.
    pub node_port: Option<u16>,
}

impl Service {
    /// Whether it is a LoadBalancer Service of ours.
    pub fn is_load_balancer(&self) -> bool {
        self.proxied && self.ours && self.kind == ServiceKind::LoadBalancer
    }

    /// The addresses that it is asked for by outsiders.
    pub fn vips(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let balanced = self.addresses.iter().copied().filter(|_| self.is_load_balancer());
        let external = self.external_ips.iter().copied().filter(|_| self.proxied);
        balanced.chain(external.filter(|a| !self.is_load_balancer() || !self.addresses.contains(a)))
    }

    /// Whether it wins an address and port over another Service: the older, then the first by
    /// namespace and name, as every node sees it.
    pub fn precedes(&self, other: &Self) -> bool {
        let age = |s: &Self| (s.created.is_none(), s.created);
        (age(self), &self.key) < (age(other), &other.key)
    }

    fn node_ports(&self) -> impl Iterator<Item = (Protocol, u16)> + '_ {
        let proxied = self.ports.iter().filter(|_| self.proxied);
        proxied.filter_map(|p| Some((p.protocol, p.node_port?)))
    }

    fn cluster_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.cluster_ips.iter().copied().filter(|_| self.proxied)
    }
}

/// Which Services ask for a place.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    pub(super) vips: Claims<IpAddr>,
    pub(super) cluster_ips: Claims<IpAddr>,
    pub(super) node_ports: Claims<(Protocol, u16)>,
}

/// The Services that ask for each of many places, sorted.
#[derive(Clone, Debug)]
pub(super) struct Claims<T>(BTreeMap<T, Vec<ServiceKey>>);

impl<T> Default for Claims<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord + Copy> Claims<T> {
    pub(super) fn of(&self, place: T) -> &[ServiceKey] {
        self.0.get(&place).map_or(&[], Vec::as_slice)
    }

    pub(super) fn places(&self) -> impl Iterator<Item = T> + '_ {
        self.0.keys().copied()
    }

    fn add(&mut self, place: T, key: &ServiceKey) {
        let keys = self.0.entry(place).or_insert_with(|| Vec::with_capacity(1));
        if let Err(at) = keys.binary_search(key) {
            keys.insert(at, key.clone());
        }
    }

    fn remove(&mut self, place: T, key: &ServiceKey) {
        if let Some(keys) = self.0.get_mut(&place) {
            keys.retain(|k| k != key);
            if keys.is_empty() {
                self.0.remove(&place);
            }
        }
    }
}

impl Index {
    fn add(&mut self, s: &Service) {
        s.vips().for_each(|a| self.vips.add(a, &s.key));
        s.cluster_addresses().for_each(|a| self.cluster_ips.add(a, &s.key));
        s.node_ports().for_each(|p| self.node_ports.add(p, &s.key));
    }

    fn remove(&mut self, s: &Service) {
        s.vips().for_each(|a| self.vips.remove(a, &s.key));
        s.cluster_addresses().for_each(|a| self.cluster_ips.remove(a, &s.key));
        s.node_ports().for_each(|p| self.node_ports.remove(p, &s.key));
    }
}

impl World {
    /// Adds or replaces a Service.
    pub fn set_service(&mut self, service: Service) -> Touched {
        let key = service.key.clone();
        let Some(old) = self.services.get_mut(&key) else {
            self.index.add(&service);
            self.services.insert(key.clone(), Box::new(service));
            return self.around(&key);
        };
        let moved = Service { span: service.span.clone(), ..Service::clone(old) };
        if moved == service {
            **old = moved;
            return Touched::default();
        }
        let mut touched = self.remove_service(&key);
        self.index.add(&service);
        self.services.insert(key.clone(), Box::new(service));
        touched.merge(self.around(&key));
        touched
    }

    /// Removes a Service; its slices stay, for it may come back.
    pub fn remove_service(&mut self, key: &ServiceKey) -> Touched {
        let touched = self.around(key);
        let Some(old) = self.services.remove(key) else { return Touched::default() };
        self.index.remove(&old);
        touched
    }

    /// A Service, its addresses, and the Services that share what it is asked by: who wins a port
    /// may differ.
    fn around(&self, key: &ServiceKey) -> Touched {
        let mut touched = Touched::default();
        let Some(service) = self.services.get(key) else { return touched };
        touched.services.insert(key.clone());
        for address in service.vips() {
            touched.addresses.insert(address);
            touched.services.extend(self.index.vips.of(address).iter().cloned());
        }
        for address in service.cluster_addresses() {
            touched.services.extend(self.index.cluster_ips.of(address).iter().cloned());
            // An address for outsiders that is a ClusterIP is not served.
            let vips = self.index.vips.of(address);
            touched.addresses.extend((!vips.is_empty()).then_some(address));
            touched.services.extend(vips.iter().cloned());
        }
        for port in service.node_ports() {
            touched.services.extend(self.index.node_ports.of(port).iter().cloned());
        }
        touched
    }
}
