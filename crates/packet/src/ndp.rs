//! Neighbour solicitations and advertisements (RFC 4861, 4.3 and 4.4) with their IPv6 and Ethernet
//! headers.

use core::net::Ipv6Addr;
use core::ops::Deref;

use crate::ipv6::{self, Ipv6};
use crate::{EtherType, Ethernet, Mac};

/// ICMPv6 types.
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Options that name a link-layer address (RFC 4861, 4.6.1).
const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
/// Bytes of such an option for Ethernet (RFC 2464, 6); all options' lengths count in these units.
const OPTION_LEN: usize = 8;
/// Type, code, checksum, flags and target.
const FIXED_LEN: usize = 24;
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpKind {
    /// Who has the target?
    Solicitation,
    /// The sender has it.
    Advertisement {
        /// R: it routes.
        router: bool,
        /// S: somebody asked, and alone gets this.
        solicited: bool,
        /// O: what was known of the target's link-layer address is out of date.
        overrides: bool,
    },
}

/// A neighbour solicitation or advertisement, in an IPv6 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ndp {
    /// From whom; unspecified: who asks wants the target for itself (RFC 4862, 5.4.2).
    pub source: Ipv6Addr,
    /// To whom.
    pub destination: Ipv6Addr,
    /// What it is about.
    pub target: Ipv6Addr,
    /// Solicitation or advertisement.
    pub kind: NdpKind,
    /// The link-layer address that it names: of a solicitation's source, of an advertisement's target.
    pub mac: Option<Mac>,
}

impl Ndp {
    /// Every node of the link.
    pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

    /// "I have it": the one form that Linux takes from a group (solicited, or without override, it
    /// does not move an entry).
    pub fn announcement(mac: Mac, address: Ipv6Addr) -> Self {
        let kind = NdpKind::Advertisement { router: false, solicited: false, overrides: true };
        let destination = Self::ALL_NODES;
        Self { source: address, destination, target: address, kind, mac: Some(mac) }
    }

    /// "Who has it?"
    pub fn solicitation(mac: Mac, source: Ipv6Addr, target: Ipv6Addr) -> Self {
        let destination = solicited_node(target);
        Self { source, destination, target, kind: NdpKind::Solicitation, mac: Some(mac) }
    }

    /// "Has anybody the address that I want?" (duplicate address detection).
    pub fn probe(target: Ipv6Addr) -> Self {
        let (source, destination) = (Ipv6Addr::UNSPECIFIED, solicited_node(target));
        Self { source, destination, target, kind: NdpKind::Solicitation, mac: None }
    }

    /// The answer of `mac` to a solicitation (RFC 4861, 7.2.4): to who asked, or to all nodes where
    /// that has no address yet. Not as a router: nobody is to send here what is for others.
    pub fn answer_to(solicitation: &Self, mac: Mac) -> Self {
        let all = Self::announcement(mac, solicitation.target);
        if solicitation.source.is_unspecified() {
            return all;
        }
        let kind = NdpKind::Advertisement { router: false, solicited: true, overrides: true };
        Self { destination: solicitation.source, kind, ..all }
    }

    /// What RFC 4861 lets a node take (7.1.1, 7.1.2), padding behind it ignored. `None`: cut short,
    /// another message, or one that no neighbour can have sent.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let (ip, payload) = Ipv6::parse(packet)?;
        if ip.next_header != ipv6::ICMPV6
            || ip.hop_limit != ipv6::HOP_LIMIT_OF_NEIGHBOURS
            || ipv6::checksum(&ip, payload) != 0
        {
            return None;
        }
        let (fixed, options) = payload.split_first_chunk::<FIXED_LEN>()?;
        let (kind, option) = match [fixed[0], fixed[1]] {
            [SOLICITATION, 0] => (NdpKind::Solicitation, SOURCE_MAC),
            [ADVERTISEMENT, 0] => {
                let set = |flag: u8| fixed[4] & flag != 0;
                let (router, solicited) = (set(ROUTER), set(SOLICITED));
                let overrides = set(OVERRIDE);
                (NdpKind::Advertisement { router, solicited, overrides }, TARGET_MAC)
            }
            _ => return None,
        };
        let target = Ipv6Addr::from(core::array::from_fn::<u8, 16, _>(|i| fixed[8 + i]));
        let mac = mac_option(options, option)?;
        let ndp = Self { source: ip.source, destination: ip.destination, target, kind, mac };
        ndp.is_possible().then_some(ndp)
    }

    fn is_possible(&self) -> bool {
        let addressed = match self.kind {
            NdpKind::Solicitation if self.source.is_unspecified() => {
                is_solicited_node(self.destination) && self.mac.is_none()
            }
            NdpKind::Solicitation => true,
            NdpKind::Advertisement { solicited, .. } => {
                !(solicited && self.destination.is_multicast())
            }
        };
        addressed && !self.target.is_multicast() && !self.source.is_multicast()
    }

    /// A whole frame: its header, and the message. `None`: not IPv6, or see [`Self::parse`].
    pub fn parse_frame(frame: &[u8]) -> Option<(Ethernet, Self)> {
        let (ethernet, rest) = Ethernet::parse(frame)?;
        if ethernet.ether_type != EtherType::IPV6 {
            return None;
        }
        Some((ethernet, Self::parse(rest)?))
    }

    /// The message in a frame from `source` to `destination`; to a group that is
    /// [`Mac::of_group`].
    pub fn frame(&self, source: Mac, destination: Mac) -> NdpFrame {
        let (options, icmp_len) = match self.mac {
            Some(mac) => (self.option(mac), FIXED_LEN + OPTION_LEN),
            None => ([0; OPTION_LEN], FIXED_LEN),
        };
        let mut icmp = [0; FIXED_LEN + OPTION_LEN];
        (icmp[0], icmp[4]) = match self.kind {
            NdpKind::Solicitation => (SOLICITATION, 0),
            NdpKind::Advertisement { router, solicited, overrides } => {
                let bit = |set, flag| if set { flag } else { 0 };
                let flags = bit(router, ROUTER) | bit(solicited, SOLICITED);
                (ADVERTISEMENT, flags | bit(overrides, OVERRIDE))
            }
        };
        icmp[8..FIXED_LEN].copy_from_slice(&self.target.octets());
        icmp[FIXED_LEN..].copy_from_slice(&options);
        let ip = Ipv6 {
            next_header: ipv6::ICMPV6,
            hop_limit: ipv6::HOP_LIMIT_OF_NEIGHBOURS,
            source: self.source,
            destination: self.destination,
        };
        let sum = ipv6::checksum(&ip, &icmp[..icmp_len]);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());

        let ethernet = Ethernet { destination, source, ether_type: EtherType::IPV6 };
        let mut bytes = [0; NdpFrame::LEN_MAX];
        bytes[..Ethernet::LEN].copy_from_slice(&ethernet.write());
        bytes[Ethernet::LEN..ICMP_AT].copy_from_slice(&ip.write(icmp_len as u16));
        bytes[ICMP_AT..].copy_from_slice(&icmp);
        NdpFrame { bytes, len: ICMP_AT + icmp_len }
    }

    fn option(&self, mac: Mac) -> [u8; OPTION_LEN] {
        let kind = match self.kind {
            NdpKind::Solicitation => SOURCE_MAC,
            NdpKind::Advertisement { .. } => TARGET_MAC,
        };
        let [a, b, c, d, e, f] = mac.0;
        [kind, 1, a, b, c, d, e, f]
    }
}

/// Where the message begins in a frame.
const ICMP_AT: usize = Ethernet::LEN + Ipv6::LEN;

/// A frame with one message in it.
#[derive(Clone, Copy, Debug)]
pub struct NdpFrame {
    bytes: [u8; Self::LEN_MAX],
    len: usize,
}

impl NdpFrame {
    /// Bytes of the longest that is written.
    pub const LEN_MAX: usize = ICMP_AT + FIXED_LEN + OPTION_LEN;
}

impl Deref for NdpFrame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The group where an address's owner is asked for it (RFC 4291, 2.7.1).
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

fn is_solicited_node(address: Ipv6Addr) -> bool {
    address == solicited_node(address)
}

/// The first option of that type; of an advertisement's many options, the walk ends with the packet,
/// since each is at least a unit long. `None`: an option of no length, cut short, or no Ethernet
/// address in it.
#[expect(clippy::option_option, reason = "no such option, and options that cannot be read, differ")]
fn mac_option(options: &[u8], wanted: u8) -> Option<Option<Mac>> {
    let (mut rest, mut mac) = (options, None);
    while !rest.is_empty() {
        let &[kind, units] = rest.first_chunk::<2>()?;
        let (option, after) = rest.split_at_checked(usize::from(units) * OPTION_LEN)?;
        if option.is_empty() {
            return None;
        }
        if kind == wanted {
            let &[_, _, a, b, c, d, e, f] = <&[u8; OPTION_LEN]>::try_from(option).ok()?;
            mac.get_or_insert(Mac([a, b, c, d, e, f]));
        }
        rest = after;
    }
    Some(mac)
}
