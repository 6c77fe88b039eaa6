//! Connections to the agent's socket that ask for nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::json;

use crate::bed::{Bed, SOON};

/// So many are kept at once.
const FULL: usize = 64;

fn connect(bed: &Bed) -> UnixStream {
    let stream = UnixStream::connect(bed.socket("node-a")).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

fn ask(stream: &mut UnixStream) {
    stream.write_all(b"{\"request\":\"status\"}\n").unwrap();
}

fn fault(bed: &Bed, fault: &str) {
    bed.ask("node-a", &json!({"request": "fault", "fault": fault})).unwrap();
}

fn is_answered(stream: UnixStream) -> bool {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.contains("\"node\":\"node-a\"")
}

#[test]
fn idle_connections_keep_nobody_out() {
    let bed = Bed::new();
    let _agent = bed.owner("node-a", &[]);
    let mut idle: Vec<_> = (0..FULL).map(|_| connect(&bed)).collect();
    let socket = bed.socket("node-a").display().to_string();
    let said = bed.signpost("node-a", &["status", "--socket", &socket]);
    assert!(said.0.status.success() && said.out().contains("192.0.2.100"), "{}", said.err());
    // The oldest made room; the others keep their place, and may ask whenever they like.
    assert_eq!(idle.remove(0).read(&mut [0]).unwrap(), 0);
    for mut stream in idle {
        ask(&mut stream);
        assert!(is_answered(stream));
    }
}

#[test]
fn who_has_asked_is_answered_however_many_come_after() {
    let bed = Bed::new();
    let _agent = bed.owner("node-a", &["--lab-faults"]);
    fault(&bed, "hang-control");
    let mut first = connect(&bed);
    ask(&mut first);
    let _idle: Vec<_> = (0..2 * FULL).map(|_| connect(&bed)).collect();
    fault(&bed, "release-control");
    assert!(is_answered(first));
}
