//! discovery.k8s.io/v1 EndpointSlice.

use std::net::IpAddr;

use signpost_plan::world::{Endpoint, EndpointPort, EndpointSlice, Hints};
use signpost_plan::{NodeName, Protocol, ServiceKey};

use crate::address::endpoint_address;
use crate::document::Remark;
use crate::meta::{Meta, name};
use crate::read::{Bad, boolean, each, list, optional, port, required, text};
use crate::service::protocol;
use crate::tree::Tree;

/// The label that says which Service a slice is of.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A slice with it is of a headless Service: no proxy follows it (KEP-2447).
const HEADLESS: &str = "service.kubernetes.io/headless";

/// What `addressType` says.
enum AddressType {
    Ipv4,
    Ipv6,
    Fqdn,
}

/// A slice, or `None` where it concerns no proxy.
pub(crate) fn read(
    tree: &Tree<'_>,
    meta: Meta,
    remarks: &mut Vec<Remark>,
) -> Result<Option<EndpointSlice>, Bad> {
    let address_type = required(tree, "addressType", address_type)?;
    let Some(service) = meta.labels.get(SERVICE_NAME) else {
        let message = format!("left out: no label {SERVICE_NAME} says which Service it is of");
        remarks.push(Remark::note(tree.at, message, "add the label"));
        return Ok(None);
    };
    if meta.labels.contains_key(HEADLESS) {
        return Ok(None);
    }
    let ipv4 = match address_type {
        AddressType::Ipv4 => true,
        AddressType::Ipv6 => false,
        AddressType::Fqdn => {
            let message = "left out: addressType FQDN has no addresses to send to";
            remarks.push(Remark::note(tree.at, message, "write a slice with addresses"));
            return Ok(None);
        }
    };
    Ok(Some(EndpointSlice {
        service: ServiceKey { namespace: meta.name.namespace, name: service.clone() },
        name: meta.name.name,
        span: None,
        ports: each(tree, "ports", endpoint_port)?,
        endpoints: each(tree, "endpoints", |e| endpoint(e, ipv4))?,
    }))
}

fn address_type(tree: &Tree<'_>) -> Result<AddressType, Bad> {
    match text(tree)? {
        "IPv4" => Ok(AddressType::Ipv4),
        "IPv6" => Ok(AddressType::Ipv6),
        "FQDN" => Ok(AddressType::Fqdn),
        other => {
            Err(Bad::new(tree, format!("{other:?} is not an address type"), "write IPv4 or IPv6"))
        }
    }
}

fn endpoint_port(tree: &Tree<'_>) -> Result<EndpointPort, Bad> {
    Ok(EndpointPort {
        name: optional(tree, "name", text)?.unwrap_or_default().into(),
        protocol: optional(tree, "protocol", protocol)?.unwrap_or(Protocol::Tcp),
        port: optional(tree, "port", port)?,
    })
}

fn endpoint(tree: &Tree<'_>, ipv4: bool) -> Result<Endpoint, Bad> {
    let condition = |key, default: bool| {
        optional(tree, "conditions", |c| optional(c, key, boolean))
            .map(|c| c.flatten().unwrap_or(default))
    };
    Ok(Endpoint {
        address: required(tree, "addresses", |a| first_address(a, ipv4))?,
        node: optional(tree, "nodeName", name)?.map(NodeName),
        ready: condition("ready", true)?,
        serving: condition("serving", true)?,
        terminating: condition("terminating", false)?,
        hints: optional(tree, "hints", hints)?.unwrap_or_default(),
    })
}

fn hints(tree: &Tree<'_>) -> Result<Hints, Bad> {
    let zone = |t| required(t, "name", |n| Ok(text(n)?.into()));
    let node = |t| Ok(NodeName(required(t, "name", name)?));
    Ok(Hints { zones: each(tree, "forZones", zone)?, nodes: each(tree, "forNodes", node)? })
}

fn first_address(tree: &Tree<'_>, ipv4: bool) -> Result<IpAddr, Bad> {
    let first = list(tree)?.first().ok_or_else(|| Bad::new(tree, "is empty", "add an address"))?;
    let address = endpoint_address(first).map_err(|bad| bad.under("[0]"))?;
    if address.is_ipv4() != ipv4 {
        let message = format!("{address} is not of the slice's addressType");
        return Err(Bad::new(first, message, "write a slice for each family").under("[0]"));
    }
    Ok(address)
}
