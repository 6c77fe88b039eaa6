//! v1 Service.

use std::net::IpAddr;

use signpost_report::Span;

use super::{Touched, World};
use crate::{Protocol, ServiceKey, is_served};

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
    pub ports: Box<[ServicePort]>,
    /// Addresses asked for, each once.
    pub addresses: Box<[IpAddr]>,
    /// False where somebody else acts for it, or nobody: the label
    /// `service.kubernetes.io/service-proxy-name`, a `loadBalancerClass` of others, headless.
    pub ours: bool,
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

impl Service {
    /// Whether it is a LoadBalancer Service of ours: the only kind that tables are made for.
    pub fn is_programmed(&self) -> bool {
        self.ours && self.kind == ServiceKind::LoadBalancer
    }

    /// Whether it wins an address and port over another Service: the older, then the first by
    /// namespace and name, as every node sees it.
    pub fn precedes(&self, other: &Self) -> bool {
        let age = |s: &Self| (s.created.is_none(), s.created);
        (age(self), &self.key) < (age(other), &other.key)
    }
}

impl World {
    /// Adds or replaces a Service.
    pub fn set_service(&mut self, service: Service) -> Touched {
        let key = service.key.clone();
        let Some(old) = self.services.get_mut(&key) else {
            self.index(&service);
            self.services.insert(key.clone(), service);
            return self.around(&key);
        };
        let moved = Service { span: service.span.clone(), ..old.clone() };
        if moved == service {
            *old = moved;
            return Touched::default();
        }
        let mut touched = self.remove_service(&key);
        self.index(&service);
        self.services.insert(key.clone(), service);
        touched.merge(self.around(&key));
        touched
    }

    /// Removes a Service; its slices stay, for it may come back.
    pub fn remove_service(&mut self, key: &ServiceKey) -> Touched {
        let touched = self.around(key);
        let Some(old) = self.services.remove(key) else { return Touched::default() };
        for address in &old.addresses {
            if let Some(keys) = self.by_address.get_mut(address) {
                keys.retain(|k| k != key);
                if keys.is_empty() {
                    self.by_address.remove(address);
                }
            }
        }
        touched
    }

    fn index(&mut self, service: &Service) {
        if !service.is_programmed() {
            return;
        }
        for address in service.addresses.iter().filter(|a| is_served(**a, Protocol::Tcp)) {
            let keys = self.by_address.entry(*address).or_default();
            if let Err(at) = keys.binary_search(&service.key) {
                keys.insert(at, service.key.clone());
            }
        }
    }

    /// A Service, its addresses, and the Services that share them: who wins a port may differ.
    fn around(&self, key: &ServiceKey) -> Touched {
        let mut touched = Touched::default();
        let Some(service) = self.services.get(key) else { return touched };
        touched.services.insert(key.clone());
        for address in &service.addresses {
            touched.addresses.insert(*address);
            touched.services.extend(self.by_address.get(address).into_iter().flatten().cloned());
        }
        touched
    }
}
