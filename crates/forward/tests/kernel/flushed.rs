//! One object of our table flushed by somebody else: where it leads an outsider who asks a Service
//! under `externalTrafficPolicy: Local`, until it is mended.

use signpost_forward::{Forward, Options, Protection, TableOwner};

use crate::bed::{A, Bed, R};
use crate::probe::{all, tcp};
use crate::tables::{here, local, there};

const OPEN: Options = Options { table_owner: TableOwner::Off, protection: Protection::Full };
const VIP: &str = "203.0.113.2:80";

/// Flushes each, says what the client gets, and mends it.
fn check(objects: &[&str], want: &[&str]) {
    let bed = Bed::new();
    let mut forward = bed.inside("node", || Forward::open(OPEN).unwrap());
    let tables = vec![local("two", "203.0.113.2", &[here(A), there(R)])];
    assert!(forward.sync(tables, &Bed::scope()).is_complete);
    let client = || bed.inside("client", || all(|| tcp(VIP)));
    for object in objects {
        let (kind, name) = object.split_once(' ').unwrap();
        bed.run("node", &format!("nft flush {kind} ip signpost {name}"));
        assert_eq!(client(), want, "without what is in {object}");
        assert!(forward.read_and_diff().is_complete);
        assert_eq!(client(), ["a 192.0.2.200"], "{object} is mended");
    }
}

#[test]
fn most_objects_lead_to_the_same_endpoint_or_to_none() {
    check(
        &[
            "map svc",
            "map ep",
            "set vips",
            "set hairpin",
            "set pods",
            "chain internal",
            "chain output",
            "chain postrouting",
            "chain refuse_forward",
            "chain refuse_output",
            "chain refuse_input",
            "chain own",
            "chain elsewhere",
            "chain nodes",
            "map svc_o",
            "map learn",
            "set allowed",
            "set closed",
            "set node_ports",
            "chain c2",
        ],
        &["a 192.0.2.200"],
    );
    // `ep_l` is the guards' concern: silence.
    check(&["chain external", "chain prerouting", "chain l1"], &["ConnectionRefused"]);
}

// What the documentation warns of where others may edit the table.
#[test]
fn these_sets_mislead_an_outsider() {
    check(&["set uplinks", "map svc_x"], &["a 192.0.2.200", "r 192.0.2.11"]);
    check(&["set local_pods"], &["a 198.19.1.1"]);
}
