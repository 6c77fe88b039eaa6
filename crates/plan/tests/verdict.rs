//! The gate, one row a reason, and what keeps it open.
#![allow(clippy::unwrap_used)]

mod cluster;

use cluster::{host, key, service, settled, slice, vip, web, world};
use signpost_plan::world::{Change, Host};
use signpost_plan::{
    Answer, FULL_WEIGHT, Lease, LinkIndex, Observed, Reason, Verdict, World, eligible, explain,
    table, unserved, verdict,
};

const AB: &[&str] = &["198.19.1.5 a", "198.19.2.5 b"];

/// The reason why a settled node withholds the address.
#[track_caller]
fn withheld(w: &World, expect: Reason) {
    let o = settled(w);
    assert_eq!(verdict(w, &o, vip()), Verdict::Withhold(expect));
    told(w, &o, expect);
}

/// Every reason is told in one sentence, with a cure.
#[track_caller]
fn told(w: &World, o: &Observed, expect: Reason) {
    let why = explain(w, o, vip()).unwrap();
    assert_eq!(why.reason, expect);
    assert!(!why.sentence.is_empty() && !why.cure.is_empty(), "{why:?}");
    assert!(!why.sentence.contains("  ") && !why.sentence.ends_with('.'), "{why:?}");
}

/// The weight that a settled node offers.
#[track_caller]
fn offers(node: &str, yaml: &str) -> Result<u16, Reason> {
    let w = world(node, yaml);
    let o = settled(&w);
    eligible(&w, &o, vip()).map(|offer| offer.weight).inspect_err(|reason| told(&w, &o, *reason))
}

fn with_host(mut w: World, change: impl FnOnce(&mut Host)) -> World {
    let mut h = host(w.this_node().0.as_ref());
    change(&mut h);
    w.apply(Change::Host(h));
    w
}

#[test]
fn an_owner_answers_and_the_others_stand_by() {
    let w = world("a", &web("Cluster", AB));
    let mut o = settled(&w);
    assert_eq!(verdict(&w, &o, vip()), Verdict::Own(vec![LinkIndex(2)]));
    o.owners.insert(vip(), "b".into());
    assert_eq!(verdict(&w, &o, vip()), Verdict::StandBy("b".into()));
    o.owners.clear();
    assert_eq!(verdict(&w, &o, vip()), Verdict::Withhold(Reason::Undecided));
    o.cut_off = true;
    assert_eq!(verdict(&w, &o, vip()), Verdict::Withhold(Reason::CutOff));
}

// What is declared.

#[test]
fn an_address_that_nobody_asks_for() {
    withheld(&world("a", ""), Reason::NoService);
    withheld(
        &world("a", &web("Cluster", AB).replace("LoadBalancer", "NodePort")),
        Reason::NoService,
    );
}

#[test]
fn an_address_outside_the_pools() {
    let mut w = world("a", &web("Cluster", AB));
    w.apply(Change::PoolGone("first".into()));
    withheld(&w, Reason::OutsidePools);
}

#[test]
fn an_address_that_a_node_bears() {
    let w = world(
        "a",
        &(web("Cluster", AB)
            + "\n---\n{apiVersion: v1, kind: Node, metadata: {name: b}, status: {addresses: [{type: InternalIP, address: 192.0.2.100}]}}"),
    );
    withheld(&w, Reason::NodeAddress);
}

// MetalLB: a pool that no L2Advertisement selects is not announced.
#[test]
fn a_pool_without_advertisement() {
    let mut w = world("a", &web("Cluster", AB));
    w.apply(Change::AdvertisementGone("all".into()));
    withheld(&w, Reason::NotAdvertised);
    let other = web("Cluster", AB) + &advertisement("ipAddressPools: [second]");
    withheld(&world("a", &other), Reason::NotAdvertised);
}

fn advertisement(spec: &str) -> String {
    format!(
        "\n---\n{{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {{name: all}}, spec: {{{spec}}}}}\n"
    )
}

// MetalLB: pools by name or by label, nodes by label; several selectors are alternatives.
#[test]
fn selectors_choose_pools_and_nodes() {
    let yaml = |spec: &str| web("Cluster", AB) + &advertisement(spec);
    let ssd = yaml("nodeSelectors: [{matchLabels: {disk: ssd}}]");
    assert_eq!(offers("a", &ssd), Ok(FULL_WEIGHT));
    assert_eq!(offers("b", &ssd), Err(Reason::NodeNotSelected));
    let either = yaml(
        "nodeSelectors: [{matchLabels: {disk: ssd}}, {matchExpressions: [{key: disk, operator: DoesNotExist}]}]",
    );
    assert_eq!(offers("b", &either), Ok(FULL_WEIGHT));
    let not =
        yaml("nodeSelectors: [{matchExpressions: [{key: disk, operator: NotIn, values: [ssd]}]}]");
    assert_eq!(offers("a", &not), Err(Reason::NodeNotSelected));
    assert_eq!(offers("b", &not), Ok(FULL_WEIGHT));
    assert_eq!(offers("a", &yaml("ipAddressPools: [first]")), Ok(FULL_WEIGHT));
    let by_label = yaml("ipAddressPoolSelectors: [{matchLabels: {zone: edge}}]");
    assert_eq!(offers("a", &by_label), Err(Reason::NotAdvertised));
    let labelled = by_label
        + "\n---\n{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: first, labels: {zone: edge}}, spec: {addresses: [192.0.2.100/32]}}";
    assert_eq!(offers("a", &labelled), Ok(FULL_WEIGHT));
}

// KEP-1143 and MetalLB: the label excludes by being there, the condition by being True.
#[test]
fn nodes_that_are_excluded_or_without_network() {
    let node = |fields: &str| {
        web("Cluster", AB) + &format!("\n---\n{{apiVersion: v1, kind: Node, {fields}}}\n")
    };
    let label = node(
        "metadata: {name: a, labels: {node.kubernetes.io/exclude-from-external-load-balancers: ''}}",
    );
    assert_eq!(offers("a", &label), Err(Reason::NodeExcluded));
    assert_eq!(offers("b", &label), Ok(FULL_WEIGHT));
    let condition = |status: &str| {
        node(&format!(
            "metadata: {{name: a}}, status: {{conditions: [{{type: NetworkUnavailable, status: '{status}'}}]}}"
        ))
    };
    assert_eq!(offers("a", &condition("True")), Err(Reason::NetworkUnavailable));
    assert_eq!(offers("a", &condition("False")), Ok(FULL_WEIGHT));
}

// What this machine is.

#[test]
fn links_must_carry_and_forward() {
    let w = || world("a", &web("Cluster", AB));
    let eth0 = LinkIndex(2);
    withheld(&with_host(w(), |h| h.links.clear()), Reason::NoLink);
    withheld(&with_host(w(), |h| h.links.get_mut(&eth0).unwrap().up = false), Reason::CarrierDown);
    let deaf = with_host(w(), |h| h.links.get_mut(&eth0).unwrap().forwarding = false);
    withheld(&deaf, Reason::ForwardingDisabled);
    let why = explain(&deaf, &settled(&deaf), vip()).unwrap();
    assert_eq!(
        why.cure,
        "sysctl -w net.ipv4.conf.eth0.forwarding=1; \
         the same without `sysctl -w` in a file in /etc/sysctl.d keeps it"
    );
    // Forwarding is the arriving interface's; that of the pods' bridge does not matter.
    let bridge = with_host(w(), |h| h.links.get_mut(&LinkIndex(3)).unwrap().forwarding = false);
    assert_eq!(verdict(&bridge, &settled(&bridge), vip()), Verdict::Own(vec![eth0]));
}

// Named interfaces; else those whose subnet holds the address; else every uplink.
#[test]
fn where_an_address_is_announced() {
    let links = |spec: &str, change: fn(&mut Host)| {
        let w = with_host(world("a", &(web("Cluster", AB) + &advertisement(spec))), |h| {
            let mut second = h.links[&LinkIndex(2)].clone();
            second.name = "eth1".into();
            second.addresses = vec!["203.0.113.1/24".parse().unwrap()];
            h.links.insert(LinkIndex(4), second);
            change(h);
        });
        eligible(&w, &settled(&w), vip())
            .map(|offer| offer.links.iter().map(|l| l.0).collect::<Vec<_>>())
    };
    assert_eq!(links("", |_| {}), Ok(vec![2]));
    assert_eq!(links("interfaces: [eth1]", |_| {}), Ok(vec![4]));
    assert_eq!(links("interfaces: [eth0, eth1]", |_| {}), Ok(vec![2, 4]));
    assert_eq!(links("interfaces: [eth7]", |_| {}), Err(Reason::NoLink));
    let far = |h: &mut Host| {
        h.links.get_mut(&LinkIndex(2)).unwrap().addresses = vec!["10.9.9.9/24".parse().unwrap()];
        h.gateways.push((LinkIndex(4), None));
    };
    assert_eq!(links("", far), Ok(vec![2, 4]));
    // One interface that works is enough.
    let half = |h: &mut Host| h.links.get_mut(&LinkIndex(4)).unwrap().up = false;
    assert_eq!(links("interfaces: [eth0, eth1]", half), Ok(vec![2]));
    // No ARP without an Ethernet address.
    let tunnel = |h: &mut Host| h.links.get_mut(&LinkIndex(2)).unwrap().mac = None;
    assert_eq!(links("interfaces: [eth0]", tunnel), Err(Reason::NoLink));
}

// What serves.

#[test]
fn nodes_without_an_endpoint_withhold_under_local_only() {
    assert_eq!(offers("c", &web("Cluster", AB)), Ok(FULL_WEIGHT));
    assert_eq!(offers("c", &web("Local", AB)), Err(Reason::NoLocalEndpoints));
    assert_eq!(offers("a", &web("Local", AB)), Ok(FULL_WEIGHT));
    assert_eq!(offers("a", &web("Local", &[])), Err(Reason::NoEndpoints));
    assert_eq!(offers("a", &web("Cluster", &["198.19.1.5 a unready"])), Err(Reason::NoEndpoints));
}

// A node with only terminating endpoints announces only if no node has ready ones; it forwards
// either way.
#[test]
fn terminating_endpoints_attract_only_when_none_is_ready() {
    let some = web("Local", &["198.19.1.5 a terminating", "198.19.2.5 b"]);
    assert_eq!(offers("a", &some), Err(Reason::OnlyTerminatingHere));
    assert_eq!(offers("b", &some), Ok(FULL_WEIGHT));
    let w = world("a", &some);
    let entry = &table(&w, &key("web"), w.this_node()).unwrap().entries[0];
    assert_eq!((entry.outsiders, entry.local.len()), (Answer::Local, 1));
    let all = web("Local", &["198.19.1.5 a terminating", "198.19.2.5 b terminating"]);
    assert_eq!(offers("a", &all), Ok(0));
    assert_eq!(offers("a", &web("Cluster", &["198.19.2.5 b terminating"])), Ok(FULL_WEIGHT));
}

// A drained node stays a member of last resort.
#[test]
fn a_drained_node_offers_weight_zero() {
    let w = world("a", &web("Cluster", AB));
    let o = Observed { drained: true, ..settled(&w) };
    assert_eq!(eligible(&w, &o, vip()).unwrap().weight, 0);
}

// Services that share an address: a node that serves all of it is preferred to one that serves a
// part, and one that serves more of its ports to one that serves less.
#[test]
fn who_serves_most_ports_of_a_shared_address_is_preferred() {
    let other = |ports: &str, endpoint: &str| {
        service("other", "Local", &["192.0.2.100"], "2026-01-01T00:00:00Z")
            .replace("{name: p, port: 80}", ports)
            + &slice("other-1", "other", &[endpoint]).replace(
                "{name: p, port: 8080, protocol: TCP}",
                "{name: p, port: 8080}, {name: q, port: 8081}",
            )
    };
    let one = "{name: p, port: 443}";
    let yaml = web("Local", AB) + &other(one, "198.19.2.6 b");
    assert_eq!(offers("a", &yaml), Ok(1));
    assert_eq!(offers("b", &yaml), Ok(FULL_WEIGHT));
    assert_eq!(offers("c", &yaml), Err(Reason::NoLocalEndpoints));
    let lost = |node: &str, yaml: &str| {
        let lost = unserved(&world(node, yaml), vip());
        lost.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(lost("a", &yaml), "192.0.2.100:443/TCP");
    assert_eq!(lost("b", &yaml), "");
    // Nobody serves all: b serves two of three ports.
    let two = "{name: p, port: 443}, {name: q, port: 444}";
    let apart = web("Local", &["198.19.1.5 a"]) + &other(two, "198.19.2.6 b");
    assert_eq!((offers("a", &apart), offers("b", &apart)), (Ok(1), Ok(2)));
    assert_eq!(lost("b", &apart), "192.0.2.100:80/TCP");
    assert_eq!(lost("a", &apart), "192.0.2.100:443/TCP 192.0.2.100:444/TCP");
    // What no node serves counts for nobody.
    let dead = web("Local", AB)
        + &other(one, "198.19.2.6 b")
            .replace("ready: true, serving: true", "ready: false, serving: false");
    assert_eq!(offers("a", &dead), Ok(FULL_WEIGHT));
}

// What the kernel said.

#[test]
fn nothing_is_announced_before_the_kernel_acknowledged() {
    let w = world("a", &web("Cluster", AB));
    let mut o = Observed { acknowledged: [].into(), ..settled(&w) };
    assert_eq!(verdict(&w, &o, vip()), Verdict::Withhold(Reason::RulesNotAcknowledged));
    o.refused.insert(key("web"), 12);
    assert_eq!(verdict(&w, &o, vip()), Verdict::Withhold(Reason::RulesRefused));
    let why = explain(&w, &o, vip()).unwrap();
    assert!(why.sentence.contains("demo/web: Cannot allocate memory"), "{}", why.sentence);
}

// Newer rules in flight or refused withdraw nothing while the last acknowledged ones still serve.
#[test]
fn old_rules_that_still_serve_keep_the_gate_open() {
    let mut o = settled(&world("a", &web("Cluster", AB)));
    let check = |o: &Observed, endpoints: &[&str], expect: Option<Reason>| {
        let w = world("a", &web("Cluster", endpoints));
        assert_eq!(eligible(&w, o, vip()).err(), expect, "{endpoints:?}");
    };
    check(&o, &["198.19.2.5 b", "198.19.3.5 c"], None);
    check(&o, &["198.19.3.5 c"], Some(Reason::RulesNotAcknowledged));
    // The pod is the same and no longer serves: another one does.
    check(
        &o,
        &["198.19.1.5 a unready", "198.19.2.5 b unready", "198.19.3.5 c"],
        Some(Reason::RulesNotAcknowledged),
    );
    o.refused.insert(key("web"), 22);
    check(&o, &["198.19.2.5 b", "198.19.3.5 c"], None);
    check(&o, &["198.19.3.5 c"], Some(Reason::RulesRefused));
}

// Rules from before a change to Local may lead outsiders to other nodes: only what they lead to
// here counts.
#[test]
fn acknowledged_rules_are_judged_by_what_outsiders_get() {
    let o = settled(&world("a", &web("Local", &["198.19.1.5 a", "198.19.2.5 b"])));
    let w = world("a", &web("Cluster", &["198.19.2.5 b"]));
    assert_eq!(eligible(&w, &o, vip()), Err(Reason::RulesNotAcknowledged));
    // A table of another port of the Service proves nothing.
    let mut o = settled(&world("a", &web("Cluster", AB)));
    for entry in o.acknowledged.values_mut().flat_map(|t| &mut t.entries) {
        entry.frontend.port = 81;
    }
    let w = world("a", &web("Cluster", AB));
    assert_eq!(eligible(&w, &o, vip()), Err(Reason::RulesNotAcknowledged));
}

#[test]
fn damage_and_a_hung_loop_withdraw() {
    let w = world("a", &web("Cluster", AB));
    let mut o = settled(&w);
    o.damaged.insert("192.0.2.101".parse().unwrap());
    assert!(eligible(&w, &o, vip()).is_ok(), "an edit concerns its address alone");
    o.damaged.insert(vip());
    assert_eq!(eligible(&w, &o, vip()), Err(Reason::RulesDamaged));
    let o = Observed { lease: Lease::Lapsed, ..settled(&w) };
    assert_eq!(verdict(&w, &o, vip()), Verdict::Withhold(Reason::ControlHung));
    assert!(eligible(&w, &o, vip()).is_ok(), "the wire withdraws alone, and comes back alone");
}

// Whoever writes files has no kubectl: a cure names the object and its field.
#[test]
fn cures_name_the_object_and_its_field() {
    let check = |yaml: &str, expect: Reason, cure: &str| {
        let w = world("a", yaml);
        let why = explain(&w, &settled(&w), vip()).unwrap();
        assert_eq!((why.reason, &*why.cure), (expect, cure));
    };
    check(
        &web("Cluster", &["198.19.1.5 a unready"]),
        Reason::NoEndpoints,
        "look at the EndpointSlices of demo/web (label kubernetes.io/service-name): one needs the \
         Service's port and an endpoint with conditions.ready true",
    );
    let label = "node.kubernetes.io/exclude-from-external-load-balancers";
    let node = format!(
        "\n---\n{{apiVersion: v1, kind: Node, metadata: {{name: a, labels: {{{label}: \"\"}}}}}}\n"
    );
    check(
        &(web("Cluster", AB) + &node),
        Reason::NodeExcluded,
        "take that label off the Node a (metadata.labels)",
    );
}

// Reasons have stable names, one sentence and, explained, a cure.
#[test]
fn every_reason_is_told() {
    let w = world("a", &web("Local", AB));
    let o = Observed { acknowledged: [].into(), ..settled(&w) };
    let why = explain(&w, &o, vip()).unwrap();
    assert_eq!(why.reason.name(), "RulesNotAcknowledged");
    assert_eq!(why.sentence, "the kernel has not acknowledged the rules of demo/web yet");
    assert!(!why.cure.is_empty());
    assert_eq!(explain(&w, &settled(&w), vip()), None);
    let c = world("c", &web("Local", AB));
    let why = explain(&c, &settled(&c), vip()).unwrap();
    assert_eq!(
        why.sentence,
        "externalTrafficPolicy is Local, and no endpoint of demo/web serves on c"
    );
}
