//! Address resolution, whichever the family: ARP and neighbour discovery ask and say the same things.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use signpost_packet::{Arp, EtherType, Ethernet, Mac, Ndp, NdpKind, Operation, solicited_node};

use crate::outbox::Outbox;
use crate::{Link, Peer, Port};

/// A frame that asks for an address, or says who has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    ethernet: Ethernet,
    packet: Packet,
}

#[derive(Clone, Copy, Debug)]
enum Packet {
    Arp(Arp),
    Ndp(Ndp),
}

/// That an address is at an Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) address: IpAddr,
    pub(crate) mac: Mac,
}

impl Heard {
    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        let (ethernet, rest) = Ethernet::parse(frame)?;
        let packet = match ethernet.ether_type {
            EtherType::ARP => Packet::Arp(Arp::parse(rest)?),
            EtherType::IPV6 => Packet::Ndp(Ndp::parse(rest)?),
            _ => return None,
        };
        Some(Self { ethernet, packet })
    }

    /// Whether an Ethernet address for which this holds has sent it.
    pub(crate) fn is_from(&self, is: impl Fn(Mac) -> bool) -> bool {
        is(self.sender_mac()) || is(self.ethernet.source)
    }

    /// What it says, be it an answer, an announcement or by the way of a question.
    pub(crate) fn claim(&self) -> Option<Claim> {
        let address = match self.packet {
            Packet::Arp(arp) => IpAddr::V4(arp.sender),
            Packet::Ndp(Ndp { kind: NdpKind::Advertisement { .. }, target, .. }) => target.into(),
            Packet::Ndp(Ndp { kind: NdpKind::Solicitation, source, .. }) => source.into(),
        };
        let claim = Claim { address, mac: self.sender_mac() };
        (!address.is_unspecified()).then_some(claim)
    }

    /// The address that it asks for.
    pub(crate) fn asks(&self) -> Option<IpAddr> {
        let (from, target) = match self.packet {
            Packet::Arp(Arp { operation: Operation::Request, sender, target, .. }) => {
                (IpAddr::V4(sender), IpAddr::V4(target))
            }
            Packet::Ndp(Ndp { kind: NdpKind::Solicitation, source, target, .. }) => {
                (source.into(), target.into())
            }
            Packet::Arp(Arp { operation: Operation::Reply, .. })
            | Packet::Ndp(Ndp { kind: NdpKind::Advertisement { .. }, .. }) => return None,
        };
        let answerable = self.sender_mac().is_unicast() && self.ethernet.source.is_unicast();
        (answerable && from != target).then_some(target)
    }

    /// Answers it by a link.
    pub(crate) fn answer(&self, link: &Link, out: &mut Outbox) {
        match &self.packet {
            Packet::Arp(request) => {
                let frame = Arp::reply_to(request, Mac(link.mac)).frame(request.sender_mac);
                out.send_copy(Port::Arp(link.index), Peer::Link, &frame);
            }
            Packet::Ndp(solicitation) => {
                let answer = Ndp::answer_to(solicitation, Mac(link.mac));
                let to = if answer.destination.is_multicast() {
                    Mac::of_group(answer.destination)
                } else {
                    self.sender_mac()
                };
                send(link, &answer, to, out);
            }
        }
    }

    /// As the packet says; a solicitation need not (RFC 4861, 4.3), and is answered where its frame
    /// came from.
    fn sender_mac(&self) -> Mac {
        match self.packet {
            Packet::Arp(arp) => arp.sender_mac,
            Packet::Ndp(ndp) => ndp.mac.unwrap_or(self.ethernet.source),
        }
    }
}

/// Tells everybody on a link that we have an address.
pub(crate) fn announce(link: &Link, address: IpAddr, out: &mut Outbox) {
    let mac = Mac(link.mac);
    match address {
        IpAddr::V4(address) => {
            let frame = Arp::announcement(mac, address).frame(Mac::BROADCAST);
            out.send_copy(Port::Arp(link.index), Peer::Link, &frame);
        }
        IpAddr::V6(address) => {
            let all = Mac::of_group(Ndp::ALL_NODES);
            send(link, &Ndp::announcement(mac, address), all, out);
        }
    }
}

/// Asks for an address on a link, one interface or everybody.
pub(crate) fn ask(link: &Link, target: IpAddr, to: Option<Mac>, out: &mut Outbox) {
    match target {
        IpAddr::V4(target) => ask_v4(link, target, to, out),
        IpAddr::V6(target) => ask_v6(link, target, to, out),
    }
}

fn ask_v4(link: &Link, target: Ipv4Addr, to: Option<Mac>, out: &mut Outbox) {
    if link.up && link.address != Some(target) {
        let request = Arp::request(Mac(link.mac), link.address, target);
        let frame = request.frame(to.unwrap_or(Mac::BROADCAST));
        out.send_copy(Port::Arp(link.index), Peer::Link, &frame);
    }
}

/// Without an address of our own it would be a question that all nodes hear the answer of.
fn ask_v6(link: &Link, target: Ipv6Addr, to: Option<Mac>, out: &mut Outbox) {
    if let Some(own) = link.address_v6.filter(|own| link.up && *own != target) {
        let to = to.unwrap_or(Mac::of_group(solicited_node(target)));
        send(link, &Ndp::solicitation(Mac(link.mac), own, target), to, out);
    }
}

fn send(link: &Link, ndp: &Ndp, to: Mac, out: &mut Outbox) {
    out.send_copy(Port::Ndp(link.index), Peer::Link, &ndp.frame(Mac(link.mac), to));
}
