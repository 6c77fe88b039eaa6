//! The kinds that count.

use std::fmt;

use signpost_plan::world::{Change, EndpointSlice, L2Advertisement, Node, Pool, Service, SliceKey};
use signpost_plan::{NodeName, ServiceKey};
use signpost_report::Span;

/// An object of a kind that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// v1 Service.
    Service(Service),
    /// discovery.k8s.io/v1 EndpointSlice.
    Slice(EndpointSlice),
    /// v1 Node.
    Node(Node),
    /// metallb.io/v1beta1 IPAddressPool.
    Pool(Pool),
    /// metallb.io/v1beta1 L2Advertisement.
    Advertisement(L2Advertisement),
}

/// What makes two objects the same one: kind, namespace and name.
///
/// Pools and advertisements go by their name alone: MetalLB reads one namespace only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// v1 Service.
    Service(ServiceKey),
    /// discovery.k8s.io/v1 EndpointSlice.
    Slice(SliceKey),
    /// v1 Node.
    Node(NodeName),
    /// metallb.io/v1beta1 IPAddressPool.
    Pool(Box<str>),
    /// metallb.io/v1beta1 L2Advertisement.
    Advertisement(Box<str>),
}

impl Object {
    /// What makes two objects the same one.
    pub fn identity(&self) -> Identity {
        match self {
            Self::Service(s) => Identity::Service(s.key.clone()),
            Self::Slice(s) => Identity::Slice(s.key()),
            Self::Node(n) => Identity::Node(n.name.clone()),
            Self::Pool(p) => Identity::Pool(p.name.clone()),
            Self::Advertisement(a) => Identity::Advertisement(a.name.clone()),
        }
    }

    /// Where it was written.
    pub fn span(&self) -> Option<&Span> {
        match self {
            Self::Service(s) => s.span.as_ref(),
            Self::Slice(s) => s.span.as_ref(),
            Self::Node(n) => n.span.as_ref(),
            Self::Pool(p) => p.span.as_ref(),
            Self::Advertisement(a) => a.span.as_ref(),
        }
    }

    pub(crate) fn set_span(&mut self, span: Span) {
        let slot = match self {
            Self::Service(s) => &mut s.span,
            Self::Slice(s) => &mut s.span,
            Self::Node(n) => &mut n.span,
            Self::Pool(p) => &mut p.span,
            Self::Advertisement(a) => &mut a.span,
        };
        *slot = Some(span);
    }

    /// The step of the world that it came or changed.
    pub fn into_change(self) -> Change {
        match self {
            Self::Service(s) => Change::Service(s),
            Self::Slice(s) => Change::Slice(s),
            Self::Node(n) => Change::Node(n),
            Self::Pool(p) => Change::Pool(p),
            Self::Advertisement(a) => Change::Advertisement(a),
        }
    }
}

impl Identity {
    /// The step of the world that it went.
    pub fn gone(&self) -> Change {
        match self.clone() {
            Self::Service(k) => Change::ServiceGone(k),
            Self::Slice(k) => Change::SliceGone(k),
            Self::Node(n) => Change::NodeGone(n),
            Self::Pool(n) => Change::PoolGone(n),
            Self::Advertisement(n) => Change::AdvertisementGone(n),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(k) => write!(f, "Service {k}"),
            Self::Slice(k) => write!(f, "EndpointSlice {k}"),
            Self::Node(n) => write!(f, "Node {n}"),
            Self::Pool(n) => write!(f, "IPAddressPool {n}"),
            Self::Advertisement(n) => write!(f, "L2Advertisement {n}"),
        }
    }
}
