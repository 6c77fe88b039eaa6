//! The oracle where it forwards all kinds of Services, both families: one row a rule.
#![allow(clippy::unwrap_used)]

mod cluster;

use cluster::{key, print, world};
use signpost_plan::world::{Change, Forwarding, NodePortAddresses};
use signpost_plan::{HealthCheck, World, diagnostics, health_checks, scope, table};

fn all(node: &str, yaml: &str) -> World {
    let mut w = world(node, yaml);
    w.set_forwarding(Forwarding::All);
    w
}

/// The table of demo/web on a node.
#[track_caller]
fn check(node: &str, yaml: &str, expect: &[&str]) {
    let got = print(table(&all(node, yaml), &key("web"), &node.into()).as_ref());
    assert_eq!(got, expect.join("\n"), "on {node} with {yaml}");
}

/// demo/web with these fields of its spec, and IPv4 endpoints on a and b.
fn service(spec: &str) -> String {
    service_of(spec, "") + &slice("v4", "IPv4", &[("198.19.1.5", "a", ""), ("198.19.2.5", "b", "")])
}

fn service_of(spec: &str, metadata: &str) -> String {
    format!(
        "
---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: demo, {metadata}}}
spec: {{ports: [{{name: p, port: 80, nodePort: 30080}}], {spec}}}
"
    )
}

/// Ready endpoints, each with more fields.
fn slice(name: &str, family: &str, endpoints: &[(&str, &str, &str)]) -> String {
    let all = endpoints.iter().map(|(address, node, more)| {
        format!("- {{addresses: ['{address}'], nodeName: {node}, {more}}}\n")
    });
    format!(
        "
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}, namespace: demo, labels: {{kubernetes.io/service-name: web}}}}
addressType: {family}
ports: [{{name: p, port: 8080}}]
endpoints:
{}",
        all.collect::<String>()
    )
}

const AB: &str = "198.19.1.5:8080* 198.19.2.5:8080";

// Beside another proxy only what outsiders ask is ours.
#[test]
fn clusterips_and_nodeports_are_served_where_nobody_else_does() {
    let yaml = service("type: NodePort, clusterIPs: [10.96.0.1]");
    assert_eq!(table(&world("a", &yaml), &key("web"), &"a".into()), None);
    let entries = [
        &format!("10.96.0.1:80/TCP {AB} | same")[..],
        &format!("NodePort 30080/TCP (IPv4) {AB} | same"),
    ];
    check("a", &yaml, &entries);
    check("a", &yaml.replace("type: NodePort", "type: ClusterIP"), &entries[..1]);
    check("a", &yaml.replace("clusterIPs: [10.96.0.1]", "clusterIP: 10.96.0.1"), &entries);
    // Headless, an alias, another proxy's (KEP-2447).
    check("a", &yaml.replace("clusterIPs: [10.96.0.1]", "clusterIP: None"), &["none"]);
    check("a", &yaml.replace("type: NodePort", "type: ExternalName"), &["none"]);
    let label = "labels: {service.kubernetes.io/service-proxy-name: x}";
    check("a", &service_of("clusterIP: 10.96.0.1", label), &["none"]);
    let label = "labels: {service.kubernetes.io/headless: ''}";
    check("a", &service_of("clusterIP: 10.96.0.1", label), &["10.96.0.1:80/TCP | same"]);
}

// A LoadBalancer Service has all three kinds of places; allocateLoadBalancerNodePorts: false leaves
// the NodePort out (KEP-1864), and one of another class keeps what is inside.
#[test]
fn a_load_balancer_is_asked_in_three_ways() {
    let yaml = service("type: LoadBalancer, clusterIP: 10.96.0.1, loadBalancerIP: 192.0.2.100");
    let [vip, ip, node] = [
        format!("192.0.2.100:80/TCP {AB} | same"),
        format!("10.96.0.1:80/TCP {AB} | same"),
        format!("NodePort 30080/TCP (IPv4) {AB} | same"),
    ];
    check("a", &yaml, &[&vip, &ip, &node]);
    for without in ["port: 80, nodePort: 0", "port: 80"] {
        check("a", &yaml.replace("port: 80, nodePort: 30080", without), &[&vip, &ip]);
    }
    let class = yaml.replace("type: Load", "loadBalancerClass: example.com/x, type: Load");
    check("a", &class, &[&ip, &node]);
}

// KEP-2086: the destination decides which policy counts.
#[test]
fn each_policy_counts_for_its_destinations() {
    let lb = "type: LoadBalancer, clusterIP: 10.96.0.1, loadBalancerIP: 192.0.2.100";
    let external = service(&format!("{lb}, externalTrafficPolicy: Local"));
    let local = "local 198.19.1.5:8080*";
    check(
        "a",
        &external,
        &[
            &format!("192.0.2.100:80/TCP {AB} | {local}"),
            &format!("10.96.0.1:80/TCP {AB} | same"),
            &format!("NodePort 30080/TCP (IPv4) {AB} | {local}"),
        ],
    );
    let internal = service(&format!("{lb}, internalTrafficPolicy: Local"));
    check(
        "a",
        &internal,
        &[
            &format!("192.0.2.100:80/TCP {AB} | same"),
            "10.96.0.1:80/TCP 198.19.1.5:8080* | same",
            &format!("NodePort 30080/TCP (IPv4) {AB} | same"),
        ],
    );
    // None here: silence, for everybody inside as well.
    let none_here = "198.19.1.5:8080 198.19.2.5:8080";
    check(
        "c",
        &internal,
        &[
            &format!("192.0.2.100:80/TCP {none_here} | same"),
            "10.96.0.1:80/TCP drop | same",
            &format!("NodePort 30080/TCP (IPv4) {none_here} | same"),
        ],
    );
    // None anywhere: a refusal.
    let nobody = service_of(&format!("{lb}, internalTrafficPolicy: Local"), "");
    check(
        "c",
        &nobody,
        &[
            "192.0.2.100:80/TCP | same",
            "10.96.0.1:80/TCP | same",
            "NodePort 30080/TCP (IPv4) | same",
        ],
    );
}

// Service.spec.externalIPs of any type, from a pool alone: whoever may write a Service could take
// anybody's traffic (CVE-2020-8554).
#[test]
fn external_ips_are_served_from_pools() {
    let yaml = service("clusterIP: 10.96.0.1, externalIPs: [192.0.2.101, 8.8.8.8]");
    check(
        "a",
        &yaml,
        &[&format!("192.0.2.101:80/TCP {AB} | same"), &format!("10.96.0.1:80/TCP {AB} | same")],
    );
    // Beside another proxy too.
    let w = world("a", &yaml);
    let got = print(table(&w, &key("web"), &"a".into()).as_ref());
    assert_eq!(got, format!("192.0.2.101:80/TCP {AB} | same"));
    let told: Vec<_> = diagnostics(&w).iter().map(ToString::to_string).collect();
    assert!(told[0].contains("externalIPs: 8.8.8.8 lies in no IPAddressPool"), "{told:?}");
    assert!(told[0].contains("CVE-2020-8554") && told.len() == 1, "{told:?}");
}

// An address that is a ClusterIP is not taken from the Service that has it.
#[test]
fn a_clusterip_is_nobody_elses_address() {
    let taker = "
---
apiVersion: v1
kind: Service
metadata: {name: taker, namespace: demo}
spec: {ports: [{port: 80}], externalIPs: [192.0.2.109]}
";
    let w = all("a", &(service("clusterIP: 192.0.2.109") + taker));
    assert_eq!(table(&w, &key("taker"), &"a".into()), None);
    let told: Vec<_> = diagnostics(&w).iter().map(ToString::to_string).collect();
    assert!(told[0].contains("192.0.2.109 is a Service's ClusterIP: not served"), "{told:?}");
}

// Two families are two Services: each has its own addresses and endpoints.
#[test]
fn families_do_not_mix() {
    let dual = "type: NodePort, clusterIPs: [10.96.0.1, '2001:db8:96::1']";
    let six = slice("v6", "IPv6", &[("2001:db8:1::5", "a", "")]);
    check(
        "a",
        &(service(dual) + &six),
        &[
            &format!("10.96.0.1:80/TCP {AB} | same"),
            "[2001:db8:96::1]:80/TCP 2001:db8:1::5:8080* | same",
            &format!("NodePort 30080/TCP (IPv4) {AB} | same"),
            "NodePort 30080/TCP (IPv6) 2001:db8:1::5:8080* | same",
        ],
    );
    check(
        "a",
        &(service_of("type: NodePort, clusterIPs: ['2001:db8:96::1']", "") + &six),
        &[
            "[2001:db8:96::1]:80/TCP 2001:db8:1::5:8080* | same",
            "NodePort 30080/TCP (IPv6) 2001:db8:1::5:8080* | same",
        ],
    );
    // One family may lack endpoints: refused there, served here.
    check(
        "a",
        &service(dual),
        &[
            &format!("10.96.0.1:80/TCP {AB} | same"),
            "[2001:db8:96::1]:80/TCP | same",
            &format!("NodePort 30080/TCP (IPv4) {AB} | same"),
            "NodePort 30080/TCP (IPv6) | same",
        ],
    );
}

// KEP-614: SCTP is a protocol like the others.
#[test]
fn sctp_is_served() {
    let yaml = service("clusterIP: 10.96.0.1").replace("port: 80, ", "port: 80, protocol: SCTP, ");
    let yaml = yaml.replace("port: 8080}", "port: 8080, protocol: SCTP}");
    check("a", &yaml, &[&format!("10.96.0.1:80/SCTP {AB} | same")]);
}

// KEP-2433 and KEP-3015, `pkg/proxy/topology.go`: hints count where all ready endpoints have them
// and one names this node, or this zone; not for what is Local, and not among terminating ones.
#[test]
fn hints_keep_traffic_near() {
    let zoned = |node: &str, zone: &str| {
        format!(
            "\n---\n{{apiVersion: v1, kind: Node, metadata: {{name: {node}, labels: {{topology.kubernetes.io/zone: {zone}}}}}}}\n"
        )
    };
    let zones = zoned("a", "east") + &zoned("b", "west");
    let ip = "clusterIP: 10.96.0.1";
    let with = |spec: &str, a: &str, b: &str| {
        let slice = slice("v4", "IPv4", &[("198.19.1.5", "a", a), ("198.19.2.5", "b", b)]);
        service_of(spec, "") + &slice + &zones
    };
    let zone = |name: &str| format!("hints: {{forZones: [{{name: {name}}}]}}");
    let near = with(ip, &zone("east"), &zone("west"));
    check("a", &near, &["10.96.0.1:80/TCP 198.19.1.5:8080* | same"]);
    check("b", &near, &["10.96.0.1:80/TCP 198.19.2.5:8080* | same"]);
    // No zone, or none that an endpoint is for: all.
    check("c", &near, &["10.96.0.1:80/TCP 198.19.1.5:8080 198.19.2.5:8080 | same"]);
    let far = with(ip, &zone("north"), &zone("north"));
    check("a", &far, &[&format!("10.96.0.1:80/TCP {AB} | same")]);
    // One endpoint without a hint: none counts.
    check("a", &with(ip, &zone("east"), ""), &[&format!("10.96.0.1:80/TCP {AB} | same")]);
    // A hint of an endpoint that is not ready is not asked for.
    let ending = with(ip, &zone("east"), "conditions: {ready: false}");
    check("a", &ending, &["10.96.0.1:80/TCP 198.19.1.5:8080* | same"]);
    // By node first; without one that names this node by zone.
    let node = |node: &str, zone: &str| {
        format!("hints: {{forNodes: [{{name: {node}}}], forZones: [{{name: {zone}}}]}}")
    };
    let by_node = with(ip, &node("a", "east"), &node("b", "east"));
    check("a", &by_node, &["10.96.0.1:80/TCP 198.19.1.5:8080* | same"]);
    let none_named = with(ip, &node("b", "east"), &node("b", "west"));
    check("a", &none_named, &["10.96.0.1:80/TCP 198.19.1.5:8080* | same"]);
    // Local wins over hints on its path.
    let local = format!("{ip}, internalTrafficPolicy: Local");
    let local = with(&local, &zone("west"), &zone("east"));
    check("a", &local, &["10.96.0.1:80/TCP 198.19.1.5:8080* | same"]);
    // Terminating endpoints serve without regard to hints.
    let ending = |z: &str| format!("{}, conditions: {{ready: false, terminating: true}}", zone(z));
    let ending = with(ip, &ending("east"), &ending("west"));
    check("a", &ending, &[&format!("10.96.0.1:80/TCP {AB} | same")]);
}

// publishNotReadyAddresses: what is not ready counts as ready.
#[test]
fn not_ready_endpoints_serve_where_the_service_says_so() {
    let endpoints = |more| slice("v4", "IPv4", &[("198.19.1.5", "a", more)]);
    let unready = endpoints("conditions: {ready: false, serving: false}");
    let ip = "clusterIP: 10.96.0.1";
    check("a", &(service_of(ip, "") + &unready), &["10.96.0.1:80/TCP | same"]);
    let published = service_of(&format!("{ip}, publishNotReadyAddresses: true"), "");
    check("a", &(published + &unready), &["10.96.0.1:80/TCP 198.19.1.5:8080* | same"]);
}

// sessionAffinity, by Service port and with its timeout; 3 hours if it says none.
#[test]
fn affinity_is_the_entrys() {
    let sticky = "clusterIP: 10.96.0.1, sessionAffinity: ClientIP";
    check("a", &service(sticky), &[&format!("10.96.0.1:80/TCP {AB} | same | sticky 10800 s")]);
    let timed = format!("{sticky}, sessionAffinityConfig: {{clientIP: {{timeoutSeconds: 7}}}}");
    check("a", &service(&timed), &[&format!("10.96.0.1:80/TCP {AB} | same | sticky 7 s")]);
    let off = timed.replace("ClientIP,", "None,");
    check("a", &service(&off), &[&format!("10.96.0.1:80/TCP {AB} | same")]);
}

// A port of nodes that two Services ask for is the older one's.
#[test]
fn a_nodeport_has_one_service() {
    let yaml = service("type: NodePort, ipFamilies: [IPv4]");
    let other = service_of(
        "type: NodePort, ipFamilies: [IPv4]",
        "creationTimestamp: '2025-01-01T00:00:00Z'",
    )
    .replace("name: web", "name: older");
    check("a", &(yaml.clone() + &other), &["none"]);
    let w = all("a", &(yaml + &other));
    let told: Vec<_> = diagnostics(&w).iter().map(ToString::to_string).collect();
    assert!(
        told.iter().any(|d| d.contains("NodePort 30080/TCP (IPv4) is Service demo/older's")),
        "{told:?}"
    );
    let mut w = w;
    let touched = w.apply(Change::ServiceGone(key("older")));
    assert!(touched.services.contains(&key("web")));
}

// Where NodePorts answer: everywhere but on loopback; on the Node's addresses; in networks, and a
// family without any everywhere (kube-proxy's --nodeport-addresses).
#[test]
fn nodeports_answer_on_the_nodes_addresses() {
    let mut w = all("a", "");
    let nets = |w: &World| {
        scope(w).node_ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let every = nets(&w);
    assert!(every.starts_with("0.0.0.0/2 64.0.0.0/3 96.0.0.0/4 "), "{every}");
    assert!(every.contains(" 126.0.0.0/8 128.0.0.0/1 ::/128 ::2/127 "), "{every}");
    assert!(every.ends_with(" 8000::/1"), "{every}");
    w.set_node_port_addresses(NodePortAddresses::Primary);
    assert_eq!(nets(&w), "192.0.2.11/32");
    let net = "10.1.0.0/16".parse().unwrap();
    w.set_node_port_addresses(NodePortAddresses::Within(vec![net]));
    assert!(nets(&w).starts_with("10.1.0.0/16 ::/128 ::2/127 "), "{}", nets(&w));
    w.set_forwarding(Forwarding::Vip);
    assert_eq!(nets(&w), "");
}

// healthCheckNodePort of LoadBalancer Services under Local: how many endpoints are ready here, and
// not those that are terminating.
#[test]
fn health_checks_count_what_is_ready_here() {
    let spec = "type: LoadBalancer, loadBalancerIP: 192.0.2.100, externalTrafficPolicy: Local, \
                healthCheckNodePort: 31080";
    let here = |w: &World| health_checks(w).iter().map(|h| h.ready_here).collect::<Vec<_>>();
    let w = all("a", &service(spec));
    let web = HealthCheck { port: 31080, service: key("web"), ready_here: 1 };
    assert_eq!(health_checks(&w), [web]);
    assert_eq!(here(&all("c", &service(spec))), [0]);
    let ending = service(spec)
        .replace("nodeName: a, ", "nodeName: a, conditions: {ready: false, terminating: true}");
    assert_eq!(here(&all("a", &ending)), [0]);
    assert_eq!(
        here(&all("a", &service(&spec.replace("Policy: Local", "Policy: Cluster")))),
        [0; 0]
    );
    assert_eq!(here(&world("a", &service(spec))), [0; 0], "the other proxy answers");
}

// loadBalancerSourceRanges guard a LoadBalancer Service's addresses and nothing else; a family that
// they do not name is open (kube-proxy's `serviceport.go`), and said to be.
#[test]
fn source_ranges_guard_the_addresses() {
    let lb = |ranges: &str| {
        service(&format!(
            "type: LoadBalancer, clusterIP: 10.96.0.1, loadBalancerIP: 192.0.2.100, \
             externalIPs: [192.0.2.101], loadBalancerSourceRanges: [{ranges}]"
        ))
    };
    let open = |vip: String| {
        [
            vip,
            format!("192.0.2.101:80/TCP {AB} | same"),
            format!("10.96.0.1:80/TCP {AB} | same"),
            format!("NodePort 30080/TCP (IPv4) {AB} | same"),
        ]
    };
    let check = |ranges: &str, vip: &str| {
        let want = open(vip.replace("AB", AB));
        check("a", &lb(ranges), &want.each_ref().map(String::as_str));
    };
    // Adjacent and nested ranges are one; spaces are trimmed.
    check(
        "\" 198.51.100.0/25 \", 198.51.100.128/25, 198.51.100.7/32, '2001:db8::/32'",
        "192.0.2.100:80/TCP AB | same | processes Drop | from 198.51.100.0/24",
    );
    // An address of this node is inside: its processes may ask.
    check("192.0.2.11/32", "192.0.2.100:80/TCP AB | same | from 192.0.2.11/32");
    check("198.19.1.0/24", "192.0.2.100:80/TCP AB | same | from 198.19.1.0/24");
    check("'2001:db8::/32'", "192.0.2.100:80/TCP AB | same");
    let told = |ranges: &str| {
        let all = diagnostics(&all("a", &lb(ranges)));
        all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(told("10.0.0.0/8"), "");
    let open = told("'2001:db8::/32'");
    assert!(
        open.contains("warning: Service demo/web: spec.loadBalancerSourceRanges has no IPv4 range"),
        "{open}"
    );
    // Nobody serves: a refusal comes first.
    let nobody = service_of(
        "type: LoadBalancer, loadBalancerIP: 192.0.2.100, ipFamilies: [IPv4], loadBalancerSourceRanges: [10.0.0.0/8]",
        "",
    );
    let got = print(table(&all("a", &nobody), &key("web"), &"a".into()).as_ref());
    assert!(got.starts_with("192.0.2.100:80/TCP | same | from 10.0.0.0/8\n"), "{got}");
}
