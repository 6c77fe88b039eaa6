//! Messages of linux/rtnetlink.h, if_link.h, if_addr.h and netconf.h.

use std::net::IpAddr;

use super::links::{DefaultRoute, Kind, Link};
use crate::message::{Attributes, Malformed, string};

pub(super) const NEW_LINK: u16 = 16;
pub(super) const DEL_LINK: u16 = 17;
pub(super) const GET_LINK: u16 = 18;
pub(super) const NEW_ADDRESS: u16 = 20;
pub(super) const DEL_ADDRESS: u16 = 21;
pub(super) const GET_ADDRESS: u16 = 22;
pub(super) const NEW_ROUTE: u16 = 24;
pub(super) const DEL_ROUTE: u16 = 25;
pub(super) const GET_ROUTE: u16 = 26;
pub(super) const NEW_NETCONF: u16 = 80;
pub(super) const DEL_NETCONF: u16 = 81;
pub(super) const GET_NETCONF: u16 = 82;

pub(super) const IPV4: u8 = libc::AF_INET as u8;
pub(super) const IPV6: u8 = libc::AF_INET6 as u8;

/// struct ifinfomsg
pub(super) fn link(payload: &[u8]) -> Result<Link, Malformed> {
    const HEADER: usize = 16;
    let (header, _) = payload.split_first_chunk::<HEADER>().ok_or(SHORT)?;
    let [_, address, _, name, _, _, _, _, _, _, master, _, _, _, _, _, _, _, info] =
        Attributes::after(payload, HEADER)?.by_type()?;
    let flags = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]) as i32;
    let both = libc::IFF_UP | libc::IFF_LOWER_UP;
    Ok(Link {
        index: u32::from_ne_bytes([header[4], header[5], header[6], header[7]]),
        name: string(name.ok_or(Malformed("a link without name"))?)?.into(),
        mac: address.and_then(|address| address.try_into().ok()),
        up: flags & both == both,
        forwarding: false,
        forwarding_v6: false,
        addresses: Vec::new(),
        master: master.map(number).transpose()?,
        kind: kind(flags, info)?,
    })
}

fn kind(flags: i32, info: Option<&[u8]>) -> Result<Kind, Malformed> {
    let [_, kind] = Attributes::new(info.unwrap_or_default()).by_type()?;
    Ok(match kind.map(string).transpose()? {
        Some(kind) => Kind::Virtual(kind.into()),
        None if flags & libc::IFF_LOOPBACK != 0 => Kind::Loopback,
        None => Kind::Device,
    })
}

/// struct ifaddrmsg: the link's index, an address of this node's and the length of its prefix.
pub(super) fn address(payload: &[u8]) -> Result<(u32, IpAddr, u8), Malformed> {
    const HEADER: usize = 8;
    let (header, _) = payload.split_first_chunk::<HEADER>().ok_or(SHORT)?;
    let [_, address, local] = Attributes::after(payload, HEADER)?.by_type()?;
    let index = u32::from_ne_bytes([header[4], header[5], header[6], header[7]]);
    // On a point-to-point link the address is the peer's, and this one's is called local.
    let own = local.or(address).and_then(ip).ok_or(Malformed("an address of no family"))?;
    Ok((index, own, header[1]))
}

/// struct netconfmsg: a link's index and whether it forwards; `None`: of no single link.
pub(super) fn forwarding(payload: &[u8]) -> Result<Option<(u8, u32, bool)>, Malformed> {
    const HEADER: usize = 4;
    let family = *payload.first().ok_or(SHORT)?;
    let [_, index, forwarding] = Attributes::after(payload, HEADER)?.by_type()?;
    let (Some(index), Some(forwarding)) = (index, forwarding) else { return Ok(None) };
    let index = number(index)?;
    // NETCONFA_IFINDEX_ALL and _DEFAULT are negative.
    Ok((index <= i32::MAX as u32).then_some((family, index, number(forwarding)? != 0)))
}

/// struct rtmsg: the next hops, if this is a default route of the main table.
pub(super) fn default_routes(
    payload: &[u8],
    routes: &mut Vec<DefaultRoute>,
) -> Result<(), Malformed> {
    const HEADER: usize = 12;
    let (header, _) = payload.split_first_chunk::<HEADER>().ok_or(SHORT)?;
    let [family, prefix, _, _, table, _, _, kind, ..] = *header;
    if prefix != 0 || table != libc::RT_TABLE_MAIN || kind != libc::RTN_UNICAST {
        return Ok(());
    }
    let ipv6 = family == IPV6;
    let attributes = Attributes::after(payload, HEADER)?;
    let [_, _, _, _, link, gateway, _, _, _, hops, _, _, _, _, _, _, _, _, via] =
        attributes.by_type()?;
    if let Some(link) = link {
        routes.push(DefaultRoute { ipv6, link: number(link)?, gateway: gateway_of(gateway, via) });
    }
    let mut rest = hops.unwrap_or_default();
    while !rest.is_empty() {
        let (hop, after) = next_hop(rest)?;
        routes.push(DefaultRoute { ipv6, ..hop });
        rest = after;
    }
    Ok(())
}

/// struct rtnexthop
fn next_hop(bytes: &[u8]) -> Result<(DefaultRoute, &[u8]), Malformed> {
    const HEADER: usize = 8;
    let (header, _) = bytes.split_first_chunk::<HEADER>().ok_or(SHORT)?;
    let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
    let hop = bytes.get(..length).ok_or(Malformed("a next hop longer than its route"))?;
    let [_, _, _, _, _, gateway, _, _, _, _, _, _, _, _, _, _, _, _, via] =
        Attributes::after(hop, HEADER)?.by_type()?;
    let link = u32::from_ne_bytes([header[4], header[5], header[6], header[7]]);
    let after = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Ok((DefaultRoute { ipv6: false, link, gateway: gateway_of(gateway, via) }, after))
}

/// RTA_VIA is a family before an address, for a gateway of the other family.
fn gateway_of(gateway: Option<&[u8]>, via: Option<&[u8]>) -> Option<IpAddr> {
    gateway.or_else(|| via?.get(2..)).and_then(ip)
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

fn number(bytes: &[u8]) -> Result<u32, Malformed> {
    Ok(u32::from_ne_bytes(bytes.try_into().map_err(|_| SHORT)?))
}

const SHORT: Malformed = Malformed("a short rtnetlink message");
