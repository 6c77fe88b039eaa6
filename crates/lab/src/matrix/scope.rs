//! What of the table is measured.

use std::collections::BTreeSet;

use super::row::{Kind, Row, When};
use crate::manifest::Transport;
use crate::{Family, Topology};

/// What of the table is measured: what the agents are to serve.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The rows; each must have cells, in each family.
    pub rows: BTreeSet<Row>,
    /// The families.
    pub families: Vec<Family>,
    /// The protocols.
    pub transports: Vec<Transport>,
}

/// What agents forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// What is announced: the addresses of LoadBalancers and external ones.
    Vip,
    /// All.
    All,
}

impl Scope {
    /// All that agents with that scope serve in a topology, TCP and UDP.
    pub fn of(forward: Forward, t: &Topology) -> Self {
        let rows = Row::all().filter(|row| forward == Forward::All || row.kind.is_announced());
        Self {
            rows: rows.collect(),
            families: t.families(),
            transports: vec![Transport::Tcp, Transport::Udp],
        }
    }

    /// The rows about who serves, of the addresses of LoadBalancers; IPv4.
    pub fn of_balanced() -> Self {
        let plain = |row: &Row| {
            row.kind == Kind::LoadBalancer
                && match row.when {
                    When::Cluster
                    | When::Local
                    | When::NoEndpoints
                    | When::TerminatingCluster
                    | When::TerminatingLocal
                    | When::ClosedPort
                    | When::Ping => true,
                    When::Sticky
                    | When::Hinted
                    | When::HintedLocal
                    | When::Ranged
                    | When::RangedInside
                    | When::OtherRanges
                    | When::OtherProxy
                    | When::SecondAddress
                    | When::Loopback => false,
                }
        };
        Self {
            rows: Row::all().filter(plain).collect(),
            families: vec![Family::Ipv4],
            transports: vec![Transport::Tcp, Transport::Udp],
        }
    }

    /// The same with the rows alone whose names contain a text.
    pub fn only(mut self, text: &str) -> Self {
        self.rows.retain(|row| row.to_string().contains(text));
        self
    }

    /// Whether some row of that kind is measured.
    pub(super) fn asks(&self, kind: Kind) -> bool {
        self.rows.iter().any(|row| row.kind == kind)
    }
}
