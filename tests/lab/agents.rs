//! The real agents, judged by what a client hears and gets.

use std::net::Ipv4Addr;
use std::time::Duration;

use signpost_lab::arp::{Sniffer, who_has};
use signpost_lab::manifest::{Policy, Service, State, Transport};
use signpost_lab::matrix::{self, Expected, Forward, Scope};
use signpost_lab::{Fault, Lab};

use crate::{dual_lab, lab};

const SOON: Duration = Duration::from_secs(10);
const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 100);

fn serve(lab: &Lab, endpoints: &[&str]) {
    let endpoints = endpoints.iter().map(|p| (*p, State::Ready)).collect();
    let web = Service::balanced("web", VIP, Policy::Local, endpoints);
    lab.write_manifest(&web.file(), &web.yaml(lab.topology())).unwrap();
}

/// Who answers the client's ARP.
fn owners(lab: &Lab) -> Vec<String> {
    let client = lab.namespace("client").unwrap();
    let own = lab.topology().clients[0].address;
    let macs = who_has(&client, own, VIP, Duration::from_millis(30)).unwrap();
    let nodes = lab.topology().nodes.iter();
    nodes
        .filter(|n| macs.iter().any(|m| m.to_string() == n.mac()))
        .map(|n| n.name.clone())
        .collect()
}

fn one_owner(lab: &Lab, wished: impl Fn(&str) -> bool) -> String {
    let mut found = Vec::new();
    lab.wait_until("one owner", SOON, || {
        found = owners(lab);
        matches!(&found[..], [one] if wished(one))
    })
    .unwrap_or_else(|e| panic!("{e}: {found:?} answer"));
    found.remove(0)
}

/// Waits until every node's agent hears every other.
fn all_alive(lab: &Lab) {
    lab.wait_until("members hear each other", SOON, || {
        lab.topology().nodes.iter().all(|n| {
            lab.status(&n.name).is_ok_and(|s| {
                s["members"].as_array().is_some_and(|m| m.iter().all(|m| m["state"] == "alive"))
            })
        })
    })
    .unwrap();
}

pub(crate) fn every_cell_is_as_expected() {
    let lab = dual_lab(Some(&[]));
    let scope = Scope::of(Forward::Vip, lab.topology());
    let text = include_str!("../../crates/lab/data/expected-matrix.md");
    let report = matrix::run(&lab, &text.parse().unwrap(), &scope).unwrap();
    assert!(report.holds(), "{}", report.text());
    // One cell of the expectation changed: the same kernel is not as expected any more.
    let wrong =
        text.replace("LoadBalancer, Local | OK L keep |", "LoadBalancer, Local | OK L node |");
    assert_ne!(wrong, text);
    let wrong: Expected = wrong.parse().unwrap();
    let report = matrix::run(&lab, &wrong, &scope).unwrap();
    assert!(!report.holds(), "a wrong expectation goes unnoticed");
}

pub(crate) fn every_kind_is_as_expected() {
    let lab = dual_lab(Some(&["--forward", "all"]));
    let mut scope = Scope::of(Forward::All, lab.topology());
    scope.transports.push(Transport::Sctp);
    let report = matrix::run(&lab, &Expected::built_in(), &scope).unwrap();
    assert!(report.holds(), "{}", report.text());
}

pub(crate) fn held_writes_announce_nothing() {
    let mut lab = lab(true, &[]);
    let mut sniffer = Sniffer::start(&lab.namespace("client").unwrap()).unwrap();
    all_alive(&lab);
    lab.fault(Fault::HoldWrites, "node-b").unwrap();
    serve(&lab, &["b1"]);
    // The agent has seen the Service, and says what it waits for.
    lab.wait_until("node-b waits for its kernel", SOON, || {
        lab.status("node-b").is_ok_and(|s| s["addresses"][0]["reason"] == "RulesNotAcknowledged")
    })
    .unwrap();
    assert_eq!(owners(&lab), Vec::<String>::new());
    assert_eq!(sniffer.claims(VIP), vec![], "an address without rules was announced");
    lab.mend(Fault::HoldWrites, "node-b").unwrap();
    one_owner(&lab, |o| o == "node-b");
    assert!(!sniffer.claims(VIP).is_empty());
}

pub(crate) fn a_hung_control_loop_stops_the_wire() {
    let mut lab = lab(true, &[]);
    serve(&lab, &["b1", "c1"]);
    let old = one_owner(&lab, |_| true);
    all_alive(&lab);
    lab.fault(Fault::HangControl, &old).unwrap();
    let new = one_owner(&lab, |o| o != old);
    assert_ne!(new, old);
    lab.mend(Fault::HangControl, &old).unwrap();
}

pub(crate) fn a_stopped_agent_wakes_up_silent() {
    let mut lab = lab(true, &[]);
    serve(&lab, &["b1", "c1"]);
    let old = one_owner(&lab, |_| true);
    all_alive(&lab);
    let old_mac = lab.node(&old).unwrap().mac();
    lab.fault(Fault::Stop, &old).unwrap();
    let new = one_owner(&lab, |o| o != old);
    let mut sniffer = Sniffer::start(&lab.namespace("client").unwrap()).unwrap();
    lab.mend(Fault::Stop, &old).unwrap();
    // Asked again and again until it is a member again: only the new owner answers.
    lab.wait_until("the old owner is back", SOON, || {
        assert_eq!(owners(&lab), vec![new.clone()]);
        lab.status(&new).is_ok_and(|s| {
            s["members"].as_array().is_some_and(|m| m.iter().all(|m| m["state"] == "alive"))
        })
    })
    .unwrap();
    let old_claims = sniffer.claims(VIP).into_iter().filter(|f| f.from.to_string() == old_mac);
    assert_eq!(old_claims.count(), 0);
}

pub(crate) fn a_killed_agent_is_replaced() {
    let mut lab = lab(true, &[]);
    serve(&lab, &["b1", "c1"]);
    let old = one_owner(&lab, |_| true);
    all_alive(&lab);
    lab.fault(Fault::Kill, &old).unwrap();
    one_owner(&lab, |o| o != old);
    lab.mend(Fault::Kill, &old).unwrap();
    all_alive(&lab);
}

pub(crate) fn a_living_agent_is_not_started_again() {
    let mut lab = lab(true, &[]);
    let agents = |lab: &Lab| ["node-a", "node-b", "node-c"].map(|n| lab.agent_process(n));
    let before = agents(&lab);
    let said = lab.mend(Fault::Kill, "node-a").unwrap_err().to_string();
    let (name, pid) = (lab.name(), before[0].unwrap());
    assert!(said.contains(&format!("it runs already (process {pid})")), "{said}");
    assert!(said.contains(&format!("signpost lab fault kill node-a --name {name}")), "{said}");
    // Nor one that stands still, nor others beside it.
    lab.fault(Fault::Stop, "node-a").unwrap();
    lab.fault(Fault::Kill, "node-b").unwrap();
    let both = ["node-b", "node-a"].map(str::to_owned);
    assert!(lab.start_agents(&both).is_err());
    assert_eq!(agents(&lab), before);
    lab.mend(Fault::Stop, "node-a").unwrap();
    lab.mend(Fault::Kill, "node-b").unwrap();
    assert_ne!(agents(&lab)[1], before[1]);
    all_alive(&lab);
}

pub(crate) fn a_returning_node_leaves_the_address_where_it_is() {
    let mut lab = lab(true, &["--preempt-delay-ms", "600000"]);
    serve(&lab, &["b1", "c1"]);
    let old = one_owner(&lab, |_| true);
    all_alive(&lab);
    let old_mac = lab.node(&old).unwrap().mac();
    lab.fault(Fault::Link, &old).unwrap();
    let new = one_owner(&lab, |o| o != old);
    let mut sniffer = Sniffer::start(&lab.namespace("client").unwrap()).unwrap();
    lab.mend(Fault::Link, &old).unwrap();
    all_alive(&lab);
    assert_eq!(owners(&lab), vec![new]);
    let old_claims = sniffer.claims(VIP).into_iter().filter(|f| f.from.to_string() == old_mac);
    assert_eq!(old_claims.count(), 0, "it claimed the address before it heard who has it");
}
