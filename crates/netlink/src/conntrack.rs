//! Forgets UDP flows to endpoints that went away: as long as a client keeps sending, conntrack would
//! keep its flow on the dead endpoint.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use nix::sys::socket::SockProtocol;
use signpost_nft::Family;

use crate::message::{self, Attributes, Malformed, Message, Writer};
use crate::request::{self, Failed, ReadError};
use crate::socket::{DATAGRAM, Socket};

/// NFNL_SUBSYS_CTNETLINK
const SUBSYSTEM: u16 = 1;
const GET: u16 = SUBSYSTEM << 8 | 1;
const DELETE: u16 = SUBSYSTEM << 8 | 2;

const TUPLE_ORIGINAL: u16 = 1;
const ID: u16 = 12;
const ZONE: u16 = 18;
const FILTER: u16 = 25;

const TUPLE_PROTOCOL: u16 = 2;
const PROTOCOL_NUMBER: u16 = 1;
const UDP: u8 = 17;
/// A dump that the table's growth interrupted starts anew.
const ATTEMPTS: usize = 16;

/// UDP flows of clients to a port, translated to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpFlows {
    /// The address that the clients send to, the original direction's destination; `None`: any.
    pub address: Option<IpAddr>,
    /// And the port.
    pub port: u16,
    /// Who answers: the reply direction's source.
    pub endpoint: SocketAddr,
}

/// Deletes the flows, and says how many there were.
pub fn delete_udp(family: Family, flows: &[UdpFlows]) -> Result<usize, ReadError> {
    if flows.is_empty() {
        return Ok(0);
    }
    let stale: HashSet<_> = flows.iter().collect();
    let mut session = Session::open(family)?;
    let entries = request::steadily(ATTEMPTS, || session.find(&stale))?;
    let mut deleted = 0;
    for entry in &entries {
        deleted += usize::from(session.delete(entry)?);
    }
    Ok(deleted)
}

/// What names an entry to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    flows: UdpFlows,
    original: Vec<u8>,
    id: Vec<u8>,
    zone: Option<Vec<u8>>,
}

struct Session {
    socket: Socket,
    buffer: Box<[u8]>,
    header: [u8; 4],
    sequence: u32,
}

impl Session {
    fn open(family: Family) -> Result<Self, ReadError> {
        let socket = Socket::open(SockProtocol::NetlinkNetFilter, 0)?;
        let family = match family {
            Family::Ip => libc::AF_INET,
            Family::Ip6 => libc::AF_INET6,
            Family::Inet => libc::AF_UNSPEC,
        };
        let header = [family as u8, 0, 0, 0];
        Ok(Self { socket, buffer: vec![0; DATAGRAM].into(), header, sequence: 0 })
    }

    /// The kernel picks out UDP (Linux 5.8; before, it sends all), this the flows.
    fn find(&mut self, stale: &HashSet<&UdpFlows>) -> Result<Vec<Entry>, Failed> {
        /// CTA_FILTER_ORIG_FLAGS, and in it CTA_FILTER_FLAG(CTA_PROTO_NUM).
        const ORIGINAL_FLAGS: u16 = 1;
        const BY_PROTOCOL: u32 = 1 << 3;
        let mut entries = Vec::new();
        let flags = message::REQUEST | message::DUMP;
        self.ask(
            GET,
            flags,
            |w| {
                let filter = w.nest(FILTER);
                w.attribute(ORIGINAL_FLAGS, &BY_PROTOCOL.to_ne_bytes());
                w.attribute(ORIGINAL_FLAGS + 1, &0u32.to_ne_bytes());
                w.end_nest(filter);
                let tuple = w.nest(TUPLE_ORIGINAL);
                let protocol = w.nest(TUPLE_PROTOCOL);
                w.attribute(PROTOCOL_NUMBER, &[UDP]);
                w.end_nest(protocol);
                w.end_nest(tuple);
            },
            |message| {
                entries.extend(entry(message)?.filter(|entry| {
                    let any = UdpFlows { address: None, ..entry.flows };
                    stale.contains(&entry.flows) || stale.contains(&any)
                }));
                Ok(())
            },
        )?;
        Ok(entries)
    }

    /// False: it was gone already.
    fn delete(&mut self, entry: &Entry) -> Result<bool, ReadError> {
        let asked = self.ask(
            DELETE,
            message::REQUEST | message::ACK,
            |w| {
                let original = w.nest(TUPLE_ORIGINAL);
                w.raw(&entry.original);
                w.end_nest(original);
                w.attribute(ID, &entry.id);
                if let Some(zone) = &entry.zone {
                    w.attribute(ZONE, zone);
                }
            },
            |_| Ok(()),
        );
        match asked {
            Ok(()) => Ok(true),
            Err(Failed::Other(ReadError::Refused(libc::ENOENT))) => Ok(false),
            Err(Failed::Other(error)) => Err(error),
            Err(Failed::Interrupted) => Err(ReadError::Changing(1)),
        }
    }

    fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        write: impl FnOnce(&mut Writer),
        each: impl FnMut(&Message<'_>) -> Result<(), Malformed>,
    ) -> Result<(), Failed> {
        self.sequence += 1;
        let mut writer = Writer::default();
        writer.begin(kind, flags, self.sequence, &self.header);
        write(&mut writer);
        writer.end();
        request::ask(&self.socket, &mut self.buffer, writer.as_slice(), self.sequence, each)
    }
}

/// `None`: not UDP.
fn entry(message: &Message<'_>) -> Result<Option<Entry>, Malformed> {
    let attributes = Attributes::after(message.payload, 4)?;
    let [_, original, reply, _, _, _, _, _, _, _, _, _, id, _, _, _, _, _, zone] =
        attributes.by_type()?;
    let (Some(original), Some(reply), Some(id)) = (original, reply, id) else {
        return Ok(None);
    };
    let (Some((_, service)), Some((endpoint, _))) = (tuple(original)?, tuple(reply)?) else {
        return Ok(None);
    };
    Ok(Some(Entry {
        flows: UdpFlows { address: Some(service.ip()), port: service.port(), endpoint },
        original: original.to_vec(),
        id: id.to_vec(),
        zone: zone.map(<[u8]>::to_vec),
    }))
}

/// Source and destination; `None`: not UDP.
fn tuple(nest: &[u8]) -> Result<Option<(SocketAddr, SocketAddr)>, Malformed> {
    let [_, addresses, protocol] = Attributes::new(nest).by_type()?;
    let [_, v4_source, v4_destination, v6_source, v6_destination] =
        Attributes::new(addresses.unwrap_or_default()).by_type()?;
    let [_, number, source_port, destination_port] =
        Attributes::new(protocol.unwrap_or_default()).by_type()?;
    if number != Some(&[UDP]) {
        return Ok(None);
    }
    let socket_address = |v4: Option<&[u8]>, v6: Option<&[u8]>, port: Option<&[u8]>| {
        let v4 = v4.and_then(|v4| <[u8; 4]>::try_from(v4).ok()).map(IpAddr::from);
        let v6 = || v6.and_then(|v6| <[u8; 16]>::try_from(v6).ok()).map(IpAddr::from);
        let port = u16::from_be_bytes(port?.try_into().ok()?);
        Some(SocketAddr::new(v4.or_else(v6)?, port))
    };
    let source = socket_address(v4_source, v6_source, source_port);
    let destination = socket_address(v4_destination, v6_destination, destination_port);
    Ok(source.zip(destination))
}

/// For [`crate::fuzz_read`].
pub(crate) fn parse_anything(message: &Message<'_>) {
    let _ = entry(message);
}
