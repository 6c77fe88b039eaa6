//! The rows and columns of the expected table.

use std::fmt;

/// What is asked, and under which circumstances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// What is asked.
    pub kind: Kind,
    /// What is special about it.
    pub when: When,
}

/// What an asked address is to a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One of `clusterIPs`.
    ClusterIp,
    /// A node's own, at the port's `nodePort`.
    NodePort,
    /// What a LoadBalancer got.
    LoadBalancer,
    /// One of `externalIPs`.
    ExternalIp,
}

/// Circumstances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// The kind's traffic policy is `Cluster`.
    Cluster,
    /// It is `Local`.
    Local,
    /// Nobody serves.
    NoEndpoints,
    /// Only terminating endpoints, under `Cluster`.
    TerminatingCluster,
    /// Only terminating endpoints, under `Local`.
    TerminatingLocal,
    /// `sessionAffinity: ClientIP`, under `Cluster`.
    Sticky,
    /// Endpoints with hints, under `Cluster`.
    Hinted,
    /// The same under `Local`.
    HintedLocal,
    /// `loadBalancerSourceRanges` that nobody of the lab is in.
    Ranged,
    /// Such ranges, and everybody of the lab is in them.
    RangedInside,
    /// Such ranges of the other family only.
    OtherRanges,
    /// The label `service-proxy-name`.
    OtherProxy,
    /// A port that no Service has.
    ClosedPort,
    /// An ICMP echo.
    Ping,
    /// A second address of the node.
    SecondAddress,
    /// The node's loopback address.
    Loopback,
}

/// A column of the table: who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// From outside, by a node that has an endpoint.
    OutsiderWith,
    /// From outside, by a node that has none.
    OutsiderWithout,
    /// A process of the node itself.
    Host,
    /// A pod that is no endpoint.
    Pod,
    /// A pod that is one.
    Endpoint,
    /// A process of another node, by the node's address.
    HostElsewhere,
    /// A pod of another node, by the node's address.
    PodElsewhere,
}

impl Row {
    /// All, in the table's order.
    pub fn all() -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().flat_map(|kind| {
            let rows = When::ALL.into_iter().filter(move |when| when.concerns(kind));
            rows.map(move |when| Self { kind, when })
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}, {}", self.kind.label(), self.when.label()))
    }
}

impl Kind {
    /// All.
    pub const ALL: [Self; 4] =
        [Self::ClusterIp, Self::NodePort, Self::LoadBalancer, Self::ExternalIp];

    /// As the table calls it.
    pub fn label(self) -> &'static str {
        match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
            Self::ExternalIp => "externalIP",
        }
    }

    /// Whether a node answers for its addresses on the segment.
    pub fn is_announced(self) -> bool {
        match self {
            Self::LoadBalancer | Self::ExternalIp => true,
            Self::ClusterIp | Self::NodePort => false,
        }
    }
}

impl When {
    const ALL: [Self; 16] = [
        Self::Cluster,
        Self::Local,
        Self::NoEndpoints,
        Self::TerminatingCluster,
        Self::TerminatingLocal,
        Self::Sticky,
        Self::Hinted,
        Self::HintedLocal,
        Self::Ranged,
        Self::RangedInside,
        Self::OtherRanges,
        Self::OtherProxy,
        Self::ClosedPort,
        Self::Ping,
        Self::SecondAddress,
        Self::Loopback,
    ];

    fn concerns(self, kind: Kind) -> bool {
        match self {
            Self::Cluster
            | Self::Local
            | Self::NoEndpoints
            | Self::TerminatingCluster
            | Self::TerminatingLocal
            | Self::Sticky
            | Self::Hinted
            | Self::ClosedPort => true,
            Self::HintedLocal | Self::Ranged => kind != Kind::ClusterIp,
            Self::RangedInside | Self::OtherRanges => kind == Kind::LoadBalancer,
            Self::OtherProxy | Self::SecondAddress | Self::Loopback => kind == Kind::NodePort,
            Self::Ping => kind.is_announced(),
        }
    }

    /// As the table calls it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Local => "Local",
            Self::NoEndpoints => "no endpoints, or only not-ready ones",
            Self::TerminatingCluster => "all terminating and serving, Cluster",
            Self::TerminatingLocal => "all terminating and serving, Local",
            Self::Sticky => "affinity ClientIP, Cluster",
            Self::Hinted => "hints, Cluster",
            Self::HintedLocal => "hints, Local",
            Self::Ranged => "source ranges, sender outside them",
            Self::RangedInside => "source ranges, sender inside them",
            Self::OtherRanges => "source ranges of the other family",
            Self::OtherProxy => "service-proxy-name",
            Self::ClosedPort => "a port that no Service has",
            Self::Ping => "ping",
            Self::SecondAddress => "a second address of N",
            Self::Loopback => "N's loopback",
        }
    }
}

impl Column {
    /// All, in the table's order.
    pub const ALL: [Self; 7] = [
        Self::OutsiderWith,
        Self::OutsiderWithout,
        Self::Host,
        Self::Pod,
        Self::Endpoint,
        Self::HostElsewhere,
        Self::PodElsewhere,
    ];

    /// As the table calls it.
    pub fn label(self) -> &'static str {
        match self {
            Self::OutsiderWith => "outsider, N has an endpoint",
            Self::OutsiderWithout => "outsider, N has none",
            Self::Host => "host process on N",
            Self::Pod => "pod on N",
            Self::Endpoint => "an endpoint on N",
            Self::HostElsewhere => "host elsewhere, by N's address",
            Self::PodElsewhere => "pod elsewhere, by N's address",
        }
    }
}
