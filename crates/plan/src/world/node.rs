//! v1 Node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use signpost_report::Span;

use crate::NodeName;

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
