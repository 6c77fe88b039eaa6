//! What each sender gets: rows of the expected matrix for LoadBalancer Services.

use std::io::ErrorKind;

use signpost_forward::{Forward, Options};
use signpost_plan::Table;

use crate::bed::{A, B, Bed, CLIENT, NODE, R};
use crate::probe::{all, answer, asked, tcp, udp};
use crate::tables::{cluster, here, local, there};

const MIXED: &str = "203.0.113.1:80";
const LOCAL: &str = "203.0.113.2:80";
const ELSEWHERE: &str = "203.0.113.3:80";
const NOBODY: &str = "203.0.113.4:80";
const SELF: &str = "203.0.113.5:80";
const REMOTE: &str = "203.0.113.6:80";

fn everything() -> Vec<Table> {
    vec![
        cluster("mixed", "203.0.113.1", &[here(A), here(B), there(R)]),
        local("local", "203.0.113.2", &[here(A), there(R)]),
        local("elsewhere", "203.0.113.3", &[there(R)]),
        cluster("nobody", "203.0.113.4", &[]),
        cluster("self", "203.0.113.5", &[here(A)]),
        cluster("remote", "203.0.113.6", &[there(R)]),
    ]
}

fn served() -> (Bed, Forward) {
    let bed = Bed::new();
    let mut forward = bed.inside("node", || Forward::open(Options::default()).unwrap());
    let outcome = forward.sync(everything(), &Bed::scope());
    assert!(outcome.trouble.is_none(), "{outcome:?}");
    assert_eq!(outcome.acknowledged.len(), everything().len(), "{outcome:?}");
    (bed, forward)
}

/// By TCP and by UDP alike.
fn check(bed: &Bed, machine: &str, to: &str, want: &[&str]) {
    bed.inside(machine, || {
        assert_eq!(all(|| tcp(to)), want, "tcp from {machine} to {to}");
        assert_eq!(all(|| udp(to)), want, "udp from {machine} to {to}");
    });
}

#[test]
fn cluster_keeps_an_outsider_where_the_endpoint_is_here() {
    let (bed, _forward) = served();
    check(&bed, "client", MIXED, &["a 192.0.2.200", "b 192.0.2.200", "r 192.0.2.11"]);
    check(&bed, "client", REMOTE, &["r 192.0.2.11"]);
}

#[test]
fn local_keeps_an_outsider_and_leads_it_nowhere_else() {
    let (bed, _forward) = served();
    check(&bed, "client", LOCAL, &["a 192.0.2.200"]);
}

#[test]
fn a_process_of_the_node_reaches_all_endpoints_as_the_node() {
    let (bed, _forward) = served();
    check(&bed, "node", MIXED, &["a 192.0.2.11", "b 192.0.2.11", "r 192.0.2.11"]);
    check(&bed, "node", LOCAL, &["a 192.0.2.11", "r 192.0.2.11"]);
    check(&bed, "node", ELSEWHERE, &["r 192.0.2.11"]);
}

#[test]
fn a_pod_of_the_node_keeps_its_address() {
    let (bed, _forward) = served();
    check(&bed, "b", LOCAL, &["a 198.19.1.6", "r 198.19.1.6"]);
    check(&bed, "b", ELSEWHERE, &["r 198.19.1.6"]);
    check(&bed, "b", SELF, &["a 198.19.1.6"]);
}

#[test]
fn an_endpoint_that_picks_itself_sees_the_node() {
    let (bed, _forward) = served();
    check(&bed, "a", SELF, &["a 198.19.1.1"]);
    check(&bed, "a", LOCAL, &["a 198.19.1.1", "r 198.19.1.5"]);
}

#[test]
fn local_without_an_endpoint_here_is_silent_to_outsiders() {
    let (bed, _forward) = served();
    bed.inside("client", || {
        let silent = asked(ELSEWHERE).unwrap();
        let stream = pending(ELSEWHERE);
        // The same way, later: what had an answer would have it by now.
        assert_eq!(udp(MIXED).map(|_| ()), Ok(()));
        assert_eq!(tcp(MIXED).map(|_| ()), Ok(()));
        silent.set_nonblocking(true).unwrap();
        assert_eq!(answer(&silent), Err(ErrorKind::WouldBlock));
        assert!(stream.take_error().unwrap().is_none());
        assert!(stream.peer_addr().is_err());
    });
}

#[test]
fn nobody_serves_or_no_such_port_is_refused() {
    let (bed, _forward) = served();
    for machine in ["client", "node", "a"] {
        bed.inside(machine, || {
            for to in [NOBODY, "203.0.113.1:81", "203.0.113.2:81"] {
                let unreachable = unreachable();
                for _ in 0..12 {
                    assert_eq!(tcp(to), Err(ErrorKind::ConnectionRefused), "{machine} to {to}");
                }
                assert_eq!(self::unreachable(), unreachable, "a reset and no ICMP for TCP");
                match udp(to) {
                    Err(ErrorKind::ConnectionRefused) => {}
                    // A reject in OUTPUT fails the call.
                    Err(ErrorKind::PermissionDenied) if machine == "node" => {}
                    other => panic!("udp from {machine} to {to}: {other:?}"),
                }
                assert!(self::unreachable() > unreachable, "{machine} to {to}");
            }
        });
    }
}

#[test]
fn ping_is_answered() {
    let (bed, _forward) = served();
    for machine in ["client", "node", "a"] {
        bed.run(machine, "ping -n -c 1 -W 5 203.0.113.2");
        bed.run(machine, "ping -n -c 1 -W 5 203.0.113.4");
    }
}

#[test]
fn what_others_translate_is_left_alone() {
    let (bed, mut forward) = served();
    let ruleset = "table ip other { chain p { type nat hook prerouting priority dstnat; \
                   tcp dport 8888 dnat to 198.19.1.5:8080; }; }";
    bed.run("node", &format!("nft '{ruleset}'"));
    let theirs = || bed.inside("client", || tcp(&format!("{NODE}:8888")));
    assert_eq!(theirs(), Ok(format!("a {CLIENT}")));
    // The same pod when it serves nothing of ours.
    forward.sync(vec![cluster("remote", "203.0.113.6", &[there(R)])], &Bed::scope());
    assert_eq!(theirs(), Ok(format!("a {CLIENT}")));
}

/// A connection that was asked for and has no answer yet.
fn pending(to: &str) -> socket2::Socket {
    let kind = socket2::Type::STREAM.nonblocking();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
    let to: std::net::SocketAddr = to.parse().unwrap();
    assert!(socket.connect(&to.into()).is_err());
    socket
}

/// How many ICMP destination unreachable this namespace has received.
fn unreachable() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("Icmp:")).collect();
    let at = lines[0].split(' ').position(|name| name == "InDestUnreachs").unwrap();
    lines[1].split(' ').nth(at).unwrap().parse().unwrap()
}
