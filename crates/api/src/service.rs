//! v1 Service.

use signpost_plan::Protocol;
use signpost_plan::world::{Affinity, Service, ServiceKind, TrafficPolicy};

use crate::document::Remark;
use crate::meta::Meta;
use crate::read::{Bad, boolean, optional, required, text};
use crate::tree::{Tree, Value};

mod addresses;
mod ports;

/// A Service whose `spec.loadBalancerClass` is of another domain is for somebody else. Without a
/// class it is ours.
pub const LOAD_BALANCER_CLASS_DOMAIN: &str = "signpost.dev/";

/// KEP-2447: a Service with it, whatever its value, is for another proxy.
const PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";

/// `DefaultClientIPServiceAffinitySeconds` and `MaxClientIPServiceAffinitySeconds` of Kubernetes.
const AFFINITY_S: u32 = 10_800;
const AFFINITY_MAX_S: u32 = 86_400;

pub(crate) fn read(tree: &Tree<'_>, meta: Meta, remarks: &mut Vec<Remark>) -> Result<Service, Bad> {
    let asked = addresses::balanced(tree)?;
    required(tree, "spec", |spec| {
        let kind = optional(spec, "type", kind)?.unwrap_or(ServiceKind::ClusterIp);
        let policy = |key| Ok(optional(spec, key, policy)?.unwrap_or(TrafficPolicy::Cluster));
        let ports = ports::read(spec, kind)?;
        let cluster_ips = addresses::cluster(spec)?;
        let proxied = is_proxied(spec, &meta, kind, cluster_ips.is_none(), remarks);
        let cluster_ips = cluster_ips.unwrap_or_default();
        let is_balanced = kind == ServiceKind::LoadBalancer;
        if is_balanced && ports.is_empty() {
            return Err(Bad::new(spec, "has no port", "add one").under("ports"));
        }
        let ours = !is_balanced || !proxied || is_ours(spec, remarks)?;
        Ok(Service {
            key: meta.name.service_key(),
            span: None,
            created: meta.created,
            kind,
            external_policy: policy("externalTrafficPolicy")?,
            internal_policy: policy("internalTrafficPolicy")?,
            ports: ports.into(),
            addresses: if is_balanced { asked.into() } else { Box::default() },
            external_ips: addresses::external(spec)?.into(),
            families: addresses::families(spec, &cluster_ips)?.into(),
            cluster_ips: cluster_ips.into(),
            affinity: affinity(spec)?,
            source_ranges: addresses::source_ranges(spec)?.into(),
            health_check_port: ports::given(spec, "healthCheckNodePort")?,
            publishes_not_ready: optional(spec, "publishNotReadyAddresses", boolean)?
                .unwrap_or(false),
            ours,
            proxied,
        })
    })
}

fn kind(tree: &Tree<'_>) -> Result<ServiceKind, Bad> {
    match text(tree)? {
        "ClusterIP" => Ok(ServiceKind::ClusterIp),
        "NodePort" => Ok(ServiceKind::NodePort),
        "LoadBalancer" => Ok(ServiceKind::LoadBalancer),
        "ExternalName" => Ok(ServiceKind::ExternalName),
        other => {
            let cure = "write ClusterIP, NodePort, LoadBalancer or ExternalName";
            Err(Bad::new(tree, format!("{other:?} is not a type of Service"), cure))
        }
    }
}

fn policy(tree: &Tree<'_>) -> Result<TrafficPolicy, Bad> {
    match text(tree)? {
        "Cluster" => Ok(TrafficPolicy::Cluster),
        "Local" => Ok(TrafficPolicy::Local),
        other => {
            let message = format!("{other:?} is not a traffic policy");
            Err(Bad::new(tree, message, "write Cluster or Local"))
        }
    }
}

pub(crate) fn protocol(tree: &Tree<'_>) -> Result<Protocol, Bad> {
    match text(tree)? {
        "TCP" => Ok(Protocol::Tcp),
        "UDP" => Ok(Protocol::Udp),
        "SCTP" => Ok(Protocol::Sctp),
        other => {
            let message = format!("{other:?} is not a protocol of Services");
            Err(Bad::new(tree, message, "write TCP, UDP or SCTP"))
        }
    }
}

fn affinity(spec: &Tree<'_>) -> Result<Affinity, Bad> {
    let is_sticky = optional(spec, "sessionAffinity", |t| match text(t)? {
        "" | "None" => Ok(false),
        "ClientIP" => Ok(true),
        other => {
            let message = format!("{other:?} is not a session affinity");
            Err(Bad::new(t, message, "write None or ClientIP"))
        }
    })?;
    let timeout = optional(spec, "sessionAffinityConfig", |config| {
        optional(config, "clientIP", |client| optional(client, "timeoutSeconds", seconds))
    })?;
    let timeout_s = timeout.flatten().flatten().unwrap_or(AFFINITY_S);
    Ok(if is_sticky.unwrap_or(false) { Affinity::ClientIp { timeout_s } } else { Affinity::None })
}

fn seconds(tree: &Tree<'_>) -> Result<u32, Bad> {
    let seconds = match tree.value {
        Value::Integer(n) => u32::try_from(n).ok(),
        Value::Null
        | Value::Bool(_)
        | Value::Number
        | Value::Text(_)
        | Value::List(_)
        | Value::Map(_) => None,
    };
    seconds.filter(|s| (1..=AFFINITY_MAX_S).contains(s)).ok_or_else(|| {
        let cure = format!("write a number from 1 to {AFFINITY_MAX_S}");
        Bad::new(tree, "is not a timeout", cure)
    })
}

/// Whether anybody shall forward for it, and no other proxy does; if not, the remark says why.
fn is_proxied(
    spec: &Tree<'_>,
    meta: &Meta,
    kind: ServiceKind,
    is_headless: bool,
    remarks: &mut Vec<Remark>,
) -> bool {
    if meta.labels.contains_key(PROXY_NAME) {
        let message = format!("not served: the label {PROXY_NAME} gives it to another proxy");
        remarks.push(Remark::note(spec.at, message, "remove the label to have it served"));
        return false;
    }
    match kind {
        ServiceKind::ExternalName => false,
        // Headless Services are for DNS alone; of one that asks for an address it is a mistake.
        ServiceKind::LoadBalancer if is_headless => {
            let message = "not served: spec.clusterIP None makes it headless";
            remarks.push(Remark::note(spec.at, message, "remove spec.clusterIP to have it served"));
            false
        }
        ServiceKind::LoadBalancer | ServiceKind::NodePort | ServiceKind::ClusterIp => !is_headless,
    }
}

/// Whether a LoadBalancer Service's addresses are for us; if not, the remark says why.
fn is_ours(spec: &Tree<'_>, remarks: &mut Vec<Remark>) -> Result<bool, Bad> {
    let class = optional(spec, "loadBalancerClass", |c| Ok((c.at, text(c)?)))?;
    if let Some((at, class)) = class.filter(|(_, c)| !c.is_empty())
        && !class.starts_with(LOAD_BALANCER_CLASS_DOMAIN)
    {
        let message =
            format!("not served: spec.loadBalancerClass {class:?} is of another load balancer");
        remarks.push(Remark::note(at, message, "remove the class to have it served"));
        return Ok(false);
    }
    Ok(true)
}
