//! discovery.k8s.io/v1 EndpointSlice.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;

use signpost_report::Span;

use super::{Touched, World};
use crate::{NodeName, Protocol, ServiceKey};

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
    /// Matches [`super::ServicePort::name`].
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
    /// `hints`.
    pub hints: Hints,
}

/// Whom an endpoint is for, if all endpoints of its Service say so.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hints {
    /// `forZones`.
    pub zones: Vec<Box<str>>,
    /// `forNodes`.
    pub nodes: Vec<NodeName>,
}

/// Namespace and name of an EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceKey {
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

impl fmt::Display for SliceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl EndpointSlice {
    /// Its namespace, which is its Service's, and its name.
    pub fn key(&self) -> SliceKey {
        SliceKey { namespace: self.service.namespace.clone(), name: self.name.clone() }
    }
}

/// A slice as the world keeps it: 28 bytes an endpoint, for there are a hundred thousand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) name: Box<str>,
    pub(crate) ports: Box<[EndpointPort]>,
    pub(crate) endpoints: Box<[StoredEndpoint]>,
}

/// An endpoint as the world keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredEndpoint {
    pub(crate) address: IpAddr,
    pub(crate) node: Option<Interned>,
    /// `None`: no hints.
    pub(crate) hints: Option<Interned>,
    pub(crate) ready: bool,
    pub(crate) serving: bool,
    pub(crate) terminating: bool,
}

/// A number that stands for a node's name, or for hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interned(NonZeroU32);

/// Values, each once. Never forgets one: a cluster has few nodes and zones over its life.
#[derive(Clone, Debug)]
pub(super) struct Interner<T> {
    numbers: BTreeMap<T, Interned>,
    values: Vec<T>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new(), values: Vec::new() }
    }
}

impl<T: Ord + Clone> Interner<T> {
    pub(super) fn find(&self, value: &T) -> Option<Interned> {
        self.numbers.get(value).copied()
    }

    pub(super) fn value(&self, Interned(number): Interned) -> Option<&T> {
        self.values.get(number.get() as usize - 1)
    }

    fn number(&mut self, value: T) -> Interned {
        if let Some(number) = self.find(&value) {
            return number;
        }
        self.values.push(value.clone());
        let next = u32::try_from(self.values.len()).ok().and_then(NonZeroU32::new);
        let next = Interned(next.expect("there are less than 4 billion of them"));
        self.numbers.insert(value, next);
        next
    }
}

impl World {
    /// Adds or replaces an EndpointSlice.
    pub fn set_slice(&mut self, slice: EndpointSlice) -> Touched {
        let key = slice.key();
        let service = slice.service.clone();
        let stored = self.store(slice);
        if self.slice_services.get(&key) == Some(&service)
            && self.stored(&service).contains(&stored)
        {
            return Touched::default();
        }
        // New endpoints are counted before the old ones are dropped, so that the ranges of those
        // that stay do not come and go.
        let mut scope = false;
        for e in &stored.endpoints {
            scope |= self.pods.add(e.address);
        }
        let mut touched = self.remove_slice(&key);
        touched.scope |= scope;
        let slices = self.slices.entry(service.clone()).or_default();
        let at = slices.partition_point(|s| s.name < stored.name);
        slices.insert(at, stored);
        slices.shrink_to_fit();
        touched.merge(self.endpoints_of(&service));
        self.slice_services.insert(key, service);
        touched
    }

    /// Removes an EndpointSlice.
    pub fn remove_slice(&mut self, key: &SliceKey) -> Touched {
        let Some(service) = self.slice_services.remove(key) else { return Touched::default() };
        let slices = self.slices.get_mut(&service).expect("the index names stored slices only");
        let at = slices.iter().position(|s| s.name == key.name);
        let old = slices.remove(at.expect("the index names stored slices only"));
        if slices.is_empty() {
            self.slices.remove(&service);
        }
        let mut touched = self.endpoints_of(&service);
        for e in &old.endpoints {
            touched.scope |= self.pods.remove(e.address);
        }
        touched
    }

    fn store(&mut self, slice: EndpointSlice) -> Stored {
        let mut store = |e: Endpoint| StoredEndpoint {
            address: e.address,
            node: e.node.map(|n| self.names.number(n)),
            hints: (e.hints != Hints::default()).then(|| self.hints.number(e.hints)),
            ready: e.ready,
            serving: e.serving,
            terminating: e.terminating,
        };
        Stored {
            name: slice.name,
            ports: slice.ports.into_boxed_slice(),
            endpoints: slice.endpoints.into_iter().map(&mut store).collect(),
        }
    }

    /// What a change of its endpoints touches: the Service and its addresses, no other Service.
    fn endpoints_of(&self, key: &ServiceKey) -> Touched {
        let mut touched = Touched::default();
        if let Some(service) = self.services.get(key) {
            touched.services.insert(key.clone());
            touched.addresses.extend(service.vips());
        }
        touched
    }
}
