//! Golden bytes, round trips, and another implementation as oracle.

use std::net::Ipv4Addr;

use etherparse::{ArpHardwareId, ArpOperation, ArpPacket, EtherType as Theirs, PacketBuilder};
use proptest::prelude::*;
use signpost_packet::{Arp, EtherType, Ethernet, FRAME_LEN, Mac, Operation};

const OURS: Mac = Mac([0x02, 0, 0, 0, 0, 0x77]);
const CLIENT: Mac = Mac([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
const VIP: Ipv4Addr = Ipv4Addr::new(10, 34, 251, 210);

#[test]
fn an_announcement_is_a_broadcast_request_whose_sender_is_its_target() {
    let golden = [
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0, 0, 0, 0, 0x77, 0x08, 0x06, // Ethernet
        0, 1, 0x08, 0, 6, 4, 0, 1, // a request for IPv4 over Ethernet
        0x02, 0, 0, 0, 0, 0x77, 10, 34, 251, 210, // sender
        0, 0, 0, 0, 0, 0, 10, 34, 251, 210, // target
    ];
    assert_eq!(Arp::announcement(OURS, VIP).frame(Mac::BROADCAST), golden);
}

#[test]
fn a_reply_goes_back_to_who_asked() {
    let asked = Arp::request(CLIENT, Some(Ipv4Addr::new(10, 34, 240, 100)), VIP);
    let golden = [
        0x52, 0x54, 0, 0x12, 0x34, 0x56, 0x02, 0, 0, 0, 0, 0x77, 0x08, 0x06, // Ethernet
        0, 1, 0x08, 0, 6, 4, 0, 2, // a reply
        0x02, 0, 0, 0, 0, 0x77, 10, 34, 251, 210, // sender
        0x52, 0x54, 0, 0x12, 0x34, 0x56, 10, 34, 240, 100, // target
    ];
    assert_eq!(Arp::reply_to(&asked, OURS).frame(asked.sender_mac), golden);
}

#[test]
fn what_is_no_ipv4_over_ethernet_or_too_short_is_refused() {
    let good = Arp::announcement(OURS, VIP).frame(Mac::BROADCAST);
    assert!(Arp::parse_frame(&good).is_some());
    for len in 0..FRAME_LEN {
        assert_eq!(Arp::parse_frame(&good[..len]), None, "{len} bytes");
    }
    // EtherType (both bytes), hardware, protocol, lengths, operation.
    for (at, value) in
        [(12, 0x86), (13, 0), (15, 6), (16, 0x86), (18, 8), (19, 16), (21, 3), (20, 1)]
    {
        let mut bad = good;
        bad[at] = value;
        assert_eq!(Arp::parse_frame(&bad), None, "byte {at}");
    }
}

#[test]
fn only_one_interface_s_address_is_unicast() {
    assert!(OURS.is_unicast());
    assert!(!Mac::BROADCAST.is_unicast());
    assert!(!Mac::ZERO.is_unicast());
    assert!(!Mac([1, 0, 0x5e, 0, 0, 18]).is_unicast());
}

prop_compose! {
    fn arps()(
        request in any::<bool>(),
        sender_mac in any::<[u8; 6]>(), sender in any::<Ipv4Addr>(),
        target_mac in any::<[u8; 6]>(), target in any::<Ipv4Addr>(),
    ) -> Arp {
        Arp {
            operation: if request { Operation::Request } else { Operation::Reply },
            sender_mac: Mac(sender_mac), sender, target_mac: Mac(target_mac), target,
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(arp in arps(), to in any::<[u8; 6]>(), padding in 0usize..40) {
        let mut frame = arp.frame(Mac(to)).to_vec();
        frame.resize(FRAME_LEN + padding, 0);
        let (ethernet, read) = Arp::parse_frame(&frame).unwrap();
        prop_assert_eq!(read, arp);
        prop_assert_eq!(
            ethernet,
            Ethernet { destination: Mac(to), source: arp.sender_mac, ether_type: EtherType::ARP }
        );
    }

    #[test]
    fn etherparse_writes_the_same(arp in arps(), to in any::<[u8; 6]>()) {
        let operation = match arp.operation {
            Operation::Request => ArpOperation::REQUEST,
            Operation::Reply => ArpOperation::REPLY,
        };
        let packet = ArpPacket::new(
            ArpHardwareId::ETHERNET, Theirs::IPV4, operation,
            &arp.sender_mac.0, &arp.sender.octets(), &arp.target_mac.0, &arp.target.octets(),
        ).unwrap();
        let mut theirs = Vec::new();
        PacketBuilder::ethernet2(arp.sender_mac.0, to).arp(packet).write(&mut theirs).unwrap();
        prop_assert_eq!(theirs, arp.frame(Mac(to)).to_vec());
    }

    #[test]
    fn any_bytes_are_taken_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = Arp::parse_frame(&bytes);
    }
}
