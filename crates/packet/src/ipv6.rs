//! IPv6 headers (RFC 8200), as far as a neighbour's packets need them: without extensions.

use core::net::Ipv6Addr;

/// Next header: ICMPv6.
pub(crate) const ICMPV6: u8 = 58;

/// No router has passed it on (RFC 4861, 3.1): whoever sent it is on this link.
pub(crate) const HOP_LIMIT_OF_NEIGHBOURS: u8 = 255;

/// An IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ipv6 {
    pub(crate) next_header: u8,
    pub(crate) hop_limit: u8,
    pub(crate) source: Ipv6Addr,
    pub(crate) destination: Ipv6Addr,
}

impl Ipv6 {
    pub(crate) const LEN: usize = 40;

    /// The header and its payload, without what pads the frame.
    pub(crate) fn parse(packet: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = packet.split_first_chunk::<{ Self::LEN }>()?;
        if head[0] >> 4 != 6 {
            return None;
        }
        let payload = rest.get(..usize::from(u16::from_be_bytes([head[4], head[5]])))?;
        let ip = |at: usize| Ipv6Addr::from(core::array::from_fn::<u8, 16, _>(|i| head[at + i]));
        let (source, destination) = (ip(8), ip(24));
        Some((Self { next_header: head[6], hop_limit: head[7], source, destination }, payload))
    }

    /// As on the wire, before so many bytes.
    pub(crate) fn write(&self, payload_len: u16) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0] = 6 << 4;
        out[4..6].copy_from_slice(&payload_len.to_be_bytes());
        (out[6], out[7]) = (self.next_header, self.hop_limit);
        out[8..24].copy_from_slice(&self.source.octets());
        out[24..].copy_from_slice(&self.destination.octets());
        out
    }
}

/// The checksum of what follows a header (RFC 8200, 8.1), with its pseudo-header; zero where the
/// payload bears the right one.
pub(crate) fn checksum(ip: &Ipv6, payload: &[u8]) -> u16 {
    let mut sum = u64::from(ip.next_header) + payload.len() as u64;
    for part in [&ip.source.octets()[..], &ip.destination.octets(), payload] {
        let (pairs, last) = part.as_chunks::<2>();
        sum += pairs.iter().map(|&pair| u64::from(u16::from_be_bytes(pair))).sum::<u64>();
        sum += last.iter().map(|&byte| u64::from(byte) << 8).sum::<u64>();
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}
