//! The Services that a matrix is measured on.

use std::net::Ipv4Addr;

use super::expect::Row;
use crate::manifest::{Policy, Service, State};
use crate::{Error, Topology};

/// A Service of the matrix, with what it means for the table.
#[derive(Clone, Debug)]
pub(super) struct Scenario<'a> {
    pub(super) service: Service<'a>,
    pub(super) row: Row,
    /// The cluster's endpoints: ready ones, or, if there are none, those that serve still.
    pub(super) cluster: Vec<&'a str>,
}

impl<'a> Scenario<'a> {
    pub(super) fn new(service: Service<'a>, row: Row) -> Self {
        Self { cluster: serving(&service.endpoints, |_| true), service, row }
    }

    /// The endpoints on a node, with their own fallback to terminating ones.
    pub(super) fn local(&self, t: &Topology, node: &str) -> Vec<&'a str> {
        serving(&self.service.endpoints, |pod| t.pod(pod).is_some_and(|(n, _)| n.name == node))
    }
}

type Endpoints<'a> = Vec<(&'a str, State)>;

/// Of those that are meant: the ready ones; if there are none, the terminating ones.
fn serving<'a>(endpoints: &[(&'a str, State)], meant: impl Fn(&str) -> bool) -> Vec<&'a str> {
    let with = |state| -> Vec<&'a str> {
        endpoints.iter().filter(|(p, s)| *s == state && meant(p)).map(|(p, _)| *p).collect()
    };
    let ready = with(State::Ready);
    if ready.is_empty() { with(State::Terminating) } else { ready }
}

/// Services over the first two nodes' pods; further nodes have no endpoint.
pub(super) fn scenarios(t: &Topology) -> Result<Vec<Scenario<'_>>, Error> {
    use Policy::{Cluster, Local};
    use State::{NotReady, Ready, Terminating};
    let [first, second, _, ..] = &t.nodes[..] else {
        return Err(Error::Topology("a matrix needs three nodes at least".to_owned()));
    };
    let ([a1, a2, ..], [b1, ..]) = (&first.pods[..], &second.pods[..]) else {
        return Err(Error::Topology(
            "a matrix needs two pods on the first node and one on the second".to_owned(),
        ));
    };
    let (a1, a2, b1) = (a1.name.as_str(), a2.name.as_str(), b1.name.as_str());
    let list: Vec<(&str, Policy, Row, Endpoints<'_>)> = vec![
        ("cluster", Cluster, Row::Cluster, vec![(a1, Ready), (b1, Ready)]),
        ("local", Local, Row::Local, vec![(a1, Ready), (b1, Ready)]),
        ("cluster-three", Cluster, Row::Cluster, vec![(a1, Ready), (a2, Ready), (b1, Ready)]),
        ("local-three", Local, Row::Local, vec![(a1, Ready), (a2, Ready), (b1, Ready)]),
        ("local-mixed", Local, Row::Local, vec![(a1, Terminating), (b1, Ready)]),
        ("none", Cluster, Row::NoEndpoints, vec![]),
        ("none-local", Local, Row::NoEndpoints, vec![]),
        ("unready", Cluster, Row::NoEndpoints, vec![(a1, NotReady), (b1, NotReady)]),
        ("unready-local", Local, Row::NoEndpoints, vec![(a1, NotReady), (b1, NotReady)]),
        ("ending", Cluster, Row::TerminatingCluster, vec![(a1, Terminating), (b1, Terminating)]),
        ("ending-local", Local, Row::TerminatingLocal, vec![(a1, Terminating), (b1, Terminating)]),
    ];
    let addresses = pool_from_its_end(t, list.len())?;
    Ok(list
        .into_iter()
        .zip(addresses)
        .map(|((name, policy, row, endpoints), address)| {
            Scenario::new(Service { name, address, policy, endpoints }, row)
        })
        .collect())
}

/// The pool's last addresses: a person's own Services begin at its first.
fn pool_from_its_end(t: &Topology, count: usize) -> Result<Vec<Ipv4Addr>, Error> {
    let fault = || {
        Error::Topology(format!("the pool {:?} is not FIRST-LAST with {count} addresses", t.pool))
    };
    let (first, last) = t.pool.split_once('-').ok_or_else(fault)?;
    let first: Ipv4Addr = first.trim().parse().map_err(|_| fault())?;
    let last: Ipv4Addr = last.trim().parse().map_err(|_| fault())?;
    let from = u32::from(last).saturating_sub(u32::try_from(count).map_err(|_| fault())? - 1);
    if from < u32::from(first) || !t.segment.contains(&last) {
        return Err(fault());
    }
    Ok((from..=u32::from(last)).map(Ipv4Addr::from).collect())
}
