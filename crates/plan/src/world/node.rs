//! v1 Node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use signpost_report::Span;

use super::{Touched, World};
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
    /// Where topology hints say that it is: the label `topology.kubernetes.io/zone`.
    pub zone: Option<Box<str>>,
    /// It is about to go: its deletion is asked for, or it bears the taint
    /// `ToBeDeletedByClusterAutoscaler` (KEP-3836).
    pub leaving: bool,
    /// The label `node.kubernetes.io/exclude-from-external-load-balancers`.
    pub excluded: bool,
    /// The condition NetworkUnavailable is True.
    pub network_unavailable: bool,
}

impl World {
    /// Adds or replaces a Node.
    pub fn set_node(&mut self, node: Node) -> Touched {
        let name = node.name.clone();
        let old = self.nodes.get(&name);
        // A kubelet's heartbeat rewrites the object every few minutes; a line moves in a file.
        if let Some(old) = old
            && (Node { span: node.span.clone(), ..old.clone() }) == node
        {
            self.nodes.insert(name, node);
            return Touched::default();
        }
        let shrinks = old.is_some_and(|old| {
            !old.pod_cidrs.iter().all(|n| node.pod_cidrs.contains(n))
                || !old.internal_ips.iter().all(|ip| node.internal_ips.contains(ip))
        });
        let mut touched = old.map_or_else(Touched::default, |old| self.at_node(old));
        touched.merge(self.at_node(&node));
        if shrinks {
            self.nodes.insert(name, node);
            self.count_pods();
        } else {
            self.declare_pods(&node);
            self.nodes.insert(name, node);
        }
        touched
    }

    /// Removes a Node.
    pub fn remove_node(&mut self, name: &NodeName) -> Touched {
        let Some(old) = self.nodes.remove(name) else { return Touched::default() };
        self.count_pods();
        self.at_node(&old)
    }

    /// What depends on a Node: everything on this one; of others who is a pod, and the Services
    /// that ask for the node's own addresses.
    fn at_node(&self, node: &Node) -> Touched {
        let mut touched =
            Touched { all: node.name == self.this, scope: true, ..Touched::default() };
        for ip in &node.internal_ips {
            let asking = self.index.vips.of(*ip);
            touched.services.extend(asking.iter().cloned());
            touched.addresses.extend((!asking.is_empty()).then_some(*ip));
        }
        touched
    }
}
