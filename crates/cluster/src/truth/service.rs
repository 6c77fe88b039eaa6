//! The Services of a recording: which addresses and ports its targets stand for.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::Deserialize;

/// By their names.
pub(super) struct Services(BTreeMap<String, Service>);

/// What a target may ask of one.
#[derive(Default)]
pub(super) struct Service {
    cluster_ip: Option<Ipv4Addr>,
    external_ip: Option<Ipv4Addr>,
    load_balancer_ip: Option<Ipv4Addr>,
    node_port: Option<u16>,
    health_check_node_port: Option<u16>,
}

impl Services {
    /// Reads manifests; what is no Service is passed over.
    pub(super) fn parse(yaml: &str) -> Result<Self, String> {
        let documents: Vec<Document> =
            serde_saphyr::from_multiple(yaml).map_err(|e| e.to_string())?;
        let services = documents.into_iter().filter(|d| d.kind == "Service");
        Ok(Self(services.map(|d| (d.metadata.name.clone(), d.into())).collect()))
    }

    /// One by its name.
    pub(super) fn get(&self, name: &str) -> Option<&Service> {
        self.0.get(name)
    }
}

impl Service {
    /// The address that a word stands for.
    pub(super) fn address(&self, word: &str) -> Option<Ipv4Addr> {
        match word {
            "clusterIP" => self.cluster_ip,
            "externalIP" => self.external_ip,
            "loadBalancerIP" => self.load_balancer_ip,
            _ => None,
        }
    }

    /// The port that a word stands for.
    pub(super) fn port(&self, word: &str) -> Option<u16> {
        match word {
            "nodePort" => self.node_port,
            "healthCheckNodePort" => self.health_check_node_port,
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Document {
    kind: String,
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<Ipv4Addr>,
    #[serde(rename = "externalIPs")]
    external_ips: Vec<Ipv4Addr>,
    health_check_node_port: Option<u16>,
    ports: Vec<Port>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    node_port: Option<u16>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    load_balancer: LoadBalancer,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LoadBalancer {
    ingress: Vec<Ingress>,
}

#[derive(Deserialize)]
struct Ingress {
    ip: Ipv4Addr,
}

impl From<Document> for Service {
    fn from(d: Document) -> Self {
        Self {
            cluster_ip: d.spec.cluster_ip,
            external_ip: d.spec.external_ips.first().copied(),
            load_balancer_ip: d.status.load_balancer.ingress.first().map(|i| i.ip),
            node_port: d.spec.ports.first().and_then(|p| p.node_port),
            health_check_node_port: d.spec.health_check_node_port,
        }
    }
}
