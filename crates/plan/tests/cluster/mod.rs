//! A cluster of three nodes as YAML, for one row a rule of behaviour.
#![allow(dead_code, clippy::unwrap_used)]

use std::fmt::Write;
use std::net::IpAddr;

use signpost_plan::world::{Affinity, Change, Host, Link};
use signpost_plan::{
    Answer, Backend, Entry, LinkIndex, Observed, ServiceKey, Sources, Table, World, table,
};
use signpost_report::Severity;

pub(crate) const VIP: &str = "192.0.2.100";

/// Three nodes, a pool and an advertisement.
pub(crate) const BASE: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a, labels: {disk: ssd}}, spec: {podCIDR: 198.19.1.0/24},
   status: {addresses: [{type: InternalIP, address: 192.0.2.11}, {type: Hostname, address: a}]}}
- {apiVersion: v1, kind: Node, metadata: {name: b}, spec: {podCIDRs: [198.19.2.0/24]},
   status: {addresses: [{type: InternalIP, address: 192.0.2.12}]}}
- {apiVersion: v1, kind: Node, metadata: {name: c}, spec: {podCIDRs: [198.19.3.0/24]},
   status: {addresses: [{type: InternalIP, address: 192.0.2.13}]}}
- {apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: first, namespace: metallb-system},
   spec: {addresses: [192.0.2.100-192.0.2.110]}}
- {apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {name: all, namespace: metallb-system}}
"#;

/// A LoadBalancer Service on [`VIP`], TCP 80 to 8080, with one slice of these endpoints
/// (`ADDRESS [NODE] [terminating|draining|unready|unknown]`; nothing is ready).
pub(crate) fn web(policy: &str, endpoints: &[&str]) -> String {
    service("web", policy, &[VIP], "2026-01-01T00:00:00Z") + &slice("web-1", "web", endpoints)
}

pub(crate) fn service(name: &str, policy: &str, addresses: &[&str], created: &str) -> String {
    format!(
        r#"
---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: demo, creationTimestamp: "{created}",
  annotations: {{metallb.io/loadBalancerIPs: "{}"}}}}
spec: {{type: LoadBalancer, externalTrafficPolicy: {policy}, ports: [{{name: p, port: 80}}]}}
"#,
        addresses.join(",")
    )
}

pub(crate) fn slice(name: &str, service: &str, endpoints: &[&str]) -> String {
    let mut yaml = format!(
        r#"
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}, namespace: demo, labels: {{kubernetes.io/service-name: {service}}}}}
addressType: IPv4
ports: [{{name: p, port: 8080, protocol: TCP}}]
endpoints:
"#
    );
    for e in endpoints {
        let words: Vec<_> = e.split(' ').collect();
        let conditions = match words.get(2).copied().unwrap_or("ready") {
            "ready" => "{ready: true, serving: true, terminating: false}",
            "terminating" => "{ready: false, serving: true, terminating: true}",
            "draining" => "{ready: false, serving: false, terminating: true}",
            "unready" => "{ready: false, serving: false, terminating: false}",
            "unknown" => "{}",
            "old-terminating" => "{ready: false, terminating: true}",
            other => panic!("{other}"),
        };
        let node = words
            .get(1)
            .filter(|n| **n != "-")
            .map_or(String::new(), |n| format!("nodeName: {n}, "));
        writeln!(yaml, "- {{addresses: [{}], {node}conditions: {conditions}}}", words[0]).unwrap();
    }
    yaml
}

/// The world of some YAML, seen from a node. Every object in it must be well written.
pub(crate) fn world(node: &str, yaml: &str) -> World {
    let mut w = World::new(node.into());
    for text in [BASE, yaml] {
        let parsed = signpost_api::parse("test.yaml", text);
        let bad: Vec<_> =
            parsed.diagnostics.iter().filter(|d| d.severity == Severity::Error).collect();
        assert!(parsed.complete && bad.is_empty(), "{bad:#?}");
        for object in parsed.objects {
            w.apply(object.into_change());
        }
    }
    w.apply(Change::Host(host(node)));
    w
}

/// eth0 on the segment with the default route, and a bridge for the pods.
pub(crate) fn host(node: &str) -> Host {
    let number = node.as_bytes()[0] - b'a' + 1;
    let link = |name: &str, address: String| Link {
        name: name.into(),
        mac: Some([2, 0, 0, 0, 0, number]),
        up: true,
        forwarding: true,
        forwarding_v6: true,
        addresses: vec![address.parse().unwrap()],
    };
    Host {
        links: [
            (LinkIndex(2), link("eth0", format!("192.0.2.1{number}/24"))),
            (LinkIndex(3), link("pods", format!("198.19.{number}.1/24"))),
        ]
        .into(),
        gateways: vec![(LinkIndex(2), Some("192.0.2.1".parse().unwrap()))],
    }
}

pub(crate) fn key(name: &str) -> ServiceKey {
    ServiceKey { namespace: "demo".into(), name: name.into() }
}

pub(crate) fn vip() -> IpAddr {
    VIP.parse().unwrap()
}

/// `192.0.2.100:80/TCP 198.19.1.5:8080* 198.19.2.5:8080 | local 198.19.1.5:8080*`, a line an entry:
/// what pods get, then what outsiders get; then, where it is something else, what processes get,
/// affinity and allowed sources.
pub(crate) fn print(table: Option<&Table>) -> String {
    let Some(table) = table else { return "none".into() };
    table.entries.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn line(e: &Entry) -> String {
    let list = |answer| -> String {
        let one =
            |b: &Backend| format!(" {}:{}{}", b.address, b.port, if b.local { "*" } else { "" });
        e.backends(answer).iter().map(one).collect()
    };
    let outsiders = match e.outsiders {
        same if same == e.pods => "same".into(),
        Answer::Local | Answer::Drop => format!("local{}", list(e.outsiders)),
        Answer::Cluster | Answer::Refuse => format!("{:?}", e.outsiders),
    };
    let mut line = format!("{}{} | {outsiders}", e.frontend, list(e.pods));
    if e.pods == Answer::Drop {
        line = format!("{} drop | {outsiders}", e.frontend);
    }
    if e.processes != e.pods {
        write!(line, " | processes {:?}", e.processes).unwrap();
    }
    match e.affinity {
        Affinity::None => {}
        Affinity::ClientIp { timeout_s } => write!(line, " | sticky {timeout_s} s").unwrap(),
    }
    match &e.sources {
        Sources::Any => {}
        Sources::Only(nets) => {
            let nets: Vec<_> = nets.iter().map(ToString::to_string).collect();
            write!(line, " | from {}", nets.join(" ")).unwrap();
        }
    }
    line
}

/// What is observed once the kernel acknowledged every table of a node, which owns all.
pub(crate) fn settled(w: &World) -> Observed {
    let node = w.this_node();
    let tables = w.services().filter_map(|s| Some((s.key.clone(), table(w, &s.key, node)?)));
    Observed {
        acknowledged: tables.collect(),
        owners: w.addresses().map(|a| (a, node.clone())).collect(),
        ..Observed::default()
    }
}
