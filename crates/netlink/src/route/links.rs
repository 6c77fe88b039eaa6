//! Links and default routes as they are now.

use std::net::IpAddr;

use nix::sys::socket::SockProtocol;

use super::decode;
use crate::message::{self, Malformed, Message, Writer};
use crate::request::{self, Failed, ReadError};
use crate::socket::{DATAGRAM, Socket};

/// Addresses come and go in bursts, when an interface or a pod does.
const ATTEMPTS: usize = 16;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: Box<str>,
    /// Its Ethernet address; `None`: it has none.
    pub mac: Option<[u8; 6]>,
    /// IFF_UP and IFF_LOWER_UP: on, with a carrier.
    pub up: bool,
    /// net.ipv4.conf.IF.forwarding
    pub forwarding: bool,
    /// net.ipv6.conf.IF.forwarding
    pub forwarding_v6: bool,
    /// Its addresses with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The bridge or bond that it is a port of.
    pub master: Option<u32>,
    /// What it is.
    pub kind: Kind,
}

/// What an interface is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `lo`
    Loopback,
    /// Of a driver.
    Device,
    /// IFLA_INFO_KIND: `veth`, `bridge`, `vlan`, `bond` and so on.
    Virtual(Box<str>),
}

/// A next hop of a default route in the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultRoute {
    /// `::/0`, not `0.0.0.0/0`.
    pub ipv6: bool,
    /// The index of the link that it leaves by.
    pub link: u32,
    /// `None`: everything is on the link.
    pub gateway: Option<IpAddr>,
}

/// The links of this thread's network namespace, by index.
pub fn read_links() -> Result<Vec<Link>, ReadError> {
    let mut dump = Dump::open()?;
    request::steadily(ATTEMPTS, || {
        let mut links = Vec::new();
        dump.ask(decode::GET_LINK, &[0; 16], |message| {
            links.push(decode::link(message.payload)?);
            Ok(())
        })?;
        links.sort_by_key(|link: &Link| link.index);
        dump.ask(decode::GET_ADDRESS, &[0; 8], |message| {
            let (index, address, prefix) = decode::address(message.payload)?;
            if let Some(link) = find(&mut links, index) {
                link.addresses.push((address, prefix));
            }
            Ok(())
        })?;
        for family in [decode::IPV4, decode::IPV6] {
            dump.forwarding(family, &mut links)?;
        }
        Ok(links)
    })
}

/// The default routes of this thread's network namespace.
pub fn read_default_routes() -> Result<Vec<DefaultRoute>, ReadError> {
    let mut dump = Dump::open()?;
    request::steadily(ATTEMPTS, || {
        let mut routes = Vec::new();
        for family in [decode::IPV4, decode::IPV6] {
            let header = [family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            dump.ask(decode::GET_ROUTE, &header, |message| {
                decode::default_routes(message.payload, &mut routes)
            })?;
        }
        Ok(routes)
    })
}

fn find(links: &mut [Link], index: u32) -> Option<&mut Link> {
    let at = links.binary_search_by_key(&index, |link| link.index).ok()?;
    links.get_mut(at)
}

struct Dump {
    socket: Socket,
    buffer: Box<[u8]>,
    sequence: u32,
}

impl Dump {
    fn open() -> Result<Self, ReadError> {
        let socket = Socket::open(SockProtocol::NetlinkRoute, 0)?;
        Ok(Self { socket, buffer: vec![0; DATAGRAM].into(), sequence: 0 })
    }

    fn forwarding(&mut self, family: u8, links: &mut [Link]) -> Result<(), Failed> {
        let asked = self.ask(decode::GET_NETCONF, &[family, 0, 0, 0], |message| {
            if let Some((_, index, forwarding)) = decode::forwarding(message.payload)?
                && let Some(link) = find(links, index)
            {
                let field = match family {
                    decode::IPV6 => &mut link.forwarding_v6,
                    _ => &mut link.forwarding,
                };
                *field = forwarding;
            }
            Ok(())
        });
        match asked {
            // A kernel without IPv6, or with ipv6.disable=1.
            Err(Failed::Other(ReadError::Refused(libc::EOPNOTSUPP))) if family == decode::IPV6 => {
                Ok(())
            }
            asked => asked,
        }
    }

    fn ask(
        &mut self,
        kind: u16,
        header: &[u8],
        each: impl FnMut(&Message<'_>) -> Result<(), Malformed>,
    ) -> Result<(), Failed> {
        self.sequence += 1;
        let mut writer = Writer::default();
        writer.begin(kind, message::REQUEST | message::DUMP, self.sequence, header);
        writer.end();
        request::ask(&self.socket, &mut self.buffer, writer.as_slice(), self.sequence, each)
    }
}
