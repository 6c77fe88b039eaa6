//! Which cells there are, and what each must be.

use std::net::Ipv4Addr;

use super::expect::{Column, Expectation, Expected, Row, Set};
use super::judge::Case;
use super::scenario::Scenario;
use crate::probe::{Protocol, Target};
use crate::topology::{Node, Topology};

/// The Services' port.
const PORT: u16 = 80;

/// One that none has.
const CLOSED_PORT: u16 = 81;

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

/// What is asked of an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Its Service's port.
    Service,
    /// A port that no Service has.
    Closed,
    /// Whether it is there.
    Ping,
}

impl Question {
    pub(super) const ALL: [Self; 3] = [Self::Service, Self::Closed, Self::Ping];
}

/// Who asks.
struct Sender<'a> {
    from: String,
    member: &'a str,
    address: Ipv4Addr,
    /// Where its packets are translated.
    node: &'a Node,
    pod: Option<&'a str>,
    host: bool,
    column: Column,
}

/// The clients of both subnets, by one node.
pub(super) fn outsiders<'a>(
    t: &'a Topology,
    s: &Scenario<'a>,
    node: &'a Node,
    questions: &[Question],
    expected: &Expected,
    plans: &mut Vec<Plan<'a>>,
) {
    let with = !s.local(t, &node.name).is_empty();
    for client in t.outsiders() {
        let sender = Sender {
            from: format!("external {}", client.address),
            member: &client.name,
            address: client.address,
            node,
            pod: None,
            host: false,
            column: if with { Column::OutsiderWith } else { Column::OutsiderWithout },
        };
        ask(t, s, &sender, questions, expected, plans);
    }
}

/// Every node's own processes, and every pod.
pub(super) fn insiders<'a>(
    t: &'a Topology,
    s: &Scenario<'a>,
    questions: &[Question],
    expected: &Expected,
    plans: &mut Vec<Plan<'a>>,
) {
    for node in &t.nodes {
        let host = Sender {
            from: format!("node {}", node.name),
            member: &node.name,
            address: node.address,
            node,
            pod: None,
            host: true,
            column: Column::Host,
        };
        ask(t, s, &host, questions, expected, plans);
        for pod in &node.pods {
            let one = s.cluster.contains(&pod.name.as_str());
            let sender = Sender {
                from: format!("pod@{}/{}", node.name, pod.name),
                member: &pod.name,
                address: pod.address,
                node,
                pod: Some(&pod.name),
                host: false,
                column: if one { Column::Endpoint } else { Column::Pod },
            };
            ask(t, s, &sender, questions, expected, plans);
        }
    }
}

fn ask<'a>(
    t: &'a Topology,
    s: &Scenario<'a>,
    sender: &Sender<'a>,
    questions: &[Question],
    expected: &Expected,
    plans: &mut Vec<Plan<'a>>,
) {
    for question in questions {
        let (row, port, protocols) = match question {
            Question::Service => (s.row, PORT, &[Protocol::Tcp, Protocol::Udp][..]),
            Question::Closed => (Row::ClosedPort, CLOSED_PORT, &[Protocol::Tcp, Protocol::Udp][..]),
            Question::Ping => (Row::Ping, 0, &[Protocol::Ping][..]),
        };
        let expectation = expected.cell(row, sender.column);
        let set: Vec<&str> = match expectation {
            Expectation::Ok(Set::Cluster, _) => s.cluster.clone(),
            Expectation::Ok(Set::Local, _) => s.local(t, &sender.node.name),
            Expectation::Echo | Expectation::Refused | Expectation::Timeout => Vec::new(),
        };
        let here = |pod: &str| t.pod(pod).is_some_and(|(n, _)| n.name == sender.node.name);
        for protocol in protocols {
            plans.push(Plan {
                from: sender.from.clone(),
                member: sender.member,
                service: s.service.name,
                target: Target { address: s.service.address, port, protocol: *protocol },
                row,
                column: sender.column,
                case: Case {
                    expectation,
                    protocol: *protocol,
                    set: set.iter().map(|pod| (*pod, here(pod))).collect(),
                    node: sender.node,
                    sender: sender.address,
                    pod: sender.pod,
                    host: sender.host,
                },
            });
        }
    }
}
