//! Whatever comes from the wire: replays, other keys, strangers, garbage.

mod segment;

use std::time::Duration;

use proptest::prelude::*;
use segment::{CLIENT_MAC, ETH0, Segment, VIP, ms, node_address};
use signpost_packet::{Arp, Mac};
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
    let mut s = Segment::new(3, key("a key that all members share"));
    s.run(ms(1000));
    s.owner();
}

#[test]
fn what_a_dead_member_said_does_not_revive_it() {
    let mut s = Segment::new(3, key("a key that all members share"));
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
        let mut stranger = Segment::new(3, theirs);
        stranger.run(ms(1000));
        let mut s = Segment::new(1, ours);
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
    let mut s = Segment::new(2, key("a key that all members share"));
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

#[test]
fn a_stranger_with_our_address_is_reported_and_answered_once_each_ten_seconds() {
    let mut s = Segment::settled(2);
    let owner = s.owner();
    s.run(Duration::from_secs(10));
    let before = s.frames.len();
    for _ in 0..50 {
        s.frame(None, &Arp::announcement(CLIENT_MAC, VIP).frame(Mac::BROADCAST));
        s.carry();
        s.run(ms(100));
    }
    let conflict = Event::Conflict { address: VIP.into(), mac: CLIENT_MAC.0 };
    assert_eq!(count(&s, owner, &conflict), 1);
    assert_eq!(s.announced_since(before).len(), 1);
    assert_eq!(s.owner(), owner, "it is not given up");
}

#[test]
fn a_new_ethernet_address_is_announced() {
    let mut s = Segment::settled(1);
    s.run(Duration::from_secs(5));
    let before = s.frames.len();
    let link = signpost_speaker::Link { mac: [2, 9, 9, 9, 9, 9], ..s.link(0, true) };
    s.order(0, Command::Links(vec![link]));
    assert_eq!(s.frames[before..].iter().filter(|f| f.2.sender_mac == Mac(link_mac())).count(), 1);
    s.run(ms(4000));
    assert_eq!(s.announced_since(before).len(), 3, "at once, and twice again");
}

fn link_mac() -> [u8; 6] {
    [2, 9, 9, 9, 9, 9]
}

#[test]
fn nothing_is_answered_on_a_link_without_carrier_or_by_one_s_own_question() {
    let mut s = Segment::settled(1);
    let own = Arp::request(segment::mac(0), Some(node_address(0)), VIP).frame(Mac::BROADCAST);
    let before = s.frames.len();
    s.frame(None, &own);
    s.carry();
    assert_eq!(s.frames.len(), before);
    let down = s.link(0, false);
    s.order(0, Command::Links(vec![down]));
    assert_eq!(s.ask(), []);
}

fn fed(inputs: &[(bool, Vec<u8>)]) -> Speaker {
    let mut speaker = Speaker::new(Config::new("n0".into(), 1, None, 1));
    let now = |i: usize| Instant(Duration::from_millis(i as u64 * 7));
    for (i, (mesh, bytes)) in inputs.iter().enumerate() {
        let port = if *mesh { Port::Mesh } else { Port::Arp(ETH0) };
        let from = Peer::Unicast(node_address(1).into());
        speaker.handle(now(i), Input::Bytes { port, from, at: now(i), bytes });
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

proptest! {
    #[test]
    fn any_bytes_are_taken_without_panic(
        inputs in proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec(any::<u8>(), 0..200)), 0..20),
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
            (true, d)
        };
        fed(&bodies.iter().map(datagram).collect::<Vec<_>>());
    }
}
