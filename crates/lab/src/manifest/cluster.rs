//! The objects of the cluster itself: nodes, the pool and its advertisement.

use std::fmt::Write;

use super::listed;
use crate::{Family, Topology};

/// Nodes, the pool and its advertisement, each with its file's name.
pub(crate) fn of_topology(t: &Topology) -> Vec<(String, String)> {
    let mut nodes = String::new();
    for node in &t.nodes {
        let addresses: String = Family::ALL
            .into_iter()
            .filter_map(|f| node.at(f))
            .map(|a| format!("  - {{type: InternalIP, address: {a}}}\n"))
            .collect();
        let _ = write!(
            nodes,
            "---
apiVersion: v1
kind: Node
metadata:
  name: {name}
  labels:
    kubernetes.io/hostname: {name}
    topology.kubernetes.io/zone: {zone}
spec:
  podCIDR: {cidr}
  podCIDRs: [{cidrs}]
status:
  addresses:
{addresses}  - {{type: Hostname, address: {name}}}
  conditions:
  - {{type: Ready, status: \"True\"}}
",
            name = node.name,
            zone = zone(&node.name),
            cidr = node.pod_cidr,
            cidrs = listed(Family::ALL.into_iter().filter_map(|f| node.pod_subnet(f))),
        );
    }
    let pool = listed(t.families().into_iter().filter_map(|f| Some(t.subnets(f)?.pool)));
    let pool = format!(
        "apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata:
  name: lab
  namespace: metallb-system
spec:
  addresses: [{pool}]
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata:
  name: lab
  namespace: metallb-system
spec:
  ipAddressPools: [lab]
",
    );
    vec![("nodes.yaml".to_owned(), nodes), ("pool.yaml".to_owned(), pool)]
}

/// The zone of a node: each has one of its own.
pub(crate) fn zone(node: &str) -> String {
    format!("zone-of-{node}")
}
