//! This node's kernel.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Family, LinkIndex};

/// What this node's kernel is, as far as serving depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Its network interfaces.
    pub links: BTreeMap<LinkIndex, Link>,
    /// Interfaces that a default route leaves by, with the gateway where it has one.
    pub gateways: Vec<(LinkIndex, Option<IpAddr>)>,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: Box<str>,
    /// Its Ethernet address; absent for other kinds (lo, tun).
    pub mac: Option<[u8; 6]>,
    /// Administratively up, with a carrier (IFF_UP and IFF_LOWER_UP).
    pub up: bool,
    /// `net.ipv4.conf.IF.forwarding`.
    pub forwarding: bool,
    /// `net.ipv6.conf.IF.forwarding`.
    pub forwarding_v6: bool,
    /// Its addresses with their prefix lengths.
    pub addresses: Vec<IpNet>,
}

impl Link {
    /// Whether it passes on packets of a family.
    pub fn forwards(&self, family: Family) -> bool {
        match family {
            Family::V4 => self.forwarding,
            Family::V6 => self.forwarding_v6,
        }
    }
}

impl Host {
    /// Every address of its interfaces.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.links.values().flat_map(|l| &l.addresses).map(IpNet::addr)
    }

    /// The Ethernet interfaces that a default route leaves by, or that bear one of the node's
    /// own addresses.
    pub(crate) fn uplinks<'a>(
        &'a self,
        internal_ips: &'a [IpAddr],
    ) -> impl Iterator<Item = LinkIndex> + 'a {
        self.links.iter().filter_map(move |(index, link)| {
            let default = self.gateways.iter().any(|(g, _)| g == index);
            let own = link.addresses.iter().any(|n| internal_ips.contains(&n.addr()));
            (link.mac.is_some() && (default || own)).then_some(*index)
        })
    }

    /// The Ethernet interfaces with a subnet that holds an address.
    pub(crate) fn links_near(&self, address: IpAddr) -> impl Iterator<Item = LinkIndex> + '_ {
        let near =
            move |l: &Link| l.mac.is_some() && l.addresses.iter().any(|n| n.contains(&address));
        self.links.iter().filter_map(move |(index, link)| near(link).then_some(*index))
    }

    /// The interface of a name.
    pub fn link_named(&self, name: &str) -> Option<LinkIndex> {
        self.links.iter().find(|(_, l)| &*l.name == name).map(|(index, _)| *index)
    }
}
