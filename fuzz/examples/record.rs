//! Writes the seeds of `mesh` anew: what one member of three hears of another, from its start to its
//! leave. Run it in `fuzz/` after the datagrams' format changed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use signpost_fuzz::mesh::member;
use signpost_speaker::{Command, Input, Instant, Machine, Output, Peer, Port, Speaker};

/// Where the kind stands in a datagram, after the magic and the version.
const KIND: usize = 4;

fn main() -> std::io::Result<()> {
    let mut now = Instant(Duration::from_secs(1));
    let mut members = [member(1, now), member(2, now)];
    let mut heard: Vec<Vec<u8>> = Vec::new();
    for step in 0..600 {
        now = now + Duration::from_millis(5);
        if step == 500 {
            members[1].handle(now, Input::Command(Command::Leave(Some(Duration::from_secs(3)))));
        }
        let sent = members.each_mut().map(|member| sent(member, now));
        let [first, second] = &mut members;
        for bytes in &sent[0] {
            hear(second, now, 11, bytes);
        }
        for bytes in &sent[1] {
            hear(first, now, 12, bytes);
            heard.push(bytes.clone());
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds/mesh");
    let mut kinds = BTreeMap::new();
    for bytes in &heard {
        kinds.entry(bytes[KIND]).or_insert(bytes);
    }
    for (kind, bytes) in &kinds {
        std::fs::write(folder.join(format!("kind-{kind}")), framed(bytes))?;
    }
    let talk: Vec<u8> = heard.iter().take(48).flat_map(|bytes| framed(bytes)).collect();
    std::fs::write(folder.join("talk"), talk)
}

/// What a member sends on the mesh until it waits.
fn sent(member: &mut Speaker, now: Instant) -> Vec<Vec<u8>> {
    if member.deadline().is_some_and(|deadline| deadline <= now) {
        member.handle(now, Input::Wake);
    }
    let mut all = Vec::new();
    while let Some(output) = member.poll() {
        if let Output::Send { port: Port::Mesh, bytes, .. } = output {
            all.push(bytes);
        }
    }
    all
}

fn hear(member: &mut Speaker, now: Instant, from: u8, bytes: &[u8]) {
    let from = Peer::Unicast([192, 0, 2, from].into());
    member.handle(now, Input::Bytes { port: Port::Mesh, from, at: now, bytes });
}

/// As `signpost_fuzz::mesh` reads it: the length, the sender (2 is n2), the bytes.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("a datagram is at most 1,200 bytes");
    [&length.to_be_bytes(), &[2][..], bytes].concat()
}
