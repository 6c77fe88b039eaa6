//! What a change touches, who is a pod, and what is diagnosed.
#![allow(clippy::unwrap_used)]

mod cluster;

use cluster::{BASE, host, key, print, service, slice, vip, web, world};
use signpost_plan::world::{Change, SliceKey, Touched};
use signpost_plan::{World, diagnostics, scope, table};

fn apply(w: &mut World, yaml: &str) -> Touched {
    let mut touched = Touched::default();
    let parsed = signpost_api::parse("test.yaml", yaml);
    assert!(parsed.complete && !parsed.objects.is_empty(), "{:#?}", parsed.diagnostics);
    for object in parsed.objects {
        touched.merge(w.apply(object.into_change()));
    }
    touched
}

fn touched(services: &[&str], addresses: &[&str]) -> Touched {
    Touched {
        services: services.iter().map(|s| key(s)).collect(),
        addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
        ..Touched::default()
    }
}

fn on(w: &World, service: &str) -> String {
    print(table(w, &key(service), w.this_node()).as_ref())
}

#[test]
fn a_slice_touches_its_service_alone() {
    let mut w = world(
        "a",
        &(web("Cluster", &["198.19.1.5 a"])
            + &service("other", "Cluster", &["192.0.2.101"], "2026-01-01T00:00:00Z")),
    );
    let new = slice("web-1", "web", &["198.19.1.6 a"]);
    assert_eq!(apply(&mut w, &new), touched(&["web"], &["192.0.2.100"]));
    assert_eq!(on(&w, "web"), "192.0.2.100:80/TCP 198.19.1.6:8080* | same");
    assert!(apply(&mut w, &new).is_empty(), "the same again is no change");
    assert!(apply(&mut w, &format!("# moved\n\n{new}")).is_empty(), "nor is a line that moved");
    // Its label moves it from one Service to another.
    assert_eq!(
        apply(&mut w, &slice("web-1", "other", &["198.19.1.6 a"])),
        touched(&["web", "other"], &["192.0.2.100", "192.0.2.101"])
    );
    assert_eq!(on(&w, "web"), "192.0.2.100:80/TCP | same");
    assert_eq!(on(&w, "other"), "192.0.2.101:80/TCP 198.19.1.6:8080* | same");
    let gone = SliceKey { namespace: "demo".into(), name: "web-1".into() };
    assert_eq!(w.apply(Change::SliceGone(gone.clone())), touched(&["other"], &["192.0.2.101"]));
    assert!(w.apply(Change::SliceGone(gone)).is_empty());
}

#[test]
fn a_slice_may_come_before_its_service() {
    let mut w = world("a", &slice("web-1", "web", &["198.19.1.5 a"]));
    assert_eq!(on(&w, "web"), "none");
    apply(&mut w, &service("web", "Cluster", &["192.0.2.100"], "2026-01-01T00:00:00Z"));
    assert_eq!(on(&w, "web"), "192.0.2.100:80/TCP 198.19.1.5:8080* | same");
    w.apply(Change::ServiceGone(key("web")));
    assert_eq!(on(&w, "web"), "none");
    assert_eq!(w.addresses().count(), 0);
}

#[test]
fn a_service_touches_those_that_share_its_addresses() {
    let mut w = world("a", &web("Cluster", &["198.19.1.5 a"]));
    let older =
        service("older", "Cluster", &["192.0.2.100", "192.0.2.102"], "2025-01-01T00:00:00Z");
    assert_eq!(apply(&mut w, &older), touched(&["older", "web"], &["192.0.2.100", "192.0.2.102"]));
    assert_eq!(on(&w, "web"), "none");
    // It moves: the old address is touched too, and its former neighbour.
    let moved = service("older", "Cluster", &["192.0.2.103"], "2025-01-01T00:00:00Z");
    assert_eq!(
        apply(&mut w, &moved),
        touched(&["older", "web"], &["192.0.2.100", "192.0.2.102", "192.0.2.103"])
    );
    assert_eq!(on(&w, "web"), "192.0.2.100:80/TCP 198.19.1.5:8080* | same");
    assert_eq!(w.services_of_address(vip()).count(), 1);
}

#[test]
fn nodes_and_pools_touch_everything_only_if_they_differ() {
    let mut w = world("a", &web("Cluster", &["198.19.1.5 a"]));
    assert!(apply(&mut w, BASE).is_empty());
    assert!(w.apply(Change::Host(host("a"))).is_empty());
    let node = |name: &str| {
        format!("{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{x: y}}}}}}")
    };
    assert!(apply(&mut w, &node("a")).all);
    let other = apply(&mut w, &node("b"));
    assert!(!other.all && other.scope);
}

// Who is a pod: podCIDRs, --pod-cidr, and endpoints outside both; never a node's own address.
#[test]
fn pod_ranges_follow_nodes_and_endpoints() {
    let ranges = |w: &World| {
        scope(w).pod_cidrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let base = "198.19.1.0/24 198.19.2.0/23";
    let mut w = world("a", &web("Cluster", &["198.19.1.5 a", "192.0.2.12 b"]));
    assert_eq!(ranges(&w), base);
    let stray = slice("web-2", "web", &["10.9.9.9 a", "198.19.1.6 a"]);
    assert!(apply(&mut w, &stray).scope);
    assert_eq!(ranges(&w), format!("10.9.9.9/32 {base}"));
    // A second slice with the same pod, and its departure, change nothing.
    assert!(!apply(&mut w, &slice("web-3", "web", &["10.9.9.9 a"])).scope);
    let gone =
        |name: &str| Change::SliceGone(SliceKey { namespace: "demo".into(), name: name.into() });
    assert!(!w.apply(gone("web-3")).scope);
    assert!(w.set_pod_cidrs(vec!["10.9.0.0/16".parse().unwrap()]).scope);
    assert_eq!(ranges(&w), format!("10.9.0.0/16 {base}"));
    w.set_pod_cidrs(Vec::new());
    assert!(w.apply(gone("web-2")).scope);
    assert_eq!(ranges(&w), base);
    // A range that goes leaves its endpoints behind, one that comes takes them in.
    w.apply(Change::NodeGone("a".into()));
    assert_eq!(ranges(&w), "198.19.1.5/32 198.19.2.0/23");
    apply(&mut w, BASE);
    assert_eq!(ranges(&w), base);
}

#[test]
fn uplinks_are_where_outsiders_come_in() {
    let mut w = world("a", &web("Cluster", &["198.19.1.5 a"]));
    let mut h = host("a");
    let mut add = |index: u32, name: &str, address: &str| {
        let mut link = h.links[&signpost_plan::LinkIndex(3)].clone();
        (link.name, link.addresses) = (name.into(), vec![address.parse().unwrap()]);
        h.links.insert(signpost_plan::LinkIndex(index), link);
    };
    add(5, "eth5", "192.0.2.211/24");
    add(6, "eth6", "172.16.0.1/24");
    w.apply(Change::Host(h));
    let names = |w: &World| scope(w).uplinks.join(" ");
    assert_eq!(names(&w), "eth0 eth5", "eth5 has a subnet with the pool's addresses");
    apply(
        &mut w,
        "{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {name: x}, spec: {interfaces: [eth6]}}",
    );
    assert_eq!(names(&w), "eth0 eth5 eth6");
}

#[track_caller]
fn diagnosed(yaml: &str, expect: &[&str]) {
    let w = world("a", yaml);
    let got: Vec<_> = diagnostics(&w).iter().map(ToString::to_string).collect();
    assert_eq!(got.len(), expect.len(), "{got:#?}");
    for (got, expect) in got.iter().zip(expect) {
        assert!(got.starts_with(expect), "{got}\nis not\n{expect}");
    }
}

#[test]
fn what_cannot_be_done_as_written_is_diagnosed() {
    let ok = web("Cluster", &["198.19.1.5 a"]);
    diagnosed(&ok, &[]);
    diagnosed(
        &ok.replace("192.0.2.100", "192.0.2.99"),
        &[
            "test.yaml:3:1: error: Service demo/web: 192.0.2.99 lies in no IPAddressPool: not served (hint: ",
        ],
    );
    diagnosed(
        &ok.replace("\"192.0.2.100\"", "\"\""),
        &[
            "test.yaml:3:1: warning: Service demo/web: asks for no address, and there is no automatic allocation yet",
        ],
    );
    diagnosed(
        &ok.replace("192.0.2.100", "192.0.2.12"),
        &["test.yaml:3:1: error: Service demo/web: 192.0.2.12 is node b's own address: not served"],
    );
    diagnosed(
        &(ok.clone() + &service("late", "Cluster", &["192.0.2.100"], "2026-02-01T00:00:00Z")),
        &[
            "test.yaml:19:1: error: Service demo/late: 192.0.2.100:80/TCP is Service demo/web's (test.yaml:3:1), which is older",
        ],
    );
    diagnosed(
        &ok.replace("name: p, port: 8080", "name: q, port: 8080"),
        &[
            "test.yaml:3:1: warning: Service demo/web: port 80/TCP: no EndpointSlice has a TCP port named \"p\"",
        ],
    );
    let more = |object: &str| format!("{ok}\n---\n{object}\n");
    diagnosed(
        &more(
            "{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: second}, spec: {addresses: [192.0.2.109-192.0.2.120]}}",
        ),
        &[
            "test.yaml:19:1: error: IPAddressPool second: 192.0.2.109-192.0.2.110 is in IPAddressPool first too (test.yaml:11:3): that one counts",
        ],
    );
    diagnosed(
        &more(
            "{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {name: all}, spec: {ipAddressPools: [typo]}}",
        ),
        &[
            "test.yaml:11:3: warning: IPAddressPool first: no L2Advertisement selects it",
            "test.yaml:19:1: warning: L2Advertisement all: there is no IPAddressPool typo",
        ],
    );
    diagnosed(
        &more(
            "{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {name: all}, spec: {interfaces: [eth9]}}",
        ),
        &["test.yaml:19:1: warning: L2Advertisement all: a has no interface eth9"],
    );
    let far = "{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: far}, spec: {addresses: [203.0.113.0/24]}}";
    diagnosed(
        &more(far).replace("\"192.0.2.100\"", "\"203.0.113.7\""),
        &[
            "test.yaml:19:1: note: IPAddressPool far: no interface here has a subnet with 203.0.113.7: announced on every uplink",
        ],
    );
    // Two Services share an address under Local, and no node has endpoints of both.
    let apart = web("Local", &["198.19.1.5 a"])
        + &service("other", "Local", &["192.0.2.100"], "2026-02-01T00:00:00Z")
            .replace("port: 80", "port: 443")
        + &slice("other-1", "other", &["198.19.2.5 b"]);
    diagnosed(
        &apart,
        &[
            "test.yaml:19:1: warning: Service demo/other: 192.0.2.100:443/TCP: under externalTrafficPolicy Local no node has endpoints of all ports of 192.0.2.100; a has most of them, and none of these: degraded",
        ],
    );
    diagnosed(&apart.replace("198.19.2.5], nodeName: b", "198.19.2.5], nodeName: a"), &[]);
}
