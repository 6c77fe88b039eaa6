//! Whatever comes from the wire: replays, other keys, strangers, garbage.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod segment;

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use proptest::prelude::*;
use segment::{CLIENT_MAC, CLIENT_V6, ETH0, Segment, VIP, VIP_V6, both, ms, node_address};
use signpost_packet::{Arp, Mac, Ndp, NdpKind};
use signpost_speaker::{
    Command, Config, Event, Input, Instant, Key, Machine, MemberState, Output, Peer, Port, Speaker,
};

fn key(text: &str) -> Option<Key> {
    Some(Key::parse(text.as_bytes()).expect("long enough"))
}

fn count(s: &Segment, node: usize, event: &Event) -> usize {
    s.nodes[node].events.iter().filter(|(_, e)| e == event).count()
}

#[test]
fn with_a_key_that_all_share_one_answers() {
    let mut s = Segment::new(VIP, 3, key("a key that all members share"));
    s.run(ms(1000));
    s.owner();
}

#[test]
fn what_a_dead_member_said_does_not_revive_it() {
    let mut s = Segment::new(VIP, 3, key("a key that all members share"));
    s.run(ms(2000));
    let owner = s.owner();
    let other = (owner + 1) % 3;
    // It goes on talking to nobody, and an attacker keeps that too.
    s.nodes[owner].cable = false;
    s.run(ms(3000));
    s.nodes[owner].runs = false;
    let second = s.owner();
    let said: Vec<_> = s.datagrams.iter().filter(|(i, _)| *i == owner).cloned().collect();
    assert!(said.len() > 100);
    let alive = Event::Member((&*segment::name(owner)).into(), MemberState::Alive);
    let before = count(&s, other, &alive);
    for (_, bytes) in said {
        s.datagram(other, node_address(owner), &bytes);
        s.wake(other);
        s.carry();
    }
    s.run(ms(1000));
    assert_eq!(count(&s, other, &alive), before);
    assert_eq!(s.owner(), second);
}

#[test]
fn another_key_is_reported_once_a_minute_and_changes_nothing() {
    for (theirs, ours) in [
        (key("a key of somebody else"), key("a key that all members share")),
        (None, key("a key that all members share")),
        (key("a key of somebody else"), None),
    ] {
        let mut stranger = Segment::new(VIP, 3, theirs);
        stranger.run(ms(1000));
        let mut s = Segment::new(VIP, 1, ours);
        s.run(ms(1000));
        let wrong = Event::WrongKey(node_address(2).into());
        for _ in 0..100 {
            for (_, bytes) in stranger.datagrams.iter().filter(|(i, _)| *i == 2).take(20) {
                s.datagram(0, node_address(2), bytes);
                s.wake(0);
            }
            s.run(ms(100));
        }
        assert_eq!(count(&s, 0, &wrong), 1);
        assert_eq!(s.owner(), 0);
        let members = s.nodes[0].events.iter().any(|(_, e)| matches!(e, Event::Member(..)));
        assert!(!members);
    }
}

#[test]
fn a_changed_datagram_is_refused() {
    let mut s = Segment::new(VIP, 2, key("a key that all members share"));
    s.run(ms(1000));
    let bytes = s.datagrams.iter().rev().find(|(i, _)| *i == 1).unwrap().1.clone();
    // Of strangers, no more are told apart than 64.
    for at in (6..bytes.len()).step_by(2) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        s.datagram(0, node_address(at), &changed);
        s.wake(0);
        s.carry();
        assert_eq!(count(&s, 0, &Event::WrongKey(node_address(at).into())), 1, "byte {at}");
    }
}

/// What a stranger says who has the address too.
fn claimed(vip: IpAddr) -> Vec<u8> {
    let everybody = Mac::of_group(Ndp::ALL_NODES);
    match vip {
        IpAddr::V4(vip) => Arp::announcement(CLIENT_MAC, vip).frame(Mac::BROADCAST).to_vec(),
        IpAddr::V6(vip) => Ndp::announcement(CLIENT_MAC, vip).frame(CLIENT_MAC, everybody).to_vec(),
    }
}

#[test]
fn a_stranger_with_our_address_is_reported_and_answered_once_each_ten_seconds() {
    both(|vip| {
        let mut s = Segment::settled(vip, 2);
        let owner = s.owner();
        s.run(Duration::from_secs(10));
        let before = s.frames.len();
        for _ in 0..50 {
            s.frame(None, &claimed(vip));
            s.carry();
            s.run(ms(100));
        }
        let conflict = Event::Conflict { address: vip, mac: CLIENT_MAC.0 };
        assert_eq!(count(&s, owner, &conflict), 1);
        assert_eq!(s.announced_since(before).len(), 1);
        assert_eq!(s.owner(), owner, "it is not given up");
    });
}

#[test]
fn a_new_ethernet_address_is_announced() {
    both(|vip| {
        let mut s = Segment::settled(vip, 1);
        s.run(Duration::from_secs(5));
        let before = s.frames.len();
        let link = signpost_speaker::Link { mac: [2, 9, 9, 9, 9, 9], ..s.link(0, true) };
        let mac = Some(Mac(link.mac));
        s.order(0, Command::Links(vec![link]));
        assert_eq!(s.announced_since(before).len(), 1);
        assert_eq!(s.frames.last().unwrap().2.mac(), mac);
        s.run(ms(4000));
        assert_eq!(s.announced_since(before).len(), 3, "at once, and twice again");
    });
}

#[test]
fn nothing_is_answered_on_a_link_without_carrier_or_by_one_s_own_question() {
    both(|vip| {
        let mut s = Segment::settled(vip, 1);
        let (own, everybody) = (segment::mac(0), Mac::of_group(Ndp::ALL_NODES));
        let before = s.frames.len();
        match vip {
            IpAddr::V4(vip) => {
                let asked = Arp::request(own, Some(node_address(0)), vip);
                s.frame(None, &asked.frame(Mac::BROADCAST));
            }
            IpAddr::V6(vip) => {
                let asked = Ndp::solicitation(own, CLIENT_V6, vip);
                s.frame(None, &asked.frame(own, everybody));
                // Its frame is ours, though it says nothing of that.
                s.frame(None, &Ndp { mac: None, ..asked }.frame(own, everybody));
            }
        }
        s.carry();
        assert_eq!(s.frames.len(), before);
        let down = s.link(0, false);
        s.order(0, Command::Links(vec![down]));
        assert_eq!(s.ask(), []);
    });
}

/// What one node says to a solicitation, and to which Ethernet address.
fn answers(solicitation: Ndp, frame_from: Mac) -> Vec<(Ndp, Mac)> {
    let mut s = Segment::settled(VIP_V6, 1);
    let frame = solicitation.frame(frame_from, segment::mac(0));
    let now = s.now;
    let heard = Input::Bytes { port: Port::Ndp(ETH0), from: Peer::Link, at: now, bytes: &frame };
    s.nodes[0].speaker.handle(now, heard);
    std::iter::from_fn(|| s.nodes[0].speaker.poll())
        .map(|output| match output {
            Output::Send { port: Port::Ndp(ETH0), bytes, .. } => {
                let (ethernet, ndp) = Ndp::parse_frame(&bytes).unwrap();
                (ndp, ethernet.destination)
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

/// RFC 4861, 7.2.4, and RFC 4862, 5.4.3.
#[test]
fn a_solicitation_is_answered_to_who_asked_and_a_probe_to_all() {
    let IpAddr::V6(vip) = VIP_V6 else { unreachable!() };
    let all = Ndp::announcement(segment::mac(0), vip);
    let kind = NdpKind::Advertisement { router: false, solicited: true, overrides: true };
    let to_client = Ndp { destination: CLIENT_V6, kind, ..all };
    let everybody = Mac::of_group(Ndp::ALL_NODES);
    let proxy = Mac([2, 0xcc, 0, 0, 0, 9]);
    let asked = Ndp::solicitation(CLIENT_MAC, CLIENT_V6, vip);
    let unicast = Ndp { destination: vip, mac: None, ..asked };
    let group = Mac([0x33, 0x33, 0, 0, 0, 1]);
    let other = Ipv6Addr::from(u128::from(vip) ^ (1 << 64));
    for (what, solicitation, from, answer) in [
        ("by the group", asked, CLIENT_MAC, Some((to_client, CLIENT_MAC))),
        ("by another's frame", asked, proxy, Some((to_client, CLIENT_MAC))),
        ("to us alone, without an option", unicast, CLIENT_MAC, Some((to_client, CLIENT_MAC))),
        ("a probe", Ndp::probe(vip), CLIENT_MAC, Some((all, everybody))),
        ("for the group's other address", Ndp::probe(other), CLIENT_MAC, None),
        ("from many", Ndp { mac: Some(group), ..asked }, CLIENT_MAC, None),
        ("by many", asked, group, None),
        ("by us", asked, segment::mac(0), None),
    ] {
        assert_eq!(answers(solicitation, from), Vec::from_iter(answer), "{what}");
    }
}

fn fed(inputs: &[(Port, Vec<u8>)]) -> Speaker {
    let mut speaker = Speaker::new(Config::new("n0".into(), 1, None, 1));
    let now = |i: usize| Instant(Duration::from_millis(i as u64 * 7));
    for (i, (port, bytes)) in inputs.iter().enumerate() {
        let from = Peer::Unicast(node_address(1).into());
        speaker.handle(now(i), Input::Bytes { port: *port, from, at: now(i), bytes });
        speaker.handle(now(i), Input::Wake);
        while let Some(output) = speaker.poll() {
            if let Output::Send { bytes, .. } = output {
                assert!(bytes.len() <= 1200);
                speaker.recycle(bytes);
            }
        }
    }
    speaker
}

fn ports() -> impl Strategy<Value = Port> {
    (0usize..3).prop_map(|n| [Port::Mesh, Port::Arp(ETH0), Port::Ndp(ETH0)][n])
}

proptest! {
    #[test]
    fn any_bytes_are_taken_without_panic(
        inputs in proptest::collection::vec(
            (ports(), proptest::collection::vec(any::<u8>(), 0..200)), 0..20),
    ) {
        fed(&inputs);
    }

    /// Beyond the first checks: the right magic, any kind, any body.
    #[test]
    fn any_body_is_taken_without_panic(
        bodies in proptest::collection::vec(
            (0u8..10, any::<u8>(), any::<u64>(), proptest::collection::vec(any::<u8>(), 0..120)),
            0..30),
    ) {
        let datagram = |(kind, flags, boot, body): &(u8, u8, u64, Vec<u8>)| {
            let mut d = b"SGN\x01".to_vec();
            d.extend_from_slice(&[*kind, flags & !1, 2]);
            d.extend_from_slice(b"n1");
            d.extend_from_slice(&(boot % 3).to_be_bytes());
            d.extend_from_slice(&boot.to_be_bytes());
            d.extend_from_slice(body);
            (Port::Mesh, d)
        };
        fed(&bodies.iter().map(datagram).collect::<Vec<_>>());
    }
}
