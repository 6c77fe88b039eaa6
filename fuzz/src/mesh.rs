//! Datagrams and frames for a speaker, one after the other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use signpost_plan::LinkIndex;
use signpost_speaker::{
    Command, Config, Gate, Input, Instant, Link, Machine, Output, Peer, Port, Speaker,
};

/// One input holds at most so many datagrams.
const DATAGRAMS_MAX: usize = 64;

/// One turn yields at most so many outputs: a machine that is never done would hang its thread.
const OUTPUTS_MAX: usize = 10_000;

/// Cuts the input into datagrams (two bytes of length, one of the kind, then the bytes) and lets
/// 20 ms pass after each. The key is left out: with it nothing but the check of the tag would be reached.
///
/// Returns how many events came of it.
pub fn heard(data: &[u8]) -> usize {
    let mut events = 0;
    let mut now = Instant(Duration::from_secs(1));
    let mut speaker = member(1, now);
    let mut rest = data;
    for _ in 0..DATAGRAMS_MAX {
        let Some((&[high, low, kind], after)) = rest.split_first_chunk::<3>() else { break };
        let (bytes, after) =
            after.split_at(usize::from(u16::from_be_bytes([high, low])).min(after.len()));
        rest = after;
        let (port, from) = match kind % 8 {
            0 => (Port::Arp(LinkIndex(1)), Peer::Link),
            4 => (Port::Ndp(LinkIndex(1)), Peer::Link),
            n => (Port::Mesh, Peer::Unicast(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10 + n % 4)))),
        };
        speaker.handle(now, Input::Bytes { port, from, at: now, bytes });
        events += drain(&mut speaker);
        now = now + Duration::from_millis(20);
        if speaker.deadline().is_some_and(|deadline| deadline <= now) {
            speaker.handle(now, Input::Wake);
            events += drain(&mut speaker);
        }
    }
    events
}

/// [`heard`], for a fuzzer.
pub fn mesh(data: &[u8]) {
    heard(data);
}

/// The member `nN` of three, that may serve an address of each family on its one interface.
pub fn member(n: u8, now: Instant) -> Speaker {
    let name = |n: u8| format!("n{n}").as_str().into();
    let at = |n: u8| Ipv4Addr::new(192, 0, 2, 10 + n);
    let mut speaker = Speaker::new(Config::new(name(n), u64::from(n), None, u64::from(n)));
    let link = Link {
        index: LinkIndex(1),
        mac: [2, 0, 0, 0, 0, n],
        up: true,
        address: Some(at(n)),
        address_v6: Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n.into())),
        gateway: Some(Ipv4Addr::new(192, 0, 2, 1)),
    };
    let others = (1..=3).filter(|other| *other != n);
    let vip = Ipv4Addr::new(192, 0, 2, 100);
    let vip_v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x64, 1);
    let open = || Gate::Open { links: vec![LinkIndex(1)], weight: 100 };
    for command in [
        Command::Links(vec![link]),
        Command::Peers(others.map(|other| (name(other), at(other).into())).collect()),
        Command::Lease(now + Duration::from_secs(3600)),
        Command::Gate(vip.into(), open()),
        Command::Gate(vip_v6.into(), open()),
    ] {
        speaker.handle(now, Input::Command(command));
        drain(&mut speaker);
    }
    speaker
}

/// Takes what it wants to say, and counts the events.
fn drain(speaker: &mut Speaker) -> usize {
    let mut events = 0;
    for _ in 0..OUTPUTS_MAX {
        match speaker.poll() {
            None => return events,
            Some(Output::Event(_)) => events += 1,
            Some(Output::Send { .. }) => {}
        }
    }
    panic!("more than {OUTPUTS_MAX} outputs of one input");
}
