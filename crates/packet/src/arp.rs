//! ARP for IPv4 over Ethernet (RFC 826), with its Ethernet header.

use core::net::Ipv4Addr;

use crate::{EtherType, Ethernet, Mac};

/// Bytes of an Ethernet frame that carries one ARP packet, before padding.
pub const FRAME_LEN: usize = Ethernet::LEN + Arp::LEN;

/// Hardware type 1 (Ethernet), protocol 0x0800 (IPv4), address lengths 6 and 4.
const PREFIX: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// What an ARP packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Who has the target's protocol address?
    Request,
    /// The sender has the sender's.
    Reply,
}

/// An ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Request or reply.
    pub operation: Operation,
    /// `ar$sha`.
    pub sender_mac: Mac,
    /// `ar$spa`.
    pub sender: Ipv4Addr,
    /// `ar$tha`.
    pub target_mac: Mac,
    /// `ar$tpa`.
    pub target: Ipv4Addr,
}

impl Arp {
    /// Bytes of the packet alone.
    pub const LEN: usize = 28;

    /// "I have it", in the form of a request (sender = target, broadcast): of all forms the only one
    /// that Linux takes even for an entry younger than `locktime`, beside a reply to oneself.
    pub fn announcement(mac: Mac, address: Ipv4Addr) -> Self {
        Self {
            operation: Operation::Request,
            sender_mac: mac,
            sender: address,
            target_mac: Mac::ZERO,
            target: address,
        }
    }

    /// "Who has it?"; without an address of one's own this is RFC 5227's probe.
    pub fn request(mac: Mac, sender: Option<Ipv4Addr>, target: Ipv4Addr) -> Self {
        Self {
            operation: Operation::Request,
            sender_mac: mac,
            sender: sender.unwrap_or(Ipv4Addr::UNSPECIFIED),
            target_mac: Mac::ZERO,
            target,
        }
    }

    /// The answer of `mac` to a request.
    pub fn reply_to(request: &Self, mac: Mac) -> Self {
        Self {
            operation: Operation::Reply,
            sender_mac: mac,
            sender: request.target,
            target_mac: request.sender_mac,
            target: request.sender,
        }
    }

    /// An ARP packet; padding behind it is ignored. `None`: cut short, or not IPv4 over Ethernet.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let (packet, _padding) = packet.split_first_chunk::<{ Self::LEN }>()?;
        if packet[..6] != PREFIX {
            return None;
        }
        let operation = match u16::from_be_bytes([packet[6], packet[7]]) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return None,
        };
        let mac = |at: usize| Mac(core::array::from_fn(|i| packet[at + i]));
        let ip = |at: usize| Ipv4Addr::from(core::array::from_fn::<u8, 4, _>(|i| packet[at + i]));
        Some(Self {
            operation,
            sender_mac: mac(8),
            sender: ip(14),
            target_mac: mac(18),
            target: ip(24),
        })
    }

    /// As on the wire.
    pub fn write(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..6].copy_from_slice(&PREFIX);
        out[7] = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        out[8..14].copy_from_slice(&self.sender_mac.0);
        out[14..18].copy_from_slice(&self.sender.octets());
        out[18..24].copy_from_slice(&self.target_mac.0);
        out[24..].copy_from_slice(&self.target.octets());
        out
    }

    /// A whole frame: its header, and the packet. `None`: not ARP, or see [`Self::parse`].
    pub fn parse_frame(frame: &[u8]) -> Option<(Ethernet, Self)> {
        let (ethernet, rest) = Ethernet::parse(frame)?;
        if ethernet.ether_type != EtherType::ARP {
            return None;
        }
        Some((ethernet, Self::parse(rest)?))
    }

    /// The packet in a frame from its sender to `destination`.
    pub fn frame(&self, destination: Mac) -> [u8; FRAME_LEN] {
        let ethernet =
            Ethernet { destination, source: self.sender_mac, ether_type: EtherType::ARP };
        let mut out = [0; FRAME_LEN];
        out[..Ethernet::LEN].copy_from_slice(&ethernet.write());
        out[Ethernet::LEN..].copy_from_slice(&self.write());
        out
    }
}
