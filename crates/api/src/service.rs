//! v1 Service.

use std::net::IpAddr;

use signpost_plan::world::{Service, ServiceKind, ServicePort, TrafficPolicy};
use signpost_plan::{Protocol, is_served};

use crate::address::{address, addresses};
use crate::document::Remark;
use crate::meta::Meta;
use crate::read::{Bad, each, optional, port, required, text};
use crate::tree::{At, Tree};

/// A Service whose `spec.loadBalancerClass` is of another domain is for somebody else. Without a
/// class it is ours.
pub const LOAD_BALANCER_CLASS_DOMAIN: &str = "signpost.dev/";

/// KEP-2447: a Service with it, whatever its value, is for another proxy.
const PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";

/// MetalLB's, before and since 0.13.
const ADDRESS_ANNOTATIONS: [&str; 2] =
    ["metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs"];

pub(crate) fn read(tree: &Tree<'_>, meta: Meta, remarks: &mut Vec<Remark>) -> Result<Service, Bad> {
    let asked = asked_addresses(tree)?;
    required(tree, "spec", |spec| {
        let kind = optional(spec, "type", kind)?.unwrap_or(ServiceKind::ClusterIp);
        let policy = optional(spec, "externalTrafficPolicy", policy)?;
        let ports = each(spec, "ports", service_port)?;
        distinct(&ports)?;
        let mut service = Service {
            key: meta.name.service_key(),
            span: None,
            created: meta.created,
            kind,
            external_policy: policy.unwrap_or(TrafficPolicy::Cluster),
            ports: Box::default(),
            addresses: Box::default(),
            ours: true,
        };
        if kind == ServiceKind::LoadBalancer {
            if ports.is_empty() {
                return Err(Bad::new(spec, "has no port", "add one").under("ports"));
            }
            service.ours = is_ours(spec, &meta, remarks)?;
            if service.ours {
                note_unserved(spec, &ports, &asked, remarks)?;
            }
        }
        service.ports = ports.into_iter().map(|p| p.port).collect();
        service.addresses = distinct_addresses(&asked).collect();
        Ok(service)
    })
}

struct Asked {
    at: At,
    path: String,
    address: IpAddr,
}

struct Port {
    at: At,
    port: ServicePort,
}

/// Every address that the Service has or asks for, wherever it says so.
fn asked_addresses(tree: &Tree<'_>) -> Result<Vec<Asked>, Bad> {
    let mut all = Vec::new();
    optional(tree, "status", |status| {
        optional(status, "loadBalancer", |lb| {
            let mut index = 0;
            each(lb, "ingress", |ingress| {
                let path = format!("status.loadBalancer.ingress[{index}].ip");
                index += 1;
                // An ingress may have a hostname instead.
                let ip = optional(ingress, "ip", |ip| Ok((ip.at, address(ip)?)))?;
                all.extend(ip.map(|(at, address)| Asked { at, path, address }));
                Ok(())
            })
        })
    })?;
    optional(tree, "spec", |spec| {
        optional(spec, "loadBalancerIP", |ip| {
            if !text(ip)?.is_empty() {
                let path = "spec.loadBalancerIP".into();
                all.push(Asked { at: ip.at, path, address: address(ip)? });
            }
            Ok(())
        })
    })?;
    optional(tree, "metadata", |metadata| {
        optional(metadata, "annotations", |annotations| {
            for key in ADDRESS_ANNOTATIONS {
                let wanted = optional(annotations, key, |t| Ok((t.at, addresses(t)?)))?;
                let Some((at, wanted)) = wanted else { continue };
                let asked =
                    |address| Asked { at, path: format!("metadata.annotations.{key}"), address };
                all.extend(wanted.into_iter().map(asked));
            }
            Ok(())
        })
    })?;
    Ok(all)
}

fn distinct_addresses(asked: &[Asked]) -> impl Iterator<Item = IpAddr> {
    let mut all: Vec<_> = asked.iter().map(|a| a.address).collect();
    all.sort();
    all.dedup();
    all.into_iter()
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

fn service_port(tree: &Tree<'_>) -> Result<Port, Bad> {
    let port = ServicePort {
        name: optional(tree, "name", text)?.unwrap_or_default().into(),
        protocol: optional(tree, "protocol", protocol)?.unwrap_or(Protocol::Tcp),
        port: required(tree, "port", port)?,
    };
    Ok(Port { at: tree.at, port })
}

/// Names and numbers of ports are unique (Kubernetes' `ValidateService` demands it).
fn distinct(ports: &[Port]) -> Result<(), Bad> {
    for (i, Port { at, port }) in ports.iter().enumerate() {
        for (j, Port { port: earlier, .. }) in ports[..i].iter().enumerate() {
            let (message, cure) = if (port.protocol, port.port) == (earlier.protocol, earlier.port)
            {
                (
                    format!("{}/{} is spec.ports[{j}] already", port.port, port.protocol),
                    "delete one",
                )
            } else if port.name == earlier.name {
                (
                    format!("has the name {:?} of spec.ports[{j}]", port.name),
                    "give each a name of its own",
                )
            } else {
                continue;
            };
            return Err(Bad { at: *at, path: format!("ports[{i}]"), message, cure: cure.into() });
        }
    }
    Ok(())
}

/// Whether a LoadBalancer Service is for us; if not, the remark says why.
fn is_ours(spec: &Tree<'_>, meta: &Meta, remarks: &mut Vec<Remark>) -> Result<bool, Bad> {
    if meta.labels.contains_key(PROXY_NAME) {
        let message = format!("not served: the label {PROXY_NAME} gives it to another proxy");
        remarks.push(Remark::note(spec.at, message, "remove the label to have it served"));
        return Ok(false);
    }
    let class = optional(spec, "loadBalancerClass", |c| Ok((c.at, text(c)?)))?;
    if let Some((at, class)) = class.filter(|(_, c)| !c.is_empty())
        && !class.starts_with(LOAD_BALANCER_CLASS_DOMAIN)
    {
        let message =
            format!("not served: spec.loadBalancerClass {class:?} is of another load balancer");
        remarks.push(Remark::note(at, message, "remove the class to have it served"));
        return Ok(false);
    }
    if spec.child_text("clusterIP") == Some("None") {
        let message = "not served: spec.clusterIP None makes it headless";
        remarks.push(Remark::note(spec.at, message, "remove spec.clusterIP to have it served"));
        return Ok(false);
    }
    if let Some(ranges) = spec.child("loadBalancerSourceRanges")
        && !each(spec, "loadBalancerSourceRanges", text)?.is_empty()
    {
        // Served without them it would be open to everybody.
        let message = "not served: spec.loadBalancerSourceRanges cannot be enforced yet";
        let cure = "remove the ranges to have it served to everybody, and filter in front of it";
        remarks.push(Remark::error(ranges.at, message, cure));
        return Ok(false);
    }
    Ok(true)
}

/// What of a Service of ours is not done.
fn note_unserved(
    spec: &Tree<'_>,
    ports: &[Port],
    asked: &[Asked],
    remarks: &mut Vec<Remark>,
) -> Result<(), Bad> {
    for Asked { at, path, address } in asked {
        if !is_served(*address, Protocol::Tcp) {
            let message = format!("{path}: {address} is not served: this version serves IPv4");
            remarks.push(Remark::note(*at, message, "ask for an IPv4 address as well"));
        }
    }
    for (i, Port { at, port }) in ports.iter().enumerate() {
        match port.protocol {
            Protocol::Tcp | Protocol::Udp => {}
            Protocol::Sctp => {
                let message =
                    format!("spec.ports[{i}]: SCTP is not served: this version serves TCP and UDP");
                remarks.push(Remark::note(*at, message, ""));
            }
        }
    }
    let affinity = optional(spec, "sessionAffinity", |a| Ok((a.at, text(a)?)))?;
    if let Some((at, "ClientIP")) = affinity {
        let message =
            "spec.sessionAffinity: ClientIP is not done yet: connections are spread evenly";
        remarks.push(Remark::warning(at, message, ""));
    }
    if !each(spec, "externalIPs", text)?.is_empty() {
        let message = "spec.externalIPs: not served yet";
        remarks.push(Remark::warning(spec.at, message, "use metallb.io/loadBalancerIPs"));
    }
    Ok(())
}
