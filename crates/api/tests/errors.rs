//! What is wrong with a text, where, and what comes through all the same.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use signpost_api::{Identity, Parsed, parse};

const SERVICE: &str = "\
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: demo
spec:
  type: LoadBalancer
  loadBalancerIP: 192.0.2.100
  ports:
  - {name: p, port: 80}
";

const SLICE: &str = "\
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: demo, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: p, port: 8080}]
endpoints:
- addresses: [10.1.0.5]
  nodeName: a
  conditions: {ready: true}
";

const NODE: &str = "\
apiVersion: v1
kind: Node
metadata: {name: a}
spec: {podCIDRs: [10.1.0.0/24]}
status:
  addresses: [{type: InternalIP, address: 192.0.2.11}]
";

const POOL: &str = "\
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: first}
spec:
  addresses:
  - 192.0.2.0/24
";

const ADVERTISEMENT: &str = "\
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: all}
spec:
  nodeSelectors:
  - matchExpressions: [{key: a, operator: In, values: [b]}]
  interfaces: [eth0]
";

fn told(parsed: &Parsed) -> Vec<String> {
    parsed.diagnostics.iter().map(ToString::to_string).collect()
}

/// A text with one place replaced has one diagnostic, as expected.
#[track_caller]
fn check(text: &str, from: &str, to: &str, expect: &str) -> Parsed {
    assert!(text.contains(from), "{from} is not in the text");
    assert!(told(&parse("f.yaml", text)).is_empty(), "{:?}", told(&parse("f.yaml", text)));
    let parsed = parse("f.yaml", &text.replacen(from, to, 1));
    assert_eq!(told(&parsed), [expect]);
    parsed
}

/// The same for an object that is refused: it is known by name, and its last good state may stay.
#[track_caller]
fn refused(text: &str, from: &str, to: &str, expect: &str) {
    let good = parse("f.yaml", text).objects[0].identity();
    let parsed = check(text, from, to, expect);
    assert!(parsed.complete && parsed.objects.is_empty());
    assert_eq!(parsed.broken, [good]);
}

#[test]
fn services() {
    let service = |from, to, expect: &str| refused(SERVICE, from, to, expect);
    service(
        "port: 80",
        "port: 70000",
        "f.yaml:10:21: error: Service demo/web: spec.ports[0].port: 70000 is not a port (hint: write a number from 1 to 65535)",
    );
    service(
        "port: 80",
        "port: 0",
        "f.yaml:10:21: error: Service demo/web: spec.ports[0].port: 0 is not a port (hint: write a number from 1 to 65535)",
    );
    service(
        "port: 80",
        "port: '80'",
        "f.yaml:10:21: error: Service demo/web: spec.ports[0].port: \"80\" is text, not a number (hint: write it without quotes)",
    );
    service(
        "port: 80",
        "nodePort: 80",
        "f.yaml:10:5: error: Service demo/web: spec.ports[0].port: is missing (hint: add it)",
    );
    service(
        "port: 80",
        "port: 80, protocol: ICMP",
        "f.yaml:10:35: error: Service demo/web: spec.ports[0].protocol: \"ICMP\" is not a protocol of Services (hint: write TCP, UDP or SCTP)",
    );
    service(
        "port: 80}",
        "port: 80}\n  - {name: q, port: 80}",
        "f.yaml:11:5: error: Service demo/web: spec.ports[1]: 80/TCP is spec.ports[0] already (hint: delete one)",
    );
    service(
        "port: 80}",
        "port: 80}\n  - {name: p, port: 81}",
        "f.yaml:11:5: error: Service demo/web: spec.ports[1]: has the name \"p\" of spec.ports[0] (hint: give each a name of its own)",
    );
    service(
        "  ports:\n  - {name: p, port: 80}\n",
        "",
        "f.yaml:7:3: error: Service demo/web: spec.ports: has no port (hint: add one)",
    );
    service(
        "LoadBalancer\n",
        "Loadbalancer\n",
        "f.yaml:7:9: error: Service demo/web: spec.type: \"Loadbalancer\" is not a type of Service (hint: write ClusterIP, NodePort, LoadBalancer or ExternalName)",
    );
    service(
        "type: LoadBalancer\n",
        "type: LoadBalancer\n  externalTrafficPolicy: local\n",
        "f.yaml:8:26: error: Service demo/web: spec.externalTrafficPolicy: \"local\" is not a traffic policy (hint: write Cluster or Local)",
    );
    service(
        "spec:",
        "specs:",
        "f.yaml:1:1: error: Service demo/web: spec: is missing (hint: add it)",
    );
    service(
        "  ports:\n  - {name: p, port: 80}",
        "  ports: 80",
        "f.yaml:9:10: error: Service demo/web: spec.ports: must be a list (hint: see the object's API reference)",
    );
    service(
        "  namespace: demo\n",
        "  namespace: demo\n  creationTimestamp: yesterday\n",
        "f.yaml:6:22: error: Service demo/web: metadata.creationTimestamp: \"yesterday\" is not a time (hint: write it as 2026-01-31T12:00:00Z)",
    );
}

// CVE-2021-29923: others read leading zeros as octal.
#[test]
fn addresses() {
    let service = |to, expect: &str| refused(SERVICE, "192.0.2.100", to, expect);
    service(
        "192.0.2.300",
        "f.yaml:8:19: error: Service demo/web: spec.loadBalancerIP: \"192.0.2.300\" is not an IP address (hint: write it as 192.0.2.1)",
    );
    service(
        "192.0.02.100",
        "f.yaml:8:19: error: Service demo/web: spec.loadBalancerIP: \"192.0.02.100\" is not an IP address (hint: write it without leading zeros)",
    );
    service(
        "[192.0.2.1]",
        "f.yaml:8:19: error: Service demo/web: spec.loadBalancerIP: must be text (hint: see the object's API reference)",
    );
    refused(
        SERVICE,
        "  namespace: demo\n",
        "  namespace: demo\n  annotations:\n    metallb.io/loadBalancerIPs: 192.0.2.1,nonsense\n",
        "f.yaml:7:33: error: Service demo/web: metadata.annotations.metallb.io/loadBalancerIPs: \"nonsense\" is not an IP address (hint: write it as 192.0.2.1)",
    );
    refused(
        SERVICE,
        "spec:",
        "status: {loadBalancer: {ingress: [{ip: 192.0.2.1}, {ip: x}]}}\nspec:",
        "f.yaml:6:57: error: Service demo/web: status.loadBalancer.ingress[1].ip: \"x\" is not an IP address (hint: write it as 192.0.2.1)",
    );
}

#[test]
fn where_addresses_are_asked_for() {
    let addresses = |text: &str| match &parse("f.yaml", text).objects[0] {
        signpost_api::Object::Service(s) => {
            s.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(addresses(SERVICE), "192.0.2.100");
    assert_eq!(addresses(&SERVICE.replace("192.0.2.100", "''")), "");
    let noted = SERVICE.replace("  namespace: demo\n", "  namespace: demo\n  annotations: {metallb.io/loadBalancerIPs: '192.0.2.102, 192.0.2.100', metallb.universe.tf/loadBalancerIPs: 192.0.2.103}\n");
    assert_eq!(addresses(&noted), "192.0.2.100 192.0.2.102 192.0.2.103");
    let given = SERVICE.replace("spec:", "status: {loadBalancer: {ingress: [{ip: 192.0.2.104, ipMode: Proxy}, {hostname: lb.example.com}]}}\nspec:");
    assert_eq!(addresses(&given), "192.0.2.100 192.0.2.104");
}

#[test]
fn what_is_not_served_is_said() {
    let service = |from, to, expect: &str| {
        let parsed = check(SERVICE, from, to, expect);
        assert_eq!(parsed.objects.len(), 1, "it still comes through");
    };
    service(
        "  type: LoadBalancer",
        "  loadBalancerClass: example.com/lb\n  type: LoadBalancer",
        "f.yaml:7:22: note: Service demo/web: not served: spec.loadBalancerClass \"example.com/lb\" is of another load balancer (hint: remove the class to have it served)",
    );
    service(
        "  name: web",
        "  labels: {service.kubernetes.io/service-proxy-name: x}\n  name: web",
        "f.yaml:8:3: note: Service demo/web: not served: the label service.kubernetes.io/service-proxy-name gives it to another proxy (hint: remove the label to have it served)",
    );
    service(
        "  type: LoadBalancer",
        "  clusterIP: None\n  type: LoadBalancer",
        "f.yaml:7:3: note: Service demo/web: not served: spec.clusterIP None makes it headless (hint: remove spec.clusterIP to have it served)",
    );
}

#[test]
fn what_else_a_service_says() {
    let service = |to: &str, expect: &str| {
        refused(SERVICE, "  type: LoadBalancer", &format!("  type: LoadBalancer\n  {to}"), expect);
    };
    service(
        "sessionAffinity: ClientIp",
        "f.yaml:8:20: error: Service demo/web: spec.sessionAffinity: \"ClientIp\" is not a session affinity (hint: write None or ClientIP)",
    );
    service(
        "sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}",
        "f.yaml:8:54: error: Service demo/web: spec.sessionAffinityConfig.clientIP.timeoutSeconds: is not a timeout (hint: write a number from 1 to 86400)",
    );
    service(
        "clusterIPs: [10.96.0.x]",
        "f.yaml:8:16: error: Service demo/web: spec.clusterIPs[0]: \"10.96.0.x\" is not an IP address (hint: write it as 192.0.2.1)",
    );
    service(
        "externalIPs: [192.0.02.1]",
        "f.yaml:8:17: error: Service demo/web: spec.externalIPs[0]: \"192.0.02.1\" is not an IP address (hint: write it without leading zeros)",
    );
    service(
        "loadBalancerSourceRanges: [10.0.0.0/33]",
        "f.yaml:8:30: error: Service demo/web: spec.loadBalancerSourceRanges[0]: \"10.0.0.0/33\" is not a network (hint: write it as 192.0.2.0/24)",
    );
    service(
        "ipFamilies: [IPv5]",
        "f.yaml:8:16: error: Service demo/web: spec.ipFamilies[0]: \"IPv5\" is not an address family (hint: write IPv4 or IPv6)",
    );
    service(
        "healthCheckNodePort: 70000",
        "f.yaml:8:24: error: Service demo/web: spec.healthCheckNodePort: 70000 is not a port (hint: write a number from 1 to 65535)",
    );
    service(
        "internalTrafficPolicy: local",
        "f.yaml:8:26: error: Service demo/web: spec.internalTrafficPolicy: \"local\" is not a traffic policy (hint: write Cluster or Local)",
    );
    refused(
        SERVICE,
        "port: 80",
        "port: 80, nodePort: 99999",
        "f.yaml:10:35: error: Service demo/web: spec.ports[0].nodePort: 99999 is not a port (hint: write a number from 1 to 65535)",
    );
}

#[test]
fn slices() {
    let slice = |from, to, expect: &str| refused(SLICE, from, to, expect);
    slice(
        "10.1.0.5",
        "127.0.0.1",
        "f.yaml:7:15: error: EndpointSlice demo/web-1: endpoints[0].addresses[0]: 127.0.0.1 is not an address of a pod (hint: write an address that other machines can reach)",
    );
    slice(
        "10.1.0.5",
        "169.254.169.254",
        "f.yaml:7:15: error: EndpointSlice demo/web-1: endpoints[0].addresses[0]: 169.254.169.254 is not an address of a pod (hint: write an address that other machines can reach)",
    );
    slice(
        "10.1.0.5",
        "2001:db8::1",
        "f.yaml:7:15: error: EndpointSlice demo/web-1: endpoints[0].addresses[0]: 2001:db8::1 is not of the slice's addressType (hint: write a slice for each family)",
    );
    slice(
        "[10.1.0.5]",
        "[]",
        "f.yaml:7:14: error: EndpointSlice demo/web-1: endpoints[0].addresses: is empty (hint: add an address)",
    );
    slice(
        "ready: true",
        "ready: 'true'",
        "f.yaml:9:23: error: EndpointSlice demo/web-1: endpoints[0].conditions.ready: must be true or false, without quotes (hint: see the object's API reference)",
    );
    slice(
        "nodeName: a",
        "nodeName: 1",
        "f.yaml:8:13: error: EndpointSlice demo/web-1: endpoints[0].nodeName: must be text (hint: write it in quotes)",
    );
    slice(
        "IPv4",
        "IPv5",
        "f.yaml:4:14: error: EndpointSlice demo/web-1: addressType: \"IPv5\" is not an address type (hint: write IPv4 or IPv6)",
    );
    // Left out on purpose: nothing is broken.
    let parsed = check(
        SLICE,
        "kubernetes.io/service-name",
        "app",
        "f.yaml:1:1: note: EndpointSlice demo/web-1: left out: no label kubernetes.io/service-name says which Service it is of (hint: add the label)",
    );
    assert!(parsed.objects.is_empty() && parsed.broken.is_empty());
}

#[test]
fn nodes_pools_and_advertisements() {
    refused(
        NODE,
        "10.1.0.0/24",
        "10.1.0.0/33",
        "f.yaml:4:19: error: Node a: spec.podCIDRs[0]: \"10.1.0.0/33\" is not a network (hint: write it as 192.0.2.0/24)",
    );
    refused(
        NODE,
        "192.0.2.11",
        "node-a",
        "f.yaml:6:43: error: Node a: status.addresses[0].address: \"node-a\" is not an IP address (hint: write it as 192.0.2.1)",
    );
    let pool = |to, expect: &str| refused(POOL, "192.0.2.0/24", to, expect);
    pool(
        "192.0.2.9-192.0.2.1",
        "f.yaml:6:5: error: IPAddressPool first: spec.addresses[0]: \"192.0.2.9-192.0.2.1\" ends before it starts (hint: write the lower address first)",
    );
    pool(
        "192.0.2.9-2001:db8::1",
        "f.yaml:6:5: error: IPAddressPool first: spec.addresses[0]: \"192.0.2.9-2001:db8::1\" mixes IPv4 and IPv6 (hint: write two ranges)",
    );
    pool(
        "192.0.2.0/99",
        "f.yaml:6:5: error: IPAddressPool first: spec.addresses[0]: \"192.0.2.0/99\" is not a network (hint: write it as 192.0.2.0/24)",
    );
    refused(
        POOL,
        "  - 192.0.2.0/24\n",
        "",
        "f.yaml:5:3: error: IPAddressPool first: spec.addresses: is empty (hint: add a range, as 192.0.2.0/24)",
    );
    refused(
        ADVERTISEMENT,
        "operator: In",
        "operator: Is",
        "f.yaml:6:43: error: L2Advertisement all: spec.nodeSelectors[0].matchExpressions[0].operator: \"Is\" is not an operator (hint: write In, NotIn, Exists or DoesNotExist)",
    );
    refused(
        ADVERTISEMENT,
        "eth0",
        "eth0/1",
        "f.yaml:7:16: error: L2Advertisement all: spec.interfaces[0]: \"eth0/1\" is not a name of an interface (hint: write it as `ip link` shows it)",
    );
}

// Names reach terminals and statuses: no control characters.
#[test]
fn names() {
    let parsed = check(
        SERVICE,
        "name: web",
        "name: \"we\\eb\"",
        "f.yaml:4:9: error: Service: metadata.name: \"we\\u{1b}b\" is not a name (hint: use lowercase letters, digits, '-' and '.')",
    );
    assert!(parsed.broken.is_empty(), "nobody knows which one it is");
    let parsed = check(
        SERVICE,
        "  name: web\n",
        "",
        "f.yaml:4:3: error: Service: metadata.name: is missing (hint: add it)",
    );
    assert!(parsed.complete);
}

#[test]
fn an_error_stays_in_its_object() {
    let bad = SERVICE.replace("port: 80", "port: 70000");
    let text = format!(
        "{NODE}---\n{bad}---\n{SLICE}---\n{{apiVersion: v1, kind: List, items: [{{}}, 7, {{apiVersion: v1, kind: Node, metadata: {{name: b}}}}]}}\n---\n- 1\n---\n{POOL}"
    );
    let parsed = parse("f.yaml", &text);
    assert!(parsed.complete);
    let names: Vec<_> = parsed.objects.iter().map(|o| o.identity().to_string()).collect();
    assert_eq!(names, ["Node a", "EndpointSlice demo/web-1", "Node b", "IPAddressPool first"]);
    assert_eq!(
        parsed.broken.iter().map(Identity::to_string).collect::<Vec<_>>(),
        ["Service demo/web"]
    );
    let errors = told(&parsed);
    assert_eq!(errors.len(), 4, "{errors:#?}");
    assert!(
        errors[0].starts_with("f.yaml:17:21: error: Service demo/web: spec.ports[0].port: 70000")
    );
    assert!(errors[1..].iter().all(|e| e.contains("not a Kubernetes object")), "{errors:#?}");
}

// Not YAML: nothing can be said of what the file does not hold, so that the caller keeps all of it.
#[test]
fn a_text_that_is_no_yaml_is_incomplete() {
    for (text, place) in [
        ("apiVersion: v1\nkind: [Service\nmetadata: {}\n", "f.yaml:3:"),
        ("a: b\n c: d\n", "f.yaml:2:"),
        ("a: 1\na: 2\n", "f.yaml:2:"),
        ("a: *nobody\n", "f.yaml:1:"),
        ("{\"apiVersion\": \"v1\", ", "f.yaml:1:"),
    ] {
        let parsed = parse("f.yaml", text);
        assert!(!parsed.complete && parsed.objects.is_empty(), "{text}");
        let told = told(&parsed);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with(place) && told[0].contains(": error: not YAML: "), "{told:?}");
        assert!(told[0].ends_with("(hint: its last good objects stay until it is mended)"));
    }
    assert_eq!(parse("f.yaml", ""), Parsed { complete: true, ..Parsed::default() });
    assert_eq!(
        parse("f.yaml", "---\n# nothing\n---\n"),
        Parsed { complete: true, ..Parsed::default() }
    );
}

// Anchors work, and do not blow up.
#[test]
fn aliases_are_followed_within_limits() {
    let text = "
apiVersion: v1
kind: List
items:
- &web
  apiVersion: v1
  kind: Service
  metadata: {name: web, namespace: demo}
  spec: &spec {type: LoadBalancer, ports: [{port: 80}]}
- apiVersion: v1
  kind: Service
  metadata: {name: other, namespace: demo}
  spec:
    <<: *spec
    loadBalancerIP: 192.0.2.7
";
    let parsed = parse("f.yaml", text);
    assert_eq!(told(&parsed), [""; 0]);
    assert_eq!(parsed.objects.len(), 2);
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
        laughs += &format!("a{i}: &a{i} [{aliases}]\n");
    }
    assert!(!parse("f.yaml", &laughs).complete);
    let deep = "[".repeat(100_000);
    assert!(!parse("f.yaml", &deep).complete);
    let nested = format!("a: {}{}", "{a: ".repeat(60), "}".repeat(60));
    assert!(!parse("f.yaml", &nested).complete);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // Whatever is written, nothing panics, and every object that comes through was well written.
    #[test]
    fn anything_may_be_written(at in 0usize..1000, cut in 0usize..20, put in "[-:{}\\[\\]#&*!|>'\"%@`a0 \\n\\t.,~é\u{0}]{0,6}") {
        let all = [SERVICE, SLICE, NODE, POOL, ADVERTISEMENT].join("---\n");
        let at = at.min(all.len());
        let end = (at + cut).min(all.len());
        let text = format!("{}{put}{}", &all[..at], &all[end..]);
        let parsed = parse("f.yaml", &text);
        prop_assert!(parsed.complete || parsed.objects.is_empty());
        prop_assert!(parsed.objects.len() <= 8);
    }

    #[test]
    fn noise_is_survived(text in "\\PC*") {
        parse("f.yaml", &text);
    }
}
