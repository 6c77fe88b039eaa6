//! What clients ask.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Protocol;

/// What clients ask: one port of one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frontend {
    /// The place.
    pub asked: Asked,
    /// The protocol.
    pub protocol: Protocol,
    /// The port that clients ask.
    pub port: u16,
}

/// The place that clients ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asked {
    /// An address for outsiders: a LoadBalancer Service's, or an external IP.
    Vip(IpAddr),
    /// A ClusterIP.
    ClusterIp(IpAddr),
    /// Every address of this node, of one family.
    NodePort(Family),
}

/// An address family. Of a Service with both, each is served on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Frontend {
    /// The family of its clients and endpoints.
    pub fn family(&self) -> Family {
        match self.asked {
            Asked::Vip(address) | Asked::ClusterIp(address) => Family::of(address),
            Asked::NodePort(family) => family,
        }
    }

    /// The address that the gate is about, if it is one for outsiders.
    pub fn vip(&self) -> Option<IpAddr> {
        match self.asked {
            Asked::Vip(address) => Some(address),
            Asked::ClusterIp(_) | Asked::NodePort(_) => None,
        }
    }
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// That of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Its address of all zeros.
    pub fn unspecified(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }
}

/// `192.0.2.1:80/TCP`, `NodePort 30080/TCP (IPv4)`.
impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, protocol, port } = self;
        match asked {
            Asked::Vip(IpAddr::V6(a)) | Asked::ClusterIp(IpAddr::V6(a)) => {
                write!(f, "[{a}]:{port}/{protocol}")
            }
            Asked::Vip(a) | Asked::ClusterIp(a) => write!(f, "{a}:{port}/{protocol}"),
            Asked::NodePort(family) => write!(f, "NodePort {port}/{protocol} ({family})"),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}
