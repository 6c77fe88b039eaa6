//! A packet that finds an index missing: it read one of the maps before a change and the other after.

use std::io::ErrorKind;

use signpost_forward::{Forward, Options, Protection, TableOwner};

use crate::bed::{A, B, Bed, CLIENT};
use crate::probe::{all, answer, asked, tcp, udp};
use crate::tables::{cluster, here};

const OPEN: Options = Options { table_owner: TableOwner::Off, protection: Protection::Full };
const VIP: &str = "203.0.113.1:80";
const OTHER: &str = "203.0.113.2:80";

fn served() -> (Bed, Forward) {
    let bed = Bed::new();
    let mut forward = bed.inside("node", || Forward::open(OPEN).unwrap());
    let tables = [("one", "203.0.113.1"), ("two", "203.0.113.2")];
    let tables = tables.map(|(name, vip)| cluster(name, vip, &[here(A), here(B)])).into();
    assert!(forward.sync(tables, &Bed::scope()).is_complete);
    (bed, forward)
}

fn take_away(bed: &Bed, protocol: &str, index: u32) {
    let key = format!("203.0.113.1 . {protocol} . 80 . {index}");
    bed.run("node", &format!("nft 'delete element ip signpost ep {{ {key} }}'"));
}

#[test]
fn a_missing_index_leads_to_the_first_endpoint() {
    let (bed, _forward) = served();
    for protocol in ["tcp", "udp"] {
        take_away(&bed, protocol, 1);
    }
    bed.inside("client", || {
        assert_eq!(all(|| tcp(VIP)), [format!("a {CLIENT}")]);
        assert_eq!(all(|| udp(VIP)), [format!("a {CLIENT}")]);
    });
}

#[test]
fn without_any_endpoint_the_packet_is_lost_and_the_connection_is_not() {
    let (bed, mut forward) = served();
    for index in [0, 1] {
        take_away(&bed, "udp", index);
    }
    let socket = bed.inside("client", || {
        let socket = asked(VIP).unwrap();
        // The same way, later: what had an answer would have it by now.
        udp(OTHER).unwrap();
        socket.set_nonblocking(true).unwrap();
        assert_eq!(answer(&socket), Err(ErrorKind::WouldBlock));
        socket
    });
    assert!(forward.read_and_diff().is_complete);
    socket.set_nonblocking(false).unwrap();
    socket.send(b"who").unwrap();
    assert!(answer(&socket).unwrap().ends_with(CLIENT), "pinned to nowhere");
}
