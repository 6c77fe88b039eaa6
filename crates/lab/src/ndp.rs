//! Neighbour discovery on the wire: who announces which IPv6 address, as a client hears it.

use std::net::Ipv6Addr;
use std::time::{Duration, SystemTime};

use signpost_packet::{EtherType, Mac, Ndp, NdpKind, solicited_node};

use crate::frames::{Frames, Line};
use crate::{Error, Namespace};

/// A neighbour solicitation or advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When the kernel received it.
    pub at: SystemTime,
    /// From whom the frame came.
    pub from: Mac,
    /// The message.
    pub ndp: Ndp,
}

/// Hears every message of neighbour discovery that reaches a namespace's `eth0`.
#[derive(Debug)]
pub struct Sniffer(Frames<Frame>);

impl Sniffer {
    /// Begins to listen; what comes after this call is heard.
    pub fn start(ns: &Namespace) -> Result<Self, Error> {
        Ok(Self(Frames::start(Line::open(ns, EtherType::IPV6)?, read)))
    }

    /// The advertisements of an address up to now, asked for or not.
    pub fn claims(&mut self, address: Ipv6Addr) -> Vec<Frame> {
        self.0.heard().iter().filter(|f| advertises(f, address)).copied().collect()
    }
}

/// Asks the segment who has an address, and returns the answers that came within `patience`.
pub fn who_has(
    ns: &Namespace,
    own: Ipv6Addr,
    address: Ipv6Addr,
    patience: Duration,
) -> Result<Vec<Mac>, Error> {
    let line = Line::open(ns, EtherType::IPV6)?;
    line.send(|mac| {
        let group = Mac::of_group(solicited_node(address));
        Ndp::solicitation(mac, own, address).frame(mac, group).to_vec()
    })?;
    let owner = |f: Frame| {
        // The option is left out where who asked has said its own (RFC 4861, 4.4).
        advertises(&f, address).then_some(f.ndp.mac.unwrap_or(f.from))
    };
    Ok(line.all_within(patience, |at, bytes| read(at, bytes).and_then(owner)))
}

fn advertises(f: &Frame, address: Ipv6Addr) -> bool {
    matches!(f.ndp.kind, NdpKind::Advertisement { .. }) && f.ndp.target == address
}

fn read(at: SystemTime, bytes: &[u8]) -> Option<Frame> {
    let (header, ndp) = Ndp::parse_frame(bytes)?;
    Some(Frame { at, from: header.source, ndp })
}
