//! ARP on the wire: who announces which address, as a client hears it.

use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use signpost_packet::{Arp, EtherType, Mac, Operation};

use crate::frames::{Frames, Line};
use crate::{Error, Namespace};

/// An ARP frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When the kernel received it.
    pub at: SystemTime,
    /// From whom the frame came.
    pub from: Mac,
    /// The packet.
    pub arp: Arp,
}

/// Hears every ARP frame that reaches a namespace's `eth0`.
#[derive(Debug)]
pub struct Sniffer(Frames<Frame>);

impl Sniffer {
    /// Begins to listen; what comes after this call is heard.
    pub fn start(ns: &Namespace) -> Result<Self, Error> {
        Ok(Self(Frames::start(Line::open(ns, EtherType::ARP)?, read)))
    }

    /// The frames up to now whose sender claims to have the address.
    pub fn claims(&mut self, address: Ipv4Addr) -> Vec<Frame> {
        self.0.heard().iter().filter(|f| f.arp.sender == address).copied().collect()
    }
}

/// Asks the segment who has an address, and returns the answers that came within `patience`.
pub fn who_has(
    ns: &Namespace,
    own: Ipv4Addr,
    address: Ipv4Addr,
    patience: Duration,
) -> Result<Vec<Mac>, Error> {
    let line = Line::open(ns, EtherType::ARP)?;
    line.send(|mac| Arp::request(mac, Some(own), address).frame(Mac::BROADCAST).to_vec())?;
    let owner = |f: Frame| {
        let answers = (f.arp.operation, f.arp.sender) == (Operation::Reply, address);
        answers.then_some(f.arp.sender_mac)
    };
    Ok(line.all_within(patience, |at, bytes| read(at, bytes).and_then(owner)))
}

fn read(at: SystemTime, bytes: &[u8]) -> Option<Frame> {
    let (header, arp) = Arp::parse_frame(bytes)?;
    Some(Frame { at, from: header.source, arp })
}
