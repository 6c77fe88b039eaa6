//! Datagrams and frames for a speaker, one after the other.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use signpost_plan::LinkIndex;
use signpost_speaker::{
    Command, Config, Gate, Input, Instant, Link, Machine, Peer, Port, Speaker,
};

/// One input holds at most so many datagrams.
const DATAGRAMS_MAX: usize = 64;

/// One turn yields at most so many outputs: a machine that is never done would hang its thread.
const OUTPUTS_MAX: usize = 10_000;

/// Cuts the input into datagrams (two bytes of length and port, then the bytes) and lets 20 ms pass
/// after each. The key is left out: with it nothing but the check of the tag would be reached.
pub fn mesh(data: &[u8]) {
    let mut now = Instant(Duration::from_secs(1));
    let mut speaker = speaker(now);
    let mut rest = data;
    for _ in 0..DATAGRAMS_MAX {
        let Some(([size, kind], after)) = rest.split_first_chunk() else { break };
        let (bytes, after) = after.split_at(usize::from(*size).min(after.len()));
        rest = after;
        let (port, from) = if kind % 4 == 0 {
            (Port::Arp(LinkIndex(1)), Peer::Link)
        } else {
            (Port::Mesh, Peer::Unicast(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10 + (kind % 4)))))
        };
        speaker.handle(now, Input::Bytes { port, from, at: now, bytes });
        drain(&mut speaker);
        now = now + Duration::from_millis(20);
        if speaker.deadline().is_some_and(|deadline| deadline <= now) {
            speaker.handle(now, Input::Wake);
            drain(&mut speaker);
        }
    }
}

/// It serves one address on one interface and has two peers.
fn speaker(now: Instant) -> Speaker {
    let mut speaker = Speaker::new(Config::new("n1".into(), 1, None, 1));
    let link = Link {
        index: LinkIndex(1),
        mac: [2, 0, 0, 0, 0, 1],
        up: true,
        address: Some(Ipv4Addr::new(192, 0, 2, 11)),
        gateway: Some(Ipv4Addr::new(192, 0, 2, 1)),
    };
    let peer = |n: u8| IpAddr::V4(Ipv4Addr::new(192, 0, 2, n));
    let vip = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 100));
    for command in [
        Command::Links(vec![link]),
        Command::Peers(vec![("n2".into(), peer(12)), ("n3".into(), peer(13))]),
        Command::Lease(now + Duration::from_secs(3600)),
        Command::Gate(vip, Gate::Open { links: vec![LinkIndex(1)], weight: 100 }),
    ] {
        speaker.handle(now, Input::Command(command));
        drain(&mut speaker);
    }
    speaker
}

fn drain(speaker: &mut Speaker) {
    for _ in 0..OUTPUTS_MAX {
        if speaker.poll().is_none() {
            return;
        }
    }
    panic!("more than {OUTPUTS_MAX} outputs of one input");
}
