//! A Service of the matrix, and what it means for the table.

use std::net::IpAddr;

use super::row::{Kind, Row, When};
use crate::manifest::{Label, Policy, Service, State};
use crate::topology::Node;
use crate::{Family, Topology};

/// A Service of the matrix.
#[derive(Clone, Debug)]
pub(super) struct Scenario<'a> {
    pub(super) service: Service<'a>,
    /// What is special about it, whichever of its addresses is asked.
    pub(super) special: Option<When>,
    /// Whether its addresses are also asked for what they have beside the Service.
    pub(super) asks_more: bool,
}

impl<'a> Scenario<'a> {
    /// Whether the Service has addresses of a kind.
    pub(super) fn has(&self, kind: Kind) -> bool {
        match kind {
            Kind::ClusterIp => !self.service.cluster_ips.is_empty(),
            Kind::NodePort => self.node_port().is_some(),
            Kind::LoadBalancer => !self.service.balanced.is_empty(),
            Kind::ExternalIp => !self.service.external_ips.is_empty(),
        }
    }

    /// The Service's addresses of a kind, in a family; of a NodePort, the node's.
    pub(super) fn addresses(&self, kind: Kind, family: Family, node: &Node) -> Vec<IpAddr> {
        let list = match kind {
            Kind::ClusterIp => &self.service.cluster_ips,
            Kind::LoadBalancer => &self.service.balanced,
            Kind::ExternalIp => &self.service.external_ips,
            Kind::NodePort => {
                let served = self.node_port().is_some()
                    && self.service.cluster_ips.iter().any(|a| Family::of(*a) == family);
                return node.at(family).filter(|_| served).into_iter().collect();
            }
        };
        list.iter().copied().filter(|a| Family::of(*a) == family).collect()
    }

    /// The addresses that one node each answers for.
    pub(super) fn announced(&self) -> impl Iterator<Item = IpAddr> {
        self.service.balanced.iter().chain(&self.service.external_ips).copied()
    }

    /// Those of a kind.
    pub(super) fn announced_of(&self, kind: Kind) -> impl Iterator<Item = IpAddr> {
        match kind {
            Kind::LoadBalancer => &self.service.balanced[..],
            Kind::ExternalIp => &self.service.external_ips,
            Kind::ClusterIp | Kind::NodePort => &[],
        }
        .iter()
        .copied()
    }

    /// The port that is asked at an address of a kind.
    pub(super) fn port(&self, kind: Kind) -> u16 {
        let port = self.service.ports.first().expect("every Service of the matrix has a port");
        match kind {
            Kind::NodePort => port.node_port.unwrap_or(port.port),
            Kind::ClusterIp | Kind::LoadBalancer | Kind::ExternalIp => port.port,
        }
    }

    fn node_port(&self) -> Option<u16> {
        self.service.ports.first()?.node_port
    }

    /// The row that its addresses of a kind are in.
    pub(super) fn row(&self, kind: Kind) -> Row {
        let policy = match kind {
            Kind::ClusterIp => self.service.internal,
            Kind::NodePort | Kind::LoadBalancer | Kind::ExternalIp => self.service.external,
        };
        let when = match self.special {
            // A ClusterIP has no ranges.
            Some(When::HintedLocal) if kind == Kind::ClusterIp => When::Hinted,
            Some(When::Ranged) if kind == Kind::ClusterIp => When::Cluster,
            Some(When::RangedInside | When::OtherRanges) if kind != Kind::LoadBalancer => {
                When::Cluster
            }
            Some(special) => special,
            None if self.cluster().is_empty() => When::NoEndpoints,
            None => match (policy, self.is_ending()) {
                (Policy::Cluster, false) => When::Cluster,
                (Policy::Local, false) => When::Local,
                (Policy::Cluster, true) => When::TerminatingCluster,
                (Policy::Local, true) => When::TerminatingLocal,
            },
        };
        Row { kind, when }
    }

    /// The cluster's endpoints: ready ones, or, if there are none, those that serve still.
    pub(super) fn cluster(&self) -> Vec<&'a str> {
        self.serving(|_| true)
    }

    /// Of those, the ones for a node: with hints, the ones for its zone.
    pub(super) fn cluster_for(&self, node: &Node) -> Vec<&'a str> {
        let hinted = |pod: &str| {
            let at = self.service.endpoints.iter().position(|(p, _)| *p == pod);
            at.and_then(|n| self.service.hints.get(n)).is_none_or(|h| *h == node.name)
        };
        let all = self.cluster();
        let for_zone: Vec<&str> = all.iter().copied().filter(|pod| hinted(pod)).collect();
        if for_zone.is_empty() { all } else { for_zone }
    }

    /// The endpoints on a node, with their own fallback to terminating ones.
    pub(super) fn local(&self, t: &Topology, node: &Node) -> Vec<&'a str> {
        self.serving(|pod| t.pod(pod).is_some_and(|(n, _)| n.name == node.name))
    }

    /// Whether none of its endpoints is ready.
    fn is_ending(&self) -> bool {
        !self.service.endpoints.iter().any(|(_, state)| self.is_ready(*state))
    }

    /// Of those that are meant: the ready ones; if there are none, the terminating ones.
    fn serving(&self, meant: impl Fn(&str) -> bool) -> Vec<&'a str> {
        if self.service.label == Some(Label::HeadlessSlices) {
            return Vec::new();
        }
        let with = |fits: &dyn Fn(State) -> bool| -> Vec<&'a str> {
            let all = self.service.endpoints.iter();
            all.filter(|(p, s)| fits(*s) && meant(p)).map(|(p, _)| *p).collect()
        };
        let ready = with(&|s| self.is_ready(s));
        if ready.is_empty() {
            with(&|s| matches!(s, State::Terminating | State::TerminatingUnsaid))
        } else {
            ready
        }
    }

    fn is_ready(&self, state: State) -> bool {
        match state {
            State::Ready | State::Unsaid => true,
            State::NotReady | State::Terminating | State::TerminatingUnsaid => {
                self.service.publishes_not_ready
            }
        }
    }
}
