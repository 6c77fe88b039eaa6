//! What the status says of members that cannot be heard, and of interfaces that go.

use signpost_lab::manifest::{Policy, Service, State};

use crate::bed::{Bed, VIP, address, key, member};

#[test]
fn another_key_is_told_with_its_sender() {
    let bed = Bed::new();
    let wrong = key(&bed.directory().join("wrong.key"), "0123456789abcdef0123456789", 0o600);
    let _right = bed.owner("node-a", &[]);
    let mut args = bed.arguments("node-b");
    *args.last_mut().unwrap() = wrong;
    let place = bed.socket("node-b");
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    let mut command = std::process::Command::new(crate::bed::program());
    command.args(&args).stderr(std::process::Stdio::null());
    let mut child = bed.namespace("node-b").unwrap().run(|| command.spawn()).unwrap().unwrap();
    let sender = bed.node("node-b").unwrap().address.to_string();
    let told = |s: &serde_json::Value| {
        let notices = s["notices"].to_string();
        notices.contains(&sender)
            && notices.contains("another key")
            && notices.contains("--mesh-key")
    };
    bed.until("node-a", "the key is told", told);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_blocked_port_is_named() {
    let bed = Bed::new();
    let drop = "table inet firewall { chain in { type filter hook input priority 0
        udp dport 7948 drop; }; }";
    bed.namespace("node-a").unwrap().command("nft", &["-f", "-"], drop).unwrap();
    let _a = bed.agent("node-a", &[]);
    let _b = bed.agent("node-b", &[]);
    let hears = |node: &str, other: &str, state: &str| {
        let status = bed.until(node, state, |s| member(s, other)["state"] == state);
        member(&status, other)["detail"].to_string()
    };
    let _c = bed.agent("node-c", &[]);
    hears("node-b", "node-c", "alive");
    // Neither believes the other: datagrams that do not answer could be replayed ones.
    for (node, other) in [("node-a", "node-b"), ("node-b", "node-a")] {
        let note = hears(node, other, "never-heard");
        for words in [&format!("no datagram from {other}"), "udp/7948 open here and there?"] {
            assert!(note.contains(words), "{note}");
        }
    }
    let open = "delete table inet firewall";
    bed.namespace("node-a").unwrap().command("nft", &["-f", "-"], open).unwrap();
    hears("node-b", "node-a", "alive");
}

#[test]
fn an_interface_that_goes_and_comes_back() {
    let bed = Bed::new();
    let _agent = bed.owner("node-a", &[]);
    let node = bed.namespace("node-a").unwrap();
    node.ip("link set eth0 name gone0\n")
        .or_else(|_| node.ip("link set eth0 down\nlink set eth0 name gone0\n"))
        .unwrap();
    node.ip("link set gone0 down\n").unwrap();
    let status = bed
        .until("node-a", "the address is withheld", |s| address(s, VIP)["verdict"] == "withhold");
    let why = address(&status, VIP)["detail"].to_string();
    assert!(why.contains("gone0"), "{why}");
    node.ip("link set gone0 name eth0\nlink set eth0 up\n").unwrap();
    bed.until("node-a", "it is served again", |s| address(s, VIP)["verdict"] == "own");
}

#[test]
fn a_drained_node_keeps_what_no_other_can_serve() {
    const ONLY: &str = "192.0.2.101";
    let bed = Bed::new();
    let endpoints = vec![("a1", State::Ready)];
    let only = Service::balanced("only", ONLY.parse().unwrap(), Policy::Local, endpoints);
    bed.write_manifest(&only.file(), &only.yaml(bed.topology())).unwrap();
    let _a = bed.owner("node-a", &[]);
    bed.until("node-a", "it owns the other", |s| address(s, ONLY)["verdict"] == "own");
    let socket = bed.socket("node-a").display().to_string();
    let drain = || bed.signpost("node-a", &["drain", "--socket", &socket]).out();
    let said = drain();
    assert!(said.contains("no other member is heard"), "{said}");
    assert!(said.contains(VIP) && said.contains(ONLY), "{said}");
    let _b = bed.agent("node-b", &[]);
    let taken = |s: &serde_json::Value| address(s, VIP)["owner"] == "node-b";
    let status = bed.until("node-a", "node-b takes what it can serve", taken);
    assert_eq!(address(&status, ONLY)["verdict"], "own");
    let said = drain();
    assert!(said.contains(&format!("of {ONLY} other members (node-b)")), "{said}");
    assert!(said.contains("the rest stays here"), "{said}");
}
