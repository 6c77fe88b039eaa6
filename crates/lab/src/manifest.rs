//! The Kubernetes objects of a lab, as YAML.

use std::fmt::Write;
use std::net::Ipv4Addr;

use crate::Topology;
use crate::lab::POD_PORT;

/// A Service and its EndpointSlice. TCP and UDP 80 lead to the pods' port.
#[derive(Clone, Debug)]
pub struct Service<'a> {
    /// Its name, in the namespace `demo`.
    pub name: &'a str,
    /// The address it asks for.
    pub address: Ipv4Addr,
    /// `externalTrafficPolicy`.
    pub policy: Policy,
    /// Its endpoints: pods with their state.
    pub endpoints: Vec<(&'a str, State)>,
}

/// `externalTrafficPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Any endpoint.
    Cluster,
    /// The node's own.
    Local,
}

impl Policy {
    /// As the API writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Local => "Local",
        }
    }
}

/// The conditions of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Ready.
    Ready,
    /// Neither ready nor serving.
    NotReady,
    /// Terminating, and serving still.
    Terminating,
}

impl State {
    fn conditions(self) -> (bool, bool, bool) {
        match self {
            Self::Ready => (true, true, false),
            Self::NotReady => (false, false, false),
            Self::Terminating => (false, true, true),
        }
    }
}

impl Service<'_> {
    /// The file that [`crate::Lab::write_manifest`] should put it into.
    pub fn file(&self) -> String {
        format!("service-{}.yaml", self.name)
    }

    /// Both objects. Pods that the topology does not have are left out.
    pub fn yaml(&self, t: &Topology) -> String {
        let mut yaml = format!(
            "apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: demo
spec:
  type: LoadBalancer
  externalTrafficPolicy: {policy}
  loadBalancerIP: {address}
  ports:
  - {{name: p, protocol: TCP, port: 80, targetPort: {POD_PORT}}}
  - {{name: u, protocol: UDP, port: 80, targetPort: {POD_PORT}}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {name}-1
  namespace: demo
  labels:
    kubernetes.io/service-name: {name}
addressType: IPv4
ports:
- {{name: p, protocol: TCP, port: {POD_PORT}}}
- {{name: u, protocol: UDP, port: {POD_PORT}}}
",
            name = self.name,
            policy = self.policy.word(),
            address = self.address,
        );
        yaml.push_str(if self.endpoints.is_empty() { "endpoints: []\n" } else { "endpoints:\n" });
        for (pod, state) in &self.endpoints {
            let Some((node, pod)) = t.pod(pod) else { continue };
            let (ready, serving, terminating) = state.conditions();
            let _ = write!(
                yaml,
                "- addresses: [{}]
  conditions: {{ready: {ready}, serving: {serving}, terminating: {terminating}}}
  nodeName: {}
  targetRef: {{kind: Pod, namespace: demo, name: {}}}
",
                pod.address, node.name, pod.name
            );
        }
        yaml
    }
}

/// Nodes, the pool and its advertisement, each with its file's name.
pub(crate) fn of_topology(t: &Topology) -> Vec<(String, String)> {
    let mut nodes = String::new();
    for node in &t.nodes {
        let _ = write!(
            nodes,
            "---
apiVersion: v1
kind: Node
metadata:
  name: {name}
  labels:
    kubernetes.io/hostname: {name}
spec:
  podCIDR: {cidr}
  podCIDRs: [{cidr}]
status:
  addresses:
  - {{type: InternalIP, address: {address}}}
  - {{type: Hostname, address: {name}}}
  conditions:
  - {{type: Ready, status: \"True\"}}
",
            name = node.name,
            cidr = node.pod_cidr,
            address = node.address,
        );
    }
    let pool = format!(
        "apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata:
  name: lab
  namespace: metallb-system
spec:
  addresses: [{}]
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata:
  name: lab
  namespace: metallb-system
spec:
  ipAddressPools: [lab]
",
        t.pool
    );
    vec![("nodes.yaml".to_owned(), nodes), ("pool.yaml".to_owned(), pool)]
}
