//! v1 Node.

use signpost_plan::NodeName;
use signpost_plan::world::Node;

use crate::address::{address, network};
use crate::meta::Meta;
use crate::read::{Bad, each, optional, required, text};
use crate::tree::Tree;

/// kubeadm sets it on control planes; its presence counts, not its value (KEP-1143).
const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Where topology hints say that a node is; written by cloud providers, or by hand.
const ZONE: &str = "topology.kubernetes.io/zone";

/// The cluster autoscaler's taint on a Node that it is about to delete (KEP-3836).
const LEAVING: &str = "ToBeDeletedByClusterAutoscaler";

pub(crate) fn read(tree: &Tree<'_>, meta: Meta) -> Result<Node, Bad> {
    let leaves = |t| Ok(required(t, "key", text)? == LEAVING);
    let tainted = optional(tree, "spec", |spec| Ok(each(spec, "taints", leaves)?.contains(&true)))?;
    let deleted = optional(tree, "metadata", |m| Ok(m.child("deletionTimestamp").is_some()))?;
    let pod_cidrs = optional(tree, "spec", |spec| {
        let all = each(spec, "podCIDRs", network)?;
        // `podCIDR` repeats the first of `podCIDRs`, or stands alone in hand-written objects.
        let one = optional(spec, "podCIDR", network)?;
        Ok(if all.is_empty() { one.into_iter().collect() } else { all })
    })?;
    let status = optional(tree, "status", |status| {
        let addresses = each(status, "addresses", |a| match required(a, "type", text)? {
            "InternalIP" => required(a, "address", address).map(Some),
            _ => Ok(None),
        })?;
        let unavailable = each(status, "conditions", |c| {
            let kind = required(c, "type", text)?;
            Ok(kind == "NetworkUnavailable" && required(c, "status", text)? == "True")
        })?;
        Ok((addresses.into_iter().flatten().collect(), unavailable.contains(&true)))
    })?;
    let (internal_ips, network_unavailable) = status.unwrap_or_default();
    Ok(Node {
        name: NodeName(meta.name.name),
        span: None,
        internal_ips,
        pod_cidrs: pod_cidrs.unwrap_or_default(),
        zone: meta.labels.get(ZONE).cloned(),
        leaving: tainted.unwrap_or(false) || deleted.unwrap_or(false),
        excluded: meta.labels.contains_key(EXCLUDE),
        labels: meta.labels,
        network_unavailable,
    })
}
