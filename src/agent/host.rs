//! This node's kernel as the plan and the speaker see it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result};
use ipnet::IpNet;
use signpost_netlink::route;
use signpost_plan::world::{Host, Link};
use signpost_plan::{LinkIndex, NodeName, World, scope};
use signpost_speaker as speaker;

pub(crate) fn read() -> Result<Host> {
    let links = route::read_links().context("the interfaces")?;
    let gateways = route::read_default_routes().context("the default routes")?;
    let link = |l: route::Link| {
        let addresses = l
            .addresses
            .into_iter()
            .filter_map(|(ip, prefix)| IpNet::new(ip, prefix).ok())
            .collect();
        let link = Link {
            name: l.name,
            mac: l.mac,
            up: l.up,
            forwarding: l.forwarding,
            forwarding_v6: l.forwarding_v6,
            addresses,
        };
        (LinkIndex(l.index), link)
    };
    Ok(Host {
        links: links.into_iter().map(link).collect(),
        gateways: gateways.into_iter().map(|r| (LinkIndex(r.link), r.gateway)).collect(),
    })
}

/// The interfaces that the speaker uses: every uplink.
pub(crate) fn links(w: &World) -> Vec<speaker::Link> {
    let host = w.host();
    let v4 = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    };
    scope(w)
        .uplinks
        .iter()
        .filter_map(|name| {
            let index = host.link_named(name)?;
            let link = host.links.get(&index)?;
            let address: Option<Ipv4Addr> = link.addresses.iter().find_map(|n| v4(n.addr()));
            let gateway =
                host.gateways.iter().filter(|(i, _)| *i == index).find_map(|(_, g)| g.and_then(v4));
            let (mac, up) = (link.mac?, link.up);
            Some(speaker::Link { index, mac, up, address, address_v6: address_v6(link), gateway })
        })
        .collect()
}

/// What neighbours are asked from: an address that needs no router to be answered.
fn address_v6(link: &Link) -> Option<Ipv6Addr> {
    let v6 = |n: &IpNet| match n {
        IpNet::V6(n) => Some(n.addr()),
        IpNet::V4(_) => None,
    };
    link.addresses.iter().filter_map(v6).find(Ipv6Addr::is_unicast_link_local)
}

/// The other nodes and where their mesh listens.
pub(crate) fn peers(w: &World, me: &NodeName) -> Vec<(NodeName, IpAddr)> {
    w.nodes()
        .filter(|n| n.name != *me)
        .filter_map(|n| {
            n.internal_ips.iter().find(|ip| ip.is_ipv4()).map(|ip| (n.name.clone(), *ip))
        })
        .collect()
}
