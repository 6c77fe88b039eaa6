//! Ethernet II headers, without VLAN tags: the kernel strips those before a socket sees a frame.

use core::fmt;
use core::net::Ipv6Addr;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Everybody on the segment.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// Nobody: the target of a question whose answer is this address.
    pub const ZERO: Self = Self([0; 6]);

    /// Whether one interface can bear it: not a group's address and not zero.
    pub fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0 && self != Self::ZERO
    }

    /// Where frames for a group go (RFC 2464, 7).
    pub fn of_group(group: Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self([0x33, 0x33, a, b, c, d])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// What follows the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// RFC 826.
    pub const ARP: Self = Self(0x0806);
    /// RFC 2464.
    pub const IPV6: Self = Self(0x86dd);
}

/// An Ethernet II header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// To whom.
    pub destination: Mac,
    /// From whom.
    pub source: Mac,
    /// What follows.
    pub ether_type: EtherType,
}

impl Ethernet {
    /// Bytes on the wire.
    pub const LEN: usize = 14;

    /// The header and what follows it.
    pub fn parse(frame: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = frame.split_first_chunk::<{ Self::LEN }>()?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *head;
        let header = Self {
            destination: Mac([d0, d1, d2, d3, d4, d5]),
            source: Mac([s0, s1, s2, s3, s4, s5]),
            ether_type: EtherType(u16::from_be_bytes([t0, t1])),
        };
        Some((header, rest))
    }

    /// As on the wire.
    pub fn write(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..6].copy_from_slice(&self.destination.0);
        out[6..12].copy_from_slice(&self.source.0);
        out[12..].copy_from_slice(&self.ether_type.0.to_be_bytes());
        out
    }
}
