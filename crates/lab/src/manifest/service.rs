//! A Service and its EndpointSlices.

use std::fmt::{Display, Write};
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use super::cluster::zone;
use super::listed;
use crate::lab::POD_PORT;
use crate::{Family, Topology};

/// A Service and its EndpointSlices, as an API server would have filled it in. Every port leads to
/// the pods' port.
#[derive(Clone, Debug)]
pub struct Service<'a> {
    /// Its name, in the namespace `demo`.
    pub name: &'a str,
    /// `type`.
    pub kind: Kind,
    /// `clusterIPs`; with none it says nothing of them.
    pub cluster_ips: Vec<IpAddr>,
    /// The addresses that a LoadBalancer asks for.
    pub balanced: Vec<IpAddr>,
    /// `externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// `externalTrafficPolicy`.
    pub external: Policy,
    /// `internalTrafficPolicy`.
    pub internal: Policy,
    /// `loadBalancerSourceRanges`.
    pub source_ranges: Vec<IpNet>,
    /// `sessionAffinity: ClientIP`, for so many seconds.
    pub affinity_s: Option<u32>,
    /// `publishNotReadyAddresses`.
    pub publishes_not_ready: bool,
    /// What is special about it.
    pub label: Option<Label>,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Its endpoints: pods with their state.
    pub endpoints: Vec<(&'a str, State)>,
    /// The nodes in whose zones the endpoints of the same place are hinted to be used.
    pub hints: Vec<&'a str>,
}

/// `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For the cluster's inside.
    ClusterIp,
    /// On every node.
    NodePort,
    /// At an address of the pool.
    LoadBalancer,
}

/// A traffic policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Any endpoint.
    Cluster,
    /// The node's own.
    Local,
}

/// A label that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// The Service is for another proxy.
    ProxyName,
    /// `service.kubernetes.io/headless`, on the Service.
    Headless,
    /// The same on its slices.
    HeadlessSlices,
}

/// A port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// `protocol`.
    pub protocol: Transport,
    /// `port`.
    pub port: u16,
    /// `nodePort`.
    pub node_port: Option<u16>,
}

/// A protocol of Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// The conditions of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Ready.
    Ready,
    /// Ready, since nothing is said of it: `conditions: {}`.
    Unsaid,
    /// Neither ready nor serving.
    NotReady,
    /// Terminating, and serving still.
    Terminating,
    /// Terminating, and nothing said of serving, which means that it does.
    TerminatingUnsaid,
}

impl<'a> Service<'a> {
    /// A LoadBalancer with one address, and TCP and UDP 80.
    pub fn balanced(
        name: &'a str,
        address: Ipv4Addr,
        external: Policy,
        endpoints: Vec<(&'a str, State)>,
    ) -> Self {
        let port = |protocol| Port { protocol, port: 80, node_port: None };
        Self {
            name,
            kind: Kind::LoadBalancer,
            cluster_ips: Vec::new(),
            balanced: vec![address.into()],
            external_ips: Vec::new(),
            external,
            internal: Policy::Cluster,
            source_ranges: Vec::new(),
            affinity_s: None,
            publishes_not_ready: false,
            label: None,
            ports: vec![port(Transport::Tcp), port(Transport::Udp)],
            endpoints,
            hints: Vec::new(),
        }
    }

    /// The file that [`crate::Lab::write_manifest`] should put it into.
    pub fn file(&self) -> String {
        format!("service-{}.yaml", self.name)
    }

    /// All its objects. Pods that the topology does not have are left out.
    pub fn yaml(&self, t: &Topology) -> String {
        let mut yaml = self.object();
        for family in self.families() {
            self.slice(family, t, &mut yaml);
        }
        yaml
    }

    /// The families of its addresses.
    pub fn families(&self) -> Vec<Family> {
        let all = [&self.cluster_ips, &self.balanced, &self.external_ips];
        let has = |f: &Family| all.into_iter().flatten().any(|a| Family::of(*a) == *f);
        Family::ALL.into_iter().filter(has).collect()
    }

    fn object(&self) -> String {
        let mut yaml = format!(
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: {}\n  namespace: demo\n",
            self.name
        );
        match self.label {
            Some(Label::ProxyName) => {
                yaml.push_str("  labels: {service.kubernetes.io/service-proxy-name: another}\n");
            }
            Some(Label::Headless) => {
                yaml.push_str("  labels: {service.kubernetes.io/headless: \"\"}\n");
            }
            Some(Label::HeadlessSlices) | None => {}
        }
        match &self.balanced[..] {
            [] | [IpAddr::V4(_)] => {}
            several => {
                let list: Vec<String> = several.iter().map(ToString::to_string).collect();
                let _ = writeln!(
                    yaml,
                    "  annotations: {{metallb.io/loadBalancerIPs: \"{}\"}}",
                    list.join(",")
                );
            }
        }
        yaml.push_str("spec:\n");
        let mut field = |key: &str, value: &dyn Display| {
            let _ = writeln!(yaml, "  {key}: {value}");
        };
        field("type", &self.kind.word());
        if self.kind != Kind::ClusterIp || !self.external_ips.is_empty() {
            field("externalTrafficPolicy", &self.external.word());
        }
        field("internalTrafficPolicy", &self.internal.word());
        if let Some(first) = self.cluster_ips.first() {
            field("clusterIP", first);
            field("clusterIPs", &format!("[{}]", quoted(&self.cluster_ips)));
        }
        let families = self.families();
        field("ipFamilies", &format!("[{}]", listed(&families)));
        let both = if families.len() > 1 { "RequireDualStack" } else { "SingleStack" };
        field("ipFamilyPolicy", &both);
        if let [IpAddr::V4(only)] = self.balanced[..] {
            field("loadBalancerIP", &only);
        }
        if !self.external_ips.is_empty() {
            field("externalIPs", &format!("[{}]", quoted(&self.external_ips)));
        }
        if !self.source_ranges.is_empty() {
            field("loadBalancerSourceRanges", &format!("[{}]", quoted(&self.source_ranges)));
        }
        if let Some(seconds) = self.affinity_s {
            field("sessionAffinity", &"ClientIP");
            let config = format!("{{clientIP: {{timeoutSeconds: {seconds}}}}}");
            field("sessionAffinityConfig", &config);
        }
        if self.publishes_not_ready {
            field("publishNotReadyAddresses", &true);
        }
        yaml.push_str("  ports:\n");
        for port in &self.ports {
            let _ = write!(
                yaml,
                "  - {{name: {}, protocol: {}, port: {}, targetPort: {POD_PORT}",
                port.name(),
                port.protocol.word(),
                port.port,
            );
            if let Some(node_port) = port.node_port {
                let _ = write!(yaml, ", nodePort: {node_port}");
            }
            yaml.push_str("}\n");
        }
        yaml
    }

    fn slice(&self, family: Family, t: &Topology, yaml: &mut String) {
        let headless = match self.label {
            Some(Label::HeadlessSlices) => "    service.kubernetes.io/headless: \"\"\n",
            Some(Label::ProxyName | Label::Headless) | None => "",
        };
        let _ = write!(
            yaml,
            "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {name}-{suffix}
  namespace: demo
  labels:
    kubernetes.io/service-name: {name}
{headless}addressType: {family}
ports:
",
            name = self.name,
            suffix = family.word().to_ascii_lowercase(),
        );
        for port in &self.ports {
            let (name, protocol) = (port.name(), port.protocol.word());
            let _ = writeln!(yaml, "- {{name: {name}, protocol: {protocol}, port: {POD_PORT}}}");
        }
        let all: Vec<String> = self
            .endpoints
            .iter()
            .enumerate()
            .filter_map(|(n, (pod, state))| self.endpoint(n, pod, *state, family, t))
            .collect();
        yaml.push_str(if all.is_empty() { "endpoints: []\n" } else { "endpoints:\n" });
        yaml.extend(all);
    }

    fn endpoint(
        &self,
        n: usize,
        pod: &str,
        state: State,
        family: Family,
        t: &Topology,
    ) -> Option<String> {
        let (node, pod) = t.pod(pod)?;
        let mut text = format!(
            "- addresses: [\"{}\"]
  conditions: {{{}}}
  nodeName: {node}
  zone: {zone}
  targetRef: {{kind: Pod, namespace: demo, name: {}}}
",
            pod.at(family)?,
            state.conditions(self.publishes_not_ready),
            pod.name,
            node = node.name,
            zone = zone(&node.name),
        );
        if let Some(hinted) = self.hints.get(n) {
            let _ = writeln!(text, "  hints: {{forZones: [{{name: {}}}]}}", zone(hinted));
        }
        Some(text)
    }
}

fn quoted<T: Display>(list: &[T]) -> String {
    listed(list.iter().map(|a| format!("\"{a}\"")))
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
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

impl Transport {
    /// As the API writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

impl Port {
    fn name(self) -> String {
        format!("{}-{}", self.protocol.word().to_ascii_lowercase(), self.port)
    }
}

impl State {
    /// Where not-ready endpoints are published, ready is said of every one.
    fn conditions(self, published: bool) -> &'static str {
        match (self, published) {
            (Self::Ready, _) | (Self::NotReady, true) => {
                "ready: true, serving: true, terminating: false"
            }
            (Self::Unsaid, _) => "",
            (Self::NotReady, false) => "ready: false, serving: false, terminating: false",
            (Self::Terminating, false) => "ready: false, serving: true, terminating: true",
            (Self::Terminating | Self::TerminatingUnsaid, true) => {
                "ready: true, serving: true, terminating: true"
            }
            (Self::TerminatingUnsaid, false) => "ready: false, terminating: true",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_says_what_was_asked_for() {
        let t = Topology::default().with_ipv6();
        let vip = Ipv4Addr::new(192, 0, 2, 100);
        let plain = Service::balanced("web", vip, Policy::Local, vec![("a1", State::Ready)]);
        let yaml = plain.yaml(&t);
        assert!(yaml.contains("  loadBalancerIP: 192.0.2.100\n"), "{yaml}");
        assert!(!yaml.contains("IPv6") && !yaml.contains("clusterIP"), "{yaml}");
        let port = Port { protocol: Transport::Sctp, port: 80, node_port: Some(30_080) };
        let all = Service {
            cluster_ips: vec!["10.233.0.9".parse().unwrap(), "fd00::9".parse().unwrap()],
            balanced: vec![vip.into(), "2001:db8:2::100".parse().unwrap()],
            source_ranges: vec!["10.0.0.0/8".parse().unwrap()],
            affinity_s: Some(9),
            label: Some(Label::HeadlessSlices),
            ports: vec![port],
            hints: vec!["node-c"],
            ..plain
        };
        let yaml = all.yaml(&t);
        for said in [
            "loadBalancerIPs: \"192.0.2.100,2001:db8:2::100\"",
            "clusterIPs: [\"10.233.0.9\", \"fd00::9\"]",
            "ipFamilies: [IPv4, IPv6]",
            "loadBalancerSourceRanges: [\"10.0.0.0/8\"]",
            "timeoutSeconds: 9",
            "protocol: SCTP, port: 80, targetPort: 8080, nodePort: 30080",
            "addressType: IPv6",
            "- addresses: [\"2001:db8:19:1::5\"]",
            "forZones: [{name: zone-of-node-c}]",
            "service.kubernetes.io/headless",
        ] {
            assert!(yaml.contains(said), "{said} in {yaml}");
        }
    }
}
