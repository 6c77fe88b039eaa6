//! Keys and data as the kernel lays them out.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Type;

/// Key or data of an element, or the right side of a comparison, as the kernel lays it out: the
/// parts of a concatenation are padded to 4 bytes each, a single part is not padded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes {
    len: u8,
    data: [u8; Bytes::MAX],
}

/// One part of a key or of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// `ipv4_addr`
    Ipv4(Ipv4Addr),
    /// `ipv6_addr`
    Ipv6(Ipv6Addr),
    /// `inet_proto`; also any other single byte, like an ICMP type.
    Proto(u8),
    /// `inet_service`
    Port(u16),
    /// `ifname`, filled up with zeros.
    IfName([u8; 16]),
    /// A number in host order.
    Number(u32),
}

impl Bytes {
    /// The longest: two IPv6 addresses, protocol, port.
    pub const MAX: usize = 40;

    /// Lays out the parts.
    ///
    /// # Panics
    /// If they are longer than [`Bytes::MAX`]: no set of ours has such a key.
    pub fn new(parts: &[Part]) -> Self {
        let mut bytes = Self { len: 0, data: [0; Self::MAX] };
        for part in parts {
            bytes.push(*part);
            if parts.len() > 1 {
                bytes.len = bytes.len.next_multiple_of(4);
            }
        }
        bytes
    }

    /// An interface's name for a comparison with `iifname`; `None`: longer than IFNAMSIZ - 1.
    pub fn if_name(name: &str) -> Option<Self> {
        Part::if_name(name).map(|part| Self::new(&[part]))
    }

    /// Bytes that are laid out already; `None`: longer than [`Bytes::MAX`].
    pub fn from_slice(slice: &[u8]) -> Option<Self> {
        let mut data = [0; Self::MAX];
        data.get_mut(..slice.len())?.copy_from_slice(slice);
        Some(Self { len: u8::try_from(slice.len()).ok()?, data })
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.data[..usize::from(self.len)]
    }

    /// Takes them apart; `None`: their length is not that of the types.
    pub fn parts(&self, types: &[Type]) -> Option<Vec<Part>> {
        if self.as_slice().len() != Type::total_size(types) {
            return None;
        }
        let mut rest = self.as_slice();
        let mut parts = Vec::with_capacity(types.len());
        for kind in types {
            let (part, after) = rest.split_at_checked(kind.size())?;
            parts.push(Part::read(*kind, part)?);
            let padding = kind.size().next_multiple_of(4) - kind.size();
            rest = after.get(padding..).unwrap_or_default();
        }
        Some(parts)
    }

    fn push(&mut self, part: Part) {
        let at = usize::from(self.len);
        let mut put = |bytes: &[u8]| {
            self.data[at..at + bytes.len()].copy_from_slice(bytes);
            self.len += bytes.len() as u8;
        };
        match part {
            Part::Ipv4(address) => put(&address.octets()),
            Part::Ipv6(address) => put(&address.octets()),
            Part::Proto(proto) => put(&[proto]),
            Part::Port(port) => put(&port.to_be_bytes()),
            Part::IfName(name) => put(&name),
            Part::Number(number) => put(&number.to_ne_bytes()),
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.as_slice().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Part {
    /// An interface's name; `None`: longer than IFNAMSIZ - 1.
    pub fn if_name(name: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        bytes[..15].get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(Self::IfName(bytes))
    }

    /// Its type.
    pub const fn kind(&self) -> Type {
        match self {
            Self::Ipv4(_) => Type::Ipv4Addr,
            Self::Ipv6(_) => Type::Ipv6Addr,
            Self::Proto(_) => Type::InetProto,
            Self::Port(_) => Type::InetService,
            Self::IfName(_) => Type::IfName,
            Self::Number(_) => Type::Number,
        }
    }

    fn read(kind: Type, bytes: &[u8]) -> Option<Self> {
        Some(match kind {
            Type::Ipv4Addr => Self::Ipv4(<[u8; 4]>::try_from(bytes).ok()?.into()),
            Type::Ipv6Addr => Self::Ipv6(<[u8; 16]>::try_from(bytes).ok()?.into()),
            Type::InetProto => Self::Proto(*bytes.first()?),
            Type::InetService => Self::Port(u16::from_be_bytes(bytes.try_into().ok()?)),
            Type::IfName => Self::IfName(bytes.try_into().ok()?),
            Type::Number => Self::Number(u32::from_ne_bytes(bytes.try_into().ok()?)),
        })
    }
}

impl From<IpAddr> for Part {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::Ipv4(v4),
            IpAddr::V6(v6) => Self::Ipv6(v6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_concatenation_is_padded_and_a_single_part_is_not() {
        let key =
            [Part::Ipv4([10, 0, 0, 1].into()), Part::Proto(6), Part::Port(80), Part::Number(7)];
        let bytes = Bytes::new(&key);
        let mut want = vec![10, 0, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0];
        want.extend(7u32.to_ne_bytes());
        assert_eq!(bytes.as_slice(), want);
        let types = key.map(|part| part.kind());
        assert_eq!(bytes.parts(&types).unwrap(), key);
        assert_eq!(bytes.parts(&types[..3]), None);
        assert_eq!(Bytes::new(&[Part::Port(80)]).as_slice(), [0, 80]);
    }

    #[test]
    fn an_interface_name_keeps_its_final_zero() {
        assert!(Bytes::if_name("a-name-of-15-ch").is_some());
        assert!(Bytes::if_name("a-name-of-16-chr").is_none());
    }
}
