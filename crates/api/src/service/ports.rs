//! `spec.ports`.

use signpost_plan::Protocol;
use signpost_plan::world::{ServiceKind, ServicePort};

use super::protocol;
use crate::read::{Bad, each, optional, port, required, text};
use crate::tree::{At, Tree, Value};

/// NodePorts of the other kinds mean nothing: a change of the type leaves them behind in objects
/// written by hand.
pub(super) fn read(spec: &Tree<'_>, kind: ServiceKind) -> Result<Vec<ServicePort>, Bad> {
    let ports = each(spec, "ports", |tree| service_port(tree, kind))?;
    distinct(&ports)?;
    Ok(ports.into_iter().map(|p| p.port).collect())
}

struct Port {
    at: At,
    port: ServicePort,
}

fn service_port(tree: &Tree<'_>, kind: ServiceKind) -> Result<Port, Bad> {
    let port = ServicePort {
        name: optional(tree, "name", text)?.unwrap_or_default().into(),
        protocol: optional(tree, "protocol", protocol)?.unwrap_or(Protocol::Tcp),
        port: required(tree, "port", port)?,
        node_port: match kind {
            ServiceKind::NodePort | ServiceKind::LoadBalancer => given(tree, "nodePort")?,
            ServiceKind::ClusterIp | ServiceKind::ExternalName => None,
        },
    };
    Ok(Port { at: tree.at, port })
}

/// A port that is 0 or absent where there is none.
pub(super) fn given(tree: &Tree<'_>, key: &str) -> Result<Option<u16>, Bad> {
    optional(tree, key, |t| match t.value {
        Value::Integer(0) => Ok(None),
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Number
        | Value::Text(_)
        | Value::List(_)
        | Value::Map(_) => port(t).map(Some),
    })
    .map(Option::flatten)
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
