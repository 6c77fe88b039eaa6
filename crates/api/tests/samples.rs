//! Whole files, as `kubectl get -o yaml`, the API and MetalLB's documentation write them.
#![allow(clippy::unwrap_used)]

use signpost_api::{Object, Parsed, parse};
use signpost_plan::world::{
    Affinity, Endpoint, EndpointPort, EndpointSlice, Hints, L2Advertisement, LabelSelector, Node,
    Pool, Requirement, Service, ServiceKind, ServicePort, TrafficPolicy,
};
use signpost_plan::{Family, Protocol, ServiceKey};

macro_rules! sample {
    ($name:literal) => {
        parse($name, include_str!(concat!("data/", $name)))
    };
}

/// Its objects, without their places.
fn objects(parsed: Parsed) -> Vec<Object> {
    assert!(parsed.complete);
    let mut objects = parsed.objects;
    for o in &mut objects {
        match o {
            Object::Service(s) => s.span = None,
            Object::Slice(s) => s.span = None,
            Object::Node(n) => n.span = None,
            Object::Pool(p) => p.span = None,
            Object::Advertisement(a) => a.span = None,
        }
    }
    objects
}

fn told(parsed: &Parsed) -> Vec<String> {
    parsed.diagnostics.iter().map(ToString::to_string).collect()
}

fn key(namespace: &str, name: &str) -> ServiceKey {
    ServiceKey { namespace: namespace.into(), name: name.into() }
}

fn port(name: &str, protocol: Protocol, port: u16, node_port: u16) -> ServicePort {
    ServicePort { name: name.into(), protocol, port, node_port: Some(node_port) }
}

#[test]
fn kubectl_services() {
    let parsed = sample!("kubectl-services.yaml");
    assert_eq!(told(&parsed), [""; 0]);
    let places: Vec<_> = parsed
        .objects
        .iter()
        .map(|o| match o {
            Object::Service(s) => s.span.as_ref().unwrap().to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(places[..2], ["kubectl-services.yaml:3:3", "kubectl-services.yaml:31:3"]);
    let web = Service {
        key: key("demo", "web"),
        span: None,
        created: Some(1_772_443_815),
        kind: ServiceKind::LoadBalancer,
        external_policy: TrafficPolicy::Local,
        ports: [port("http", Protocol::Tcp, 80, 30080), port("dns", Protocol::Udp, 53, 30053)]
            .into(),
        internal_policy: TrafficPolicy::Cluster,
        addresses: ["192.0.2.100".parse().unwrap()].into(),
        external_ips: [].into(),
        cluster_ips: ["10.96.175.255".parse().unwrap()].into(),
        families: [Family::V4].into(),
        affinity: Affinity::None,
        source_ranges: [].into(),
        health_check_port: Some(31080),
        publishes_not_ready: false,
        ours: true,
        proxied: true,
    };
    let objects = objects(parsed);
    assert_eq!(objects.len(), 3);
    assert_eq!(objects[1], Object::Service(web));
    let Object::Service(alias) = &objects[2] else { panic!("{:?}", objects[2]) };
    assert_eq!((alias.kind, alias.created), (ServiceKind::ExternalName, None));
}

#[test]
fn the_apis_own_list_has_items_without_a_kind() {
    let parsed = sample!("api-services.json");
    assert_eq!(told(&parsed), [""; 0]);
    let web = Service {
        key: key("demo", "web"),
        span: None,
        created: Some(1_772_443_815),
        kind: ServiceKind::LoadBalancer,
        external_policy: TrafficPolicy::Cluster,
        internal_policy: TrafficPolicy::Cluster,
        ports: [port("", Protocol::Tcp, 443, 30443)].into(),
        // Asked for and given: once.
        addresses: ["192.0.2.101".parse().unwrap()].into(),
        external_ips: [].into(),
        cluster_ips: [].into(),
        families: [Family::V4, Family::V6].into(),
        affinity: Affinity::None,
        source_ranges: [].into(),
        health_check_port: None,
        publishes_not_ready: false,
        ours: true,
        proxied: true,
    };
    assert_eq!(objects(parsed), [Object::Service(web)]);
}

#[test]
fn kubectl_endpointslices() {
    let parsed = sample!("kubectl-endpointslices.yaml");
    assert_eq!(told(&parsed), [""; 0]);
    let endpoint = |address: &str, node: Option<&str>, ready, terminating| Endpoint {
        address: address.parse().unwrap(),
        node: node.map(Into::into),
        ready,
        serving: true,
        terminating,
        hints: Hints::default(),
    };
    let rack = Hints { zones: vec!["rack-1".into()], nodes: Vec::new() };
    let port =
        |name: &str, protocol, port| EndpointPort { name: name.into(), protocol, port: Some(port) };
    let web = EndpointSlice {
        service: key("demo", "web"),
        name: "web-x7k2p".into(),
        span: None,
        ports: vec![port("http", Protocol::Tcp, 8080), port("dns", Protocol::Udp, 5353)],
        endpoints: vec![
            Endpoint { hints: rack, ..endpoint("10.244.1.5", Some("node-a"), true, false) },
            endpoint("10.244.2.5", Some("node-b"), false, true),
            endpoint("10.244.3.5", None, true, false),
        ],
    };
    let empty = EndpointSlice {
        service: key("demo", "empty"),
        name: "empty-zzzzz".into(),
        span: None,
        ports: Vec::new(),
        endpoints: Vec::new(),
    };
    assert_eq!(objects(parsed), [Object::Slice(web), Object::Slice(empty)]);
}

#[test]
fn kubectl_nodes() {
    let parsed = sample!("kubectl-nodes.yaml");
    assert_eq!(told(&parsed), [""; 0]);
    let exclude = "node.kubernetes.io/exclude-from-external-load-balancers";
    let labels = [
        ("kubernetes.io/hostname", "node-a"),
        ("node-role.kubernetes.io/control-plane", ""),
        (exclude, ""),
    ];
    let a = Node {
        name: "node-a".into(),
        span: None,
        labels: labels.into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
        internal_ips: vec!["192.0.2.11".parse().unwrap(), "2001:db8::11".parse().unwrap()],
        pod_cidrs: vec!["10.244.1.0/24".parse().unwrap(), "2001:db8:1::/64".parse().unwrap()],
        zone: None,
        leaving: false,
        excluded: true,
        network_unavailable: false,
    };
    let b = Node {
        name: "node-b".into(),
        span: None,
        labels: Default::default(),
        internal_ips: vec!["192.0.2.12".parse().unwrap()],
        pod_cidrs: vec!["10.244.2.0/24".parse().unwrap()],
        zone: None,
        leaving: false,
        excluded: false,
        network_unavailable: true,
    };
    assert_eq!(objects(parsed), [Object::Node(a), Object::Node(b)]);
}

#[test]
fn metallb_pools() {
    let parsed = sample!("metallb-pools.yaml");
    let notes = told(&parsed);
    assert_eq!(notes.len(), 1, "{notes:#?}");
    assert!(notes[0].starts_with(
        "metallb-pools.yaml:27:5: warning: IPAddressPool for-teams: spec.serviceAllocation: not applied"
    ));
    let range = |first: &str, last: &str| (first.parse().unwrap(), last.parse().unwrap());
    let first = Pool {
        name: "first".into(),
        span: None,
        labels: [("zone".into(), "edge".into())].into(),
        ranges: vec![
            range("192.0.2.96", "192.0.2.127"),
            range("198.51.100.1", "198.51.100.5"),
            range("203.0.113.9", "203.0.113.9"),
            range("fc00:f853:ccd:e799::", "fc00:f853:ccd:e799::f"),
        ],
    };
    assert_eq!(objects(parsed)[0], Object::Pool(first));
}

#[test]
fn metallb_l2advertisements() {
    let parsed = sample!("metallb-l2advertisements.yaml");
    // One note a kind, however many there are.
    assert_eq!(
        told(&parsed),
        [
            "metallb-l2advertisements.yaml:29:1: note: metallb.io/v1beta2 BGPPeer: this kind is not read"
        ]
    );
    let is = |key: &str, value: &str| Requirement::In(key.into(), vec![value.into()]);
    let everything = L2Advertisement {
        name: "everything".into(),
        span: None,
        pools: Vec::new(),
        pool_selectors: Vec::new(),
        node_selectors: Vec::new(),
        interfaces: Vec::new(),
    };
    let chosen = L2Advertisement {
        name: "chosen".into(),
        span: None,
        pools: vec!["first".into()],
        pool_selectors: vec![LabelSelector(vec![
            is("zone", "edge"),
            Requirement::NotIn("tier".into(), vec!["test".into()]),
        ])],
        node_selectors: vec![
            LabelSelector(vec![is("kubernetes.io/hostname", "node-a")]),
            LabelSelector(vec![Requirement::Exists("spare".into())]),
        ],
        interfaces: vec!["eth1".into(), "bond0.100".into()],
    };
    assert_eq!(objects(parsed), [Object::Advertisement(everything), Object::Advertisement(chosen)]);
}

#[test]
fn a_node_that_is_about_to_go() {
    let leaving = |more: &str| {
        let text = format!("{{apiVersion: v1, kind: Node, {more}}}");
        match objects(parse("node.yaml", &text)).as_slice() {
            [Object::Node(node)] => node.leaving,
            other => panic!("{other:?}"),
        }
    };
    assert!(!leaving("metadata: {name: a}, spec: {taints: [{key: a/b, effect: NoSchedule}]}"));
    assert!(leaving(
        "metadata: {name: a}, spec: {taints: [{key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}]}"
    ));
    assert!(leaving("metadata: {name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}"));
}
