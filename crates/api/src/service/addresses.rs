//! Where a Service says which addresses it is asked by.

use std::net::IpAddr;

use ipnet::IpNet;
use signpost_plan::Family;

use crate::address::{address, addresses, network};
use crate::read::{Bad, each, optional, text};
use crate::tree::Tree;

/// MetalLB's, before and since 0.13.
const ADDRESS_ANNOTATIONS: [&str; 2] =
    ["metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs"];

/// Every address that a LoadBalancer Service has or asks for, wherever it says so.
pub(super) fn balanced(tree: &Tree<'_>) -> Result<Vec<IpAddr>, Bad> {
    let mut all = Vec::new();
    optional(tree, "status", |status| {
        optional(status, "loadBalancer", |lb| {
            each(lb, "ingress", |ingress| {
                // An ingress may have a hostname instead.
                all.extend(optional(ingress, "ip", address)?);
                Ok(())
            })
        })
    })?;
    optional(tree, "spec", |spec| {
        optional(spec, "loadBalancerIP", |ip| {
            if !text(ip)?.is_empty() {
                all.push(address(ip)?);
            }
            Ok(())
        })
    })?;
    optional(tree, "metadata", |metadata| {
        optional(metadata, "annotations", |annotations| {
            for key in ADDRESS_ANNOTATIONS {
                all.extend(optional(annotations, key, addresses)?.unwrap_or_default());
            }
            Ok(())
        })
    })?;
    Ok(distinct(all))
}

/// `spec.externalIPs`.
pub(super) fn external(spec: &Tree<'_>) -> Result<Vec<IpAddr>, Bad> {
    each(spec, "externalIPs", address).map(distinct)
}

/// `spec.clusterIPs`, or the `clusterIP` that stands alone in objects written by hand; `None`: it
/// is headless.
pub(super) fn cluster(spec: &Tree<'_>) -> Result<Option<Vec<IpAddr>>, Bad> {
    let mut all = each(spec, "clusterIPs", cluster_ip)?;
    if all.is_empty() {
        all.extend(optional(spec, "clusterIP", cluster_ip)?);
    }
    let mut ips = Vec::with_capacity(all.len());
    for written in all {
        match written {
            ClusterIp::Headless => return Ok(None),
            ClusterIp::ToCome => {}
            ClusterIp::Is(ip) => ips.push(ip),
        }
    }
    Ok(Some(ips))
}

enum ClusterIp {
    /// `None`
    Headless,
    /// Empty: the API server has not given it one.
    ToCome,
    Is(IpAddr),
}

fn cluster_ip(tree: &Tree<'_>) -> Result<ClusterIp, Bad> {
    match text(tree)? {
        "None" => Ok(ClusterIp::Headless),
        "" => Ok(ClusterIp::ToCome),
        _ => address(tree).map(ClusterIp::Is),
    }
}

/// The families that its NodePorts are in: those of its ClusterIPs, else `spec.ipFamilies`, else
/// both.
pub(super) fn families(spec: &Tree<'_>, cluster_ips: &[IpAddr]) -> Result<Vec<Family>, Bad> {
    let written = each(spec, "ipFamilies", family)?;
    let mut all: Vec<_> = cluster_ips.iter().copied().map(Family::of).collect();
    if all.is_empty() {
        all = written;
    }
    if all.is_empty() {
        all = Family::ALL.into();
    }
    all.sort();
    all.dedup();
    Ok(all)
}

fn family(tree: &Tree<'_>) -> Result<Family, Bad> {
    match text(tree)? {
        "IPv4" => Ok(Family::V4),
        "IPv6" => Ok(Family::V6),
        other => {
            Err(Bad::new(tree, format!("{other:?} is not an address family"), "write IPv4 or IPv6"))
        }
    }
}

/// `spec.loadBalancerSourceRanges`; spaces around a range are nobody's mistake (Kubernetes trims
/// them).
pub(super) fn source_ranges(spec: &Tree<'_>) -> Result<Vec<IpNet>, Bad> {
    each(spec, "loadBalancerSourceRanges", network)
}

fn distinct(mut all: Vec<IpAddr>) -> Vec<IpAddr> {
    all.sort();
    all.dedup();
    all
}
