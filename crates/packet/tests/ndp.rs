//! Golden bytes, round trips, what is refused, and another implementation as oracle.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::Ipv6Addr;

use etherparse::PacketBuilder;
use proptest::prelude::*;
use signpost_packet::{EtherType, Ethernet, Mac, Ndp, NdpFrame, NdpKind, solicited_node};

const OURS: Mac = Mac([0x02, 0, 0, 0, 0, 0x77]);
const CLIENT: Mac = Mac([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
const VIP: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x00ab, 0xcdef);
const ASKER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x100);
/// Where things stand in a frame.
const IP: usize = 14;
const ICMP: usize = 54;
const OPTION: usize = 78;

#[test]
fn an_announcement_overrides_and_was_not_asked_for() {
    let golden = [
        0x33, 0x33, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 0x77, 0x86, 0xdd, // Ethernet
        0x60, 0, 0, 0, 0, 32, 58, 255, // IPv6
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, 0xcd, 0xef, // source
        0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, // all nodes
        136, 0, 0x5b, 0x81, 0x20, 0, 0, 0, // an advertisement with override alone
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, 0xcd, 0xef, // target
        2, 1, 0x02, 0, 0, 0, 0, 0x77, // its link-layer address
    ];
    let said = Ndp::announcement(OURS, VIP);
    assert_eq!(said.frame(OURS, Mac::of_group(Ndp::ALL_NODES))[..], golden);
}

#[test]
fn an_answer_goes_to_who_asked_or_to_all_if_that_has_no_address() {
    let asked = Ndp::solicitation(CLIENT, ASKER, VIP);
    assert_eq!(asked.destination, "ff02::1:ffab:cdef".parse::<Ipv6Addr>().unwrap());
    assert_eq!(asked.destination, solicited_node(VIP));
    assert_eq!(Mac::of_group(asked.destination), Mac([0x33, 0x33, 0xff, 0xab, 0xcd, 0xef]));
    let solicited = NdpKind::Advertisement { router: false, solicited: true, overrides: true };
    let answer = Ndp::answer_to(&asked, OURS);
    let want =
        Ndp { source: VIP, destination: ASKER, target: VIP, kind: solicited, mac: Some(OURS) };
    assert_eq!(answer, want);
    assert_eq!(Ndp::answer_to(&Ndp::probe(VIP), OURS), Ndp::announcement(OURS, VIP));
}

/// Changes bytes of a frame and puts the checksum right again, as `etherparse` computes it.
fn changed(frame: &[u8], changes: &[(usize, u8)]) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    changes.iter().for_each(|&(at, value)| bytes[at] = value);
    let octets = |at: usize| <[u8; 16]>::try_from(&bytes[at..at + 16]).unwrap();
    let raw = etherparse::Icmpv6Type::Unknown {
        type_u8: bytes[ICMP],
        code_u8: bytes[ICMP + 1],
        bytes5to8: bytes[ICMP + 4..ICMP + 8].try_into().unwrap(),
    };
    let sum = raw.calc_checksum(octets(IP + 8), octets(IP + 24), &bytes[ICMP + 8..]).unwrap();
    bytes[ICMP + 2..ICMP + 4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[test]
fn what_no_neighbour_can_have_sent_is_refused() {
    let asked = Ndp::solicitation(CLIENT, ASKER, VIP).frame(CLIENT, CLIENT);
    let probe = Ndp::probe(VIP).frame(CLIENT, CLIENT);
    let told = Ndp::announcement(OURS, VIP).frame(OURS, OURS);
    let unasked = Ndp { mac: None, ..Ndp::announcement(OURS, VIP) }.frame(OURS, OURS);
    for frame in [asked, probe, told, unasked] {
        let changed = changed(&frame, &[]);
        assert_eq!(changed, frame[..], "the checksum is etherparse's");
        assert!(Ndp::parse_frame(&frame).is_some());
        for len in 0..frame.len() {
            assert_eq!(Ndp::parse_frame(&frame[..len]), None, "{len} bytes");
        }
        for at in IP + 8..frame.len() {
            let mut bad = frame.to_vec();
            bad[at] ^= 1;
            assert_eq!(Ndp::parse_frame(&bad), None, "its checksum is wrong: byte {at}");
        }
    }
    for (what, frame, changes) in [
        ("no IPv6 in the Ethernet header", asked, &[(13, 0xde)][..]),
        ("another version", asked, &[(IP, 0x40)]),
        ("an extension header", asked, &[(IP + 6, 0)]),
        ("a router passed it on", asked, &[(IP + 7, 254)]),
        ("a router solicitation", asked, &[(ICMP, 133)]),
        ("a redirect", asked, &[(ICMP, 137)]),
        ("a code", asked, &[(ICMP + 1, 1)]),
        ("a group as the target", asked, &[(ICMP + 8, 0xff)]),
        ("a group as the source", asked, &[(IP + 8, 0xff)]),
        ("an option without length", asked, &[(OPTION + 1, 0)]),
        ("an option longer than the packet", asked, &[(OPTION + 1, 2)]),
        ("a probe to no solicited node's group", probe, &[(IP + 24 + 12, 0)]),
        ("an answer to many", told, &[(ICMP + 4, 0x60)]),
        ("an advertisement with a code", told, &[(ICMP + 1, 1)]),
        ("a group advertised", told, &[(ICMP + 8, 0xff)]),
    ] {
        assert_eq!(Ndp::parse_frame(&changed(&frame, changes)), None, "{what}");
    }
}

/// A solicitation with these options.
fn with_options(source: Ipv6Addr, options: &[u8]) -> Option<Ndp> {
    let target = VIP.octets();
    let mut bytes = Vec::new();
    PacketBuilder::ethernet2(CLIENT.0, OURS.0)
        .ipv6(source.octets(), solicited_node(VIP).octets(), 255)
        .icmpv6_raw(135, 0, [0; 4])
        .write(&mut bytes, &[&target[..], options].concat())
        .unwrap();
    Ndp::parse_frame(&bytes).map(|(_, ndp)| ndp)
}

#[test]
fn of_options_the_first_of_its_kind_counts_and_unknown_ones_do_not() {
    let mac = |m: u8| [1, 1, 2, 0, 0, 0, 0, m];
    let nonce = [14, 1, 1, 2, 3, 4, 5, 6];
    let long = [[253, 2, 0, 0, 0, 0, 0, 0], [0; 8]].concat();
    let told = |options: &[u8]| with_options(ASKER, options).map(|ndp| ndp.mac);
    assert_eq!(told(&[]), Some(None));
    assert_eq!(told(&nonce), Some(None));
    assert_eq!(
        told(&[&nonce[..], &long, &mac(7), &mac(8)].concat()),
        Some(Some(Mac([2, 0, 0, 0, 0, 7])))
    );
    assert_eq!(told(&[2, 1, 2, 0, 0, 0, 0, 7]), Some(None), "the target's, in a solicitation");
    assert_eq!(told(&[[1, 2, 2, 0, 0, 0, 0, 7], [0; 8]].concat()), None, "longer than Ethernet's");
    assert_eq!(told(&[0; 8]), None, "of no length");
    assert_eq!(told(&mac(7)[..7]), None, "cut short");
    assert_eq!(told(&[&mac(7)[..], &[9]].concat()), None, "half an option");
    let any = Ipv6Addr::UNSPECIFIED;
    assert!(with_options(any, &nonce).is_some(), "RFC 7527's probe");
    assert_eq!(
        with_options(any, &mac(7)),
        None,
        "a source without address has no Ethernet address"
    );
}

prop_compose! {
    fn ndps()(
        source in any::<Ipv6Addr>(), destination in any::<Ipv6Addr>(), target in any::<Ipv6Addr>(),
        flags in proptest::option::of(any::<[bool; 3]>()), mac in any::<Option<[u8; 6]>>(),
        probe in any::<bool>(),
    ) -> Ndp {
        let one = |a: Ipv6Addr| if a.is_multicast() { Ipv6Addr::from(u128::from(a) >> 8) } else { a };
        let (source, target, mac) = (one(source), one(target), mac.map(Mac));
        match flags {
            None if probe => Ndp::probe(target),
            None => Ndp { source, destination, target, kind: NdpKind::Solicitation, mac },
            Some([router, asked, overrides]) => {
                let solicited = asked && !destination.is_multicast();
                let kind = NdpKind::Advertisement { router, solicited, overrides };
                Ndp { source, destination, target, kind, mac }
            }
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        ndp in ndps(), from in any::<[u8; 6]>(), to in any::<[u8; 6]>(), padding in 0usize..40,
    ) {
        let mut frame = ndp.frame(Mac(from), Mac(to)).to_vec();
        prop_assert!(frame.len() <= NdpFrame::LEN_MAX);
        frame.resize(frame.len() + padding, 0);
        let (ethernet, read) = Ndp::parse_frame(&frame).unwrap();
        prop_assert_eq!(read, ndp);
        prop_assert_eq!(
            ethernet,
            Ethernet { destination: Mac(to), source: Mac(from), ether_type: EtherType::IPV6 }
        );
    }

    #[test]
    fn etherparse_writes_the_same(ndp in ndps(), from in any::<[u8; 6]>(), to in any::<[u8; 6]>()) {
        let (kind, flags, option) = match ndp.kind {
            NdpKind::Solicitation => (135, 0, 1),
            NdpKind::Advertisement { router, solicited, overrides } => {
                let bits = u8::from(router) << 7 | u8::from(solicited) << 6 | u8::from(overrides) << 5;
                (136, bits, 2)
            }
        };
        let mut payload = ndp.target.octets().to_vec();
        payload.extend(ndp.mac.iter().flat_map(|m| [&[option, 1][..], &m.0].concat()));
        let mut theirs = Vec::new();
        PacketBuilder::ethernet2(from, to)
            .ipv6(ndp.source.octets(), ndp.destination.octets(), 255)
            .icmpv6_raw(kind, 0, [flags, 0, 0, 0])
            .write(&mut theirs, &payload)
            .unwrap();
        prop_assert_eq!(theirs, ndp.frame(Mac(from), Mac(to)).to_vec());
    }

    #[test]
    fn any_bytes_are_taken_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Ndp::parse_frame(&bytes);
        let _ = Ndp::parse(&bytes);
    }
}
