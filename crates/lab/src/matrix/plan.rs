//! Which cells there are, and what each must be.

use std::net::IpAddr;

use super::expect::{Expectation, Expected, Served, Set};
use super::judge::Case;
use super::row::{Column, Kind, Row, When};
use super::scenario::Scenario;
use super::scope::Scope;
use super::second;
use crate::Family;
use crate::manifest::Transport;
use crate::probe::{Protocol, Target};
use crate::topology::{Node, Topology};

/// A port that no Service has, at an address of one.
const CLOSED_PORT: u16 = 81;

/// A port of nodes that no Service has.
const CLOSED_NODE_PORT: u16 = 32_700;

/// A cell before it is measured.
pub(super) struct Plan<'a> {
    pub(super) from: String,
    pub(super) member: &'a str,
    pub(super) service: &'a str,
    pub(super) target: Target,
    pub(super) row: Row,
    pub(super) column: Column,
    pub(super) case: Case<'a>,
}

/// Everything that plans come from.
pub(super) struct Planner<'a> {
    pub(super) t: &'a Topology,
    pub(super) expected: &'a Expected,
    pub(super) scope: &'a Scope,
    pub(super) plans: Vec<Plan<'a>>,
}

/// Who asks.
struct Sender<'a> {
    from: String,
    member: &'a str,
    address: IpAddr,
    /// Where its packets are translated.
    node: &'a Node,
    pod: Option<&'a str>,
    host: bool,
    column: Column,
}

impl<'a> Planner<'a> {
    /// The clients of both subnets, by one node.
    pub(super) fn outsiders(&mut self, s: &Scenario<'a>, kind: Kind, node: &'a Node) {
        for family in self.scope.families.clone() {
            self.outsiders_of(s, kind, node, family);
        }
    }

    /// The same in one family.
    pub(super) fn outsiders_of(
        &mut self,
        s: &Scenario<'a>,
        kind: Kind,
        node: &'a Node,
        family: Family,
    ) {
        let with = !s.local(self.t, node).is_empty();
        let column = if with { Column::OutsiderWith } else { Column::OutsiderWithout };
        for client in self.t.outsiders() {
            let Some(address) = client.at(family) else { continue };
            let sender = Sender {
                from: format!("external {address}"),
                member: &client.name,
                address,
                node,
                pod: None,
                host: false,
                column,
            };
            self.ask(s, kind, &sender);
        }
    }

    /// Every node's own processes, and every pod.
    pub(super) fn insiders(&mut self, s: &Scenario<'a>, kind: Kind) {
        for node in &self.t.nodes {
            self.of_node(s, kind, node, node);
        }
    }

    /// The same, by the addresses of other nodes.
    pub(super) fn elsewhere(&mut self, s: &Scenario<'a>, kind: Kind) {
        for node in &self.t.nodes {
            for other in self.t.nodes.iter().filter(|o| o.name != node.name) {
                self.of_node(s, kind, other, node);
            }
        }
    }

    /// The senders on a node `at`, where `node` translates.
    fn of_node(&mut self, s: &Scenario<'a>, kind: Kind, at: &'a Node, node: &'a Node) {
        let own = at.name == node.name;
        let serving = [s.cluster(), s.local(self.t, at)].concat();
        for family in self.scope.families.clone() {
            if let Some(address) = at.at(family) {
                let host = Sender {
                    from: format!("node {}", at.name),
                    member: &at.name,
                    address,
                    node,
                    pod: None,
                    host: true,
                    column: if own { Column::Host } else { Column::HostElsewhere },
                };
                self.ask(s, kind, &host);
            }
            for pod in &at.pods {
                let Some(address) = pod.at(family) else { continue };
                let sender = Sender {
                    from: format!("pod@{}/{}", at.name, pod.name),
                    member: &pod.name,
                    address,
                    node,
                    pod: Some(&pod.name),
                    host: false,
                    column: match (own, serving.contains(&pod.name.as_str())) {
                        (true, true) => Column::Endpoint,
                        (true, false) => Column::Pod,
                        (false, _) => Column::PodElsewhere,
                    },
                };
                self.ask(s, kind, &sender);
            }
        }
    }

    /// All that one sender asks of a Service's addresses of a kind, in the sender's family.
    fn ask(&mut self, s: &Scenario<'a>, kind: Kind, sender: &Sender<'a>) {
        let family = Family::of(sender.address);
        let addresses = s.addresses(kind, family, sender.node);
        if addresses.is_empty() {
            return;
        }
        // Of what nobody serves there are no associations: the kernel has no SCTP of its own.
        let usual = [Protocol::Tcp, Protocol::Udp];
        let all = self.scope.transports.iter().map(|t| protocol(*t));
        let is_served = s.row(kind).when != When::OtherProxy;
        let transports: Vec<Protocol> = all.filter(|p| is_served || usual.contains(p)).collect();
        let port = s.port(kind);
        for address in addresses {
            self.put(s, s.row(kind), sender, address, port, &transports);
            if !s.asks_more {
                continue;
            }
            let closed = if kind == Kind::NodePort { CLOSED_NODE_PORT } else { CLOSED_PORT };
            let row = |when| Row { kind, when };
            self.put(s, row(When::ClosedPort), sender, address, closed, &usual);
            self.put(s, row(When::Ping), sender, address, 0, &[Protocol::Ping]);
            if s.row(kind).when == When::Cluster && kind == Kind::NodePort {
                let loopback = family.loopback();
                self.put(s, row(When::Loopback), sender, loopback, port, &usual);
                let second = second::address(sender.node, family);
                self.put(s, row(When::SecondAddress), sender, second, port, &transports);
            }
        }
    }

    fn put(
        &mut self,
        s: &Scenario<'a>,
        row: Row,
        sender: &Sender<'a>,
        address: IpAddr,
        port: u16,
        protocols: &[Protocol],
    ) {
        if !self.scope.rows.contains(&row) {
            return;
        }
        let Some(mut expectation) = self.expected.cell(row, sender.column) else { return };
        let set = match expectation {
            Expectation::Served(Served { set: Set::Cluster, .. }) => s.cluster_for(sender.node),
            Expectation::Served(Served { set: Set::Local, .. }) => s.local(self.t, sender.node),
            Expectation::Echo | Expectation::Refused | Expectation::Timeout => Vec::new(),
        };
        if let Expectation::Served(Served { may_be_empty: true, .. }) = expectation
            && set.is_empty()
        {
            expectation = Expectation::Timeout;
        }
        let here = |pod: &str| self.t.pod(pod).is_some_and(|(n, _)| n.name == sender.node.name);
        for protocol in protocols {
            self.plans.push(Plan {
                from: sender.from.clone(),
                member: sender.member,
                service: s.service.name,
                target: Target { address, port, protocol: *protocol },
                row,
                column: sender.column,
                case: Case {
                    expectation,
                    protocol: *protocol,
                    set: set.iter().map(|pod| (*pod, here(pod))).collect(),
                    node: sender.node,
                    second: (row.when == When::SecondAddress).then_some(address),
                    sender: sender.address,
                    pod: sender.pod,
                    host: sender.host,
                },
            });
        }
    }
}

fn protocol(transport: Transport) -> Protocol {
    match transport {
        Transport::Tcp => Protocol::Tcp,
        Transport::Udp => Protocol::Udp,
        Transport::Sctp => Protocol::Sctp,
    }
}
