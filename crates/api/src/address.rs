//! Addresses and ranges as text.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::read::{Bad, text};
use crate::tree::Tree;

/// An address. Rust's parser refuses leading zeros, which others read as octal (CVE-2021-29923).
pub(crate) fn address(tree: &Tree<'_>) -> Result<IpAddr, Bad> {
    parse(tree, text(tree)?)
}

/// Addresses in one text, separated by commas.
pub(crate) fn addresses(tree: &Tree<'_>) -> Result<Vec<IpAddr>, Bad> {
    text(tree)?
        .split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .map(|s| parse(tree, s))
        .collect()
}

/// An address that packets can be sent to from elsewhere
/// (Kubernetes' `ValidateEndpointIP` refuses the same).
pub(crate) fn endpoint_address(tree: &Tree<'_>) -> Result<IpAddr, Bad> {
    let address = address(tree)?;
    let link_local = match address {
        IpAddr::V4(a) => a.is_link_local() || a.is_broadcast(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    };
    if link_local || address.is_loopback() || address.is_multicast() || address.is_unspecified() {
        let message = format!("{address} is not an address of a pod");
        return Err(Bad::new(tree, message, "write an address that other machines can reach"));
    }
    Ok(address)
}

/// A network in CIDR notation; host bits are cut off, and spaces around it.
pub(crate) fn network(tree: &Tree<'_>) -> Result<IpNet, Bad> {
    let written = text(tree)?;
    match written.trim().parse::<IpNet>() {
        Ok(net) => Ok(net.trunc()),
        Err(_) => {
            Err(Bad::new(tree, format!("{written:?} is not a network"), "write it as 192.0.2.0/24"))
        }
    }
}

/// `first-last`, a network or one address, as an inclusive range.
pub(crate) fn range(tree: &Tree<'_>) -> Result<(IpAddr, IpAddr), Bad> {
    let written = text(tree)?.trim();
    if written.contains('/') {
        let net = network(tree)?;
        return Ok((net.network(), net.broadcast()));
    }
    let Some((first, last)) = written.split_once('-') else {
        let only = parse(tree, written)?;
        return Ok((only, only));
    };
    let (first, last) = (parse(tree, first.trim())?, parse(tree, last.trim())?);
    if first.is_ipv4() != last.is_ipv4() {
        let message = format!("{written:?} mixes IPv4 and IPv6");
        return Err(Bad::new(tree, message, "write two ranges"));
    }
    if first > last {
        let message = format!("{written:?} ends before it starts");
        return Err(Bad::new(tree, message, "write the lower address first"));
    }
    Ok((first, last))
}

fn parse(tree: &Tree<'_>, written: &str) -> Result<IpAddr, Bad> {
    let zeros = |part: &str| part.len() > 1 && part.starts_with('0');
    written.parse().map_err(|_| {
        let cure = if !written.contains(':') && written.split('.').any(zeros) {
            "write it without leading zeros"
        } else {
            "write it as 192.0.2.1"
        };
        Bad::new(tree, format!("{written:?} is not an IP address"), cure)
    })
}
