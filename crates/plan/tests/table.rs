//! The oracle, one row a rule.
#![allow(clippy::unwrap_used)]

mod cluster;

use cluster::{key, print, service, slice, web, world};
use signpost_plan::table;

/// The table of demo/web on a node.
#[track_caller]
fn check(node: &str, yaml: &str, expect: &str) {
    check_of("web", node, yaml, expect);
}

#[track_caller]
fn check_of(name: &str, node: &str, yaml: &str, expect: &str) {
    let w = world(node, yaml);
    let got = print(table(&w, &key(name), &node.into()).as_ref());
    assert_eq!(got, expect, "on {node} with {yaml}");
}

const AB: &[&str] = &["198.19.1.5 a", "198.19.2.5 b"];

// externalTrafficPolicy Cluster: everybody gets every endpoint (Kubernetes' documentation, virtual
// IPs).
#[test]
fn cluster_policy_gives_everybody_every_endpoint() {
    let yaml = web("Cluster", AB);
    check("a", &yaml, "192.0.2.100:80/TCP 198.19.1.5:8080* 198.19.2.5:8080 | same");
    check("c", &yaml, "192.0.2.100:80/TCP 198.19.1.5:8080 198.19.2.5:8080 | same");
}

// Local: outsiders get this node's, everybody else every endpoint; none here is a silent drop.
#[test]
fn local_policy_gives_outsiders_this_nodes_endpoints_only() {
    let yaml = web("Local", AB);
    check(
        "a",
        &yaml,
        "192.0.2.100:80/TCP 198.19.1.5:8080* 198.19.2.5:8080 | local 198.19.1.5:8080*",
    );
    check("c", &yaml, "192.0.2.100:80/TCP 198.19.1.5:8080 198.19.2.5:8080 | local");
}

// KEP-1669: terminating endpoints serve only where no ready one does.
#[test]
fn terminating_endpoints_serve_when_none_is_ready() {
    let mixed = web("Cluster", &["198.19.1.5 a terminating", "198.19.2.5 b"]);
    check("a", &mixed, "192.0.2.100:80/TCP 198.19.2.5:8080 | same");
    let ending = web("Cluster", &["198.19.1.5 a terminating", "198.19.2.5 b terminating"]);
    check("a", &ending, "192.0.2.100:80/TCP 198.19.1.5:8080* 198.19.2.5:8080 | same");
}

// KEP-1669: the node's fallback is its own: its last, terminating endpoint still serves outsiders
// while others are ready elsewhere.
#[test]
fn the_local_fallback_is_independent() {
    let yaml = web("Local", &["198.19.1.5 a terminating", "198.19.2.5 b"]);
    check("a", &yaml, "192.0.2.100:80/TCP 198.19.2.5:8080 | local 198.19.1.5:8080*");
    let both = web("Local", &["198.19.1.5 a terminating", "198.19.1.6 a", "198.19.2.5 b"]);
    check(
        "a",
        &both,
        "192.0.2.100:80/TCP 198.19.1.6:8080* 198.19.2.5:8080 | local 198.19.1.6:8080*",
    );
}

// discovery/v1: absent conditions are ready; absent serving counts as true; not-ready ones that do
// not terminate never serve.
#[test]
fn conditions_mean_what_the_api_says() {
    check(
        "a",
        &web("Cluster", &["198.19.1.5 a unknown"]),
        "192.0.2.100:80/TCP 198.19.1.5:8080* | same",
    );
    check(
        "a",
        &web("Cluster", &["198.19.1.5 a old-terminating"]),
        "192.0.2.100:80/TCP 198.19.1.5:8080* | same",
    );
    check(
        "a",
        &web("Cluster", &["198.19.1.5 a draining", "198.19.2.5 b unready"]),
        "192.0.2.100:80/TCP | same",
    );
}

// No endpoint anywhere: everybody is refused alike, also outsiders under Local (kube-proxy rejects).
#[test]
fn without_endpoints_everybody_is_refused() {
    check("a", &web("Local", &[]), "192.0.2.100:80/TCP | same");
    check("a", &web("Local", &["198.19.1.5 a unready"]), "192.0.2.100:80/TCP | same");
    let no_slice = service("web", "Local", &["192.0.2.100"], "2026-01-01T00:00:00Z");
    check("a", &no_slice, "192.0.2.100:80/TCP | same");
}

// Several slices are one set, and an endpoint that two of them list counts once, the local one
// first (kube-proxy's endpointslicecache.go).
#[test]
fn slices_are_united() {
    let yaml =
        web("Local", &["198.19.1.5 b"]) + &slice("web-2", "web", &["198.19.1.5 a", "198.19.2.5 b"]);
    check(
        "a",
        &yaml,
        "192.0.2.100:80/TCP 198.19.1.5:8080* 198.19.2.5:8080 | local 198.19.1.5:8080*",
    );
    let stale =
        web("Cluster", &["198.19.1.5 a terminating"]) + &slice("web-0", "web", &["198.19.1.5 a"]);
    check("a", &stale, "192.0.2.100:80/TCP 198.19.1.5:8080* | same");
}

// What is local is endpoint.nodeName, not an address.
#[test]
fn local_is_what_node_name_says() {
    let yaml = web("Local", &["198.19.1.5 -", "198.19.2.9 a"]);
    check(
        "a",
        &yaml,
        "192.0.2.100:80/TCP 198.19.1.5:8080 198.19.2.9:8080* | local 198.19.2.9:8080*",
    );
    check(
        "nobody",
        &yaml.replace("nodeName: a", "nodeName: b"),
        "192.0.2.100:80/TCP 198.19.1.5:8080 198.19.2.9:8080 | local",
    );
}

// A slice's port belongs to the Service's by name and protocol; one without a number serves nothing.
#[test]
fn ports_match_by_name_and_protocol() {
    let yaml = web("Cluster", AB);
    check(
        "a",
        &yaml.replace("name: p, port: 8080", "name: q, port: 8080"),
        "192.0.2.100:80/TCP | same",
    );
    check(
        "a",
        &yaml.replace("port: 8080, protocol: TCP", "port: 8080, protocol: UDP"),
        "192.0.2.100:80/TCP | same",
    );
    check("a", &yaml.replace("port: 8080, ", ""), "192.0.2.100:80/TCP | same");
    let unnamed = yaml
        .replace("name: p, port: 80}", "port: 80}")
        .replace("name: p, port: 8080", "port: 8080");
    check("a", &unnamed, "192.0.2.100:80/TCP 198.19.1.5:8080* 198.19.2.5:8080 | same");
    let two = yaml
        .replace("{name: p, port: 80}", "{name: p, port: 80}, {name: u, port: 80, protocol: UDP}")
        .replace("protocol: TCP}]", "protocol: TCP}, {name: u, port: 5353, protocol: UDP}]");
    check(
        "c",
        &two,
        "192.0.2.100:80/TCP 198.19.1.5:8080 198.19.2.5:8080 | same\n\
         192.0.2.100:80/UDP 198.19.1.5:5353 198.19.2.5:5353 | same",
    );
}

// An address is served once it lies in a pool, whatever its ipMode.
#[test]
fn only_addresses_of_pools_are_served() {
    let yaml = web("Cluster", &["198.19.1.5 a"]);
    check("a", &yaml.replace("192.0.2.100", "192.0.2.99"), "none");
    check(
        "a",
        &yaml.replace("192.0.2.100", "192.0.2.99,192.0.2.110"),
        "192.0.2.110:80/TCP 198.19.1.5:8080* | same",
    );
    let proxy = yaml
        .replace("annotations: {metallb.io/loadBalancerIPs: \"192.0.2.100\"}", "labels: {}")
        + "status: {}\n";
    assert!(!proxy.contains("loadBalancerIPs"));
    let w = proxy.replacen("spec: {type", "status: {loadBalancer: {ingress: [{ip: 192.0.2.100, ipMode: Proxy}, {hostname: lb}]}}\nspec: {type", 1).replace("status: {}\n", "");
    check("a", &w, "192.0.2.100:80/TCP 198.19.1.5:8080* | same");
}

// A node's own address is never taken over: every other port of the node would be refused.
#[test]
fn a_nodes_own_address_is_not_served() {
    let pool = "\n---\n{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: wide}, spec: {addresses: [192.0.2.0/24]}}\n";
    let yaml = web("Cluster", &["198.19.1.5 a"]) + pool;
    check(
        "a",
        &yaml.replace("IPs: \"192.0.2.100", "IPs: \"192.0.2.50"),
        "192.0.2.50:80/TCP 198.19.1.5:8080* | same",
    );
    check("a", &yaml.replace("IPs: \"192.0.2.100", "IPs: \"192.0.2.12"), "none");
}

// Only LoadBalancer Services of ours: not another type, not another proxy's (KEP-2447), not another
// class's. The label "headless" on a Service means nothing (kube-proxy looks at it on slices).
#[test]
fn services_of_others_are_left_alone() {
    let yaml = web("Cluster", &["198.19.1.5 a"]);
    check("a", &yaml.replace("type: LoadBalancer", "type: NodePort"), "none");
    check(
        "a",
        &yaml
            .replace("type: LoadBalancer", "type: LoadBalancer, loadBalancerClass: example.com/lb"),
        "none",
    );
    let named = "192.0.2.100:80/TCP 198.19.1.5:8080* | same";
    check(
        "a",
        &yaml.replace(
            "type: LoadBalancer",
            "type: LoadBalancer, loadBalancerClass: signpost.dev/l2",
        ),
        named,
    );
    let label = |l: &str| yaml.replace("{name: web, ", &format!("{{name: web, labels: {{{l}}}, "));
    check("a", &label("service.kubernetes.io/service-proxy-name: x"), "none");
    check("a", &label("service.kubernetes.io/headless: ''"), named);
}

// KEP-2447 for slices: a headless Service's endpoints concern no proxy.
#[test]
fn headless_slices_have_no_endpoints() {
    let yaml = web("Cluster", &["198.19.1.5 a"]).replace(
        "{kubernetes.io/service-name: web}",
        "{kubernetes.io/service-name: web, service.kubernetes.io/headless: ''}",
    );
    check("a", &yaml, "192.0.2.100:80/TCP | same");
}

// Two Services with the same address, protocol and port: the older, then the first by name, wins on
// every node; other ports of the loser stay.
#[test]
fn the_older_service_wins_a_port() {
    let pair = |web: &str, other: &str| {
        service("web", "Cluster", &["192.0.2.100"], web)
            + &service("other", "Cluster", &["192.0.2.100"], other)
                .replace("{name: p, port: 80}", "{name: p, port: 80}, {name: s, port: 443}")
    };
    let older = pair("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    check("a", &older, "192.0.2.100:80/TCP | same");
    check_of("other", "a", &older, "192.0.2.100:443/TCP | same");
    let younger = pair("2026-01-03T00:00:00Z", "2026-01-02T00:00:00Z");
    check("a", &younger, "none");
    check_of("other", "a", &younger, "192.0.2.100:80/TCP | same\n192.0.2.100:443/TCP | same");
    let same = pair("2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z");
    check("a", &same, "none");
    check_of("other", "a", &same, "192.0.2.100:80/TCP | same\n192.0.2.100:443/TCP | same");
}
