//! `--forward all`: ClusterIPs, NodePorts and health checks, where no other proxy does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use signpost_lab::manifest::{Policy, Service, State};

use crate::bed::{Bed, SOON, address};

const VIP: &str = "192.0.2.101";

fn with_everything(bed: &Bed, endpoints: Vec<(&str, State)>) {
    let service = Service::balanced("all", VIP.parse().unwrap(), Policy::Local, endpoints);
    let yaml = service
        .yaml(bed.topology())
        .replace("port: 80, targetPort", "port: 80, nodePort: 30080, targetPort")
        .replace(
            "  loadBalancerIP:",
            "  clusterIP: 10.96.0.10\n  healthCheckNodePort: 31080\n  loadBalancerIP:",
        );
    bed.write_manifest(&service.file(), &yaml).unwrap();
}

/// What a request from a machine is answered; nothing where nobody listens.
fn get(bed: &Bed, from: &str, to: &str, path: &str) -> Option<String> {
    let to: SocketAddr = to.parse().unwrap();
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&to, SOON).ok()?;
        stream.set_read_timeout(Some(SOON)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
        let mut said = String::new();
        stream.read_to_string(&mut said).ok()?;
        Some(said)
    };
    bed.namespace(from).unwrap().run(ask).unwrap()
}

fn until(bed: &Bed, what: &str, from: &str, to: &str, path: &str, start: &str) -> String {
    let mut said = None;
    let done = bed.wait_until(what, SOON, || {
        said = get(bed, from, to, path);
        said.as_ref().is_some_and(|said| said.starts_with(start))
    });
    done.unwrap_or_else(|e| panic!("{e}: {said:?}"));
    said.unwrap()
}

#[test]
fn health_checks_follow_the_endpoints() {
    let bed = Bed::new();
    with_everything(&bed, vec![("a1", State::Ready), ("b1", State::Ready)]);
    let _agents = ["node-a", "node-b"].map(|node| bed.agent(node, &["--forward", "all"]));
    let a = |port: u16| format!("192.0.2.11:{port}");
    let ok = until(&bed, "it serves", "node-b", &a(31080), "/", "HTTP/1.1 200 OK");
    assert!(ok.contains("X-Load-Balancing-Endpoint-Weight: 1\r\n"), "{ok}");
    assert!(ok.contains("\"localEndpoints\": 1,\n\t\"serviceProxyHealthy\": true"), "{ok}");
    let proxy = get(&bed, "node-b", &a(10256), "/healthz").unwrap();
    assert!(
        proxy.starts_with("HTTP/1.1 200 OK") && proxy.contains("\"nodeEligible\":true"),
        "{proxy}"
    );
    assert!(get(&bed, "node-b", &a(10256), "/livez").unwrap().starts_with("HTTP/1.1 200 OK"));
    // The last pod here ends: no new connections, and it serves on.
    with_everything(&bed, vec![("a1", State::Terminating), ("b1", State::Ready)]);
    until(&bed, "it turns away", "node-b", &a(31080), "/", "HTTP/1.1 503 Service Unavailable");
    // The Service goes, and so does its port.
    bed.remove_manifest("service-all.yaml").unwrap();
    bed.wait_until("the port closes", SOON, || get(&bed, "node-b", &a(31080), "/").is_none())
        .unwrap();
}

#[test]
fn clusterips_and_nodeports_are_served_if_asked_for() {
    let bed = Bed::new();
    with_everything(&bed, vec![("b1", State::Ready)]);
    let rules = |words: &[&str]| {
        let rules = bed.rules("node-a");
        words.iter().all(|word| rules.contains(word))
    };
    let agent = bed.agent("node-a", &[]);
    bed.until("node-a", "it knows the address", |s| address(s, VIP)["acknowledged"] == true);
    assert!(!rules(&["10.96.0.10"]) && !rules(&["30080"]), "another proxy serves them");
    agent.end(nix::sys::signal::Signal::SIGTERM);
    let all = ["--forward", "all", "--nodeport-addresses", "primary"];
    let _agent = bed.agent("node-a", &all);
    bed.until("node-a", "it serves all", |s| {
        let count = &s["rules"]["frontends"];
        s["rules"]["forward"] == "all" && count["cluster_ip"] == 2 && count["node_port"] == 2
    });
    let there = ["10.96.0.10 . tcp . 80", "tcp . 30080", "elements = { 192.0.2.11 }"];
    assert!(rules(&there), "{}", bed.rules("node-a"));
    // A connection through it, by the node's own port and by the ClusterIP.
    for to in ["192.0.2.11:30080", "10.96.0.10:80"] {
        let to: SocketAddr = to.parse().unwrap();
        let connect = || TcpStream::connect_timeout(&to, SOON).map(drop);
        bed.namespace("node-a").unwrap().run(connect).unwrap().unwrap();
    }
    let args = [bed.arguments("node-b"), vec!["--nodeport-addresses=192.0.2.0/33".into()]].concat();
    let said = bed.signpost("node-b", &args.iter().map(String::as_str).collect::<Vec<_>>()).err();
    assert!(said.contains("\"192.0.2.0/33\" is not a network"), "{said}");
}
