//! Whether a cell is what it must be.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::expect::{Expectation, Seen};
use crate::probe::{Cause, Outcome, Protocol};
use crate::topology::Node;

/// Critical values of chi-square at 0.001, for 1 degree of freedom and on.
const CHI_SQUARE: [f64; 9] =
    [10.828, 13.816, 16.266, 18.467, 20.515, 22.458, 24.322, 26.124, 27.877];

/// Everything that the judgement of a cell depends on.
pub(super) struct Case<'a> {
    pub(super) expectation: Expectation,
    pub(super) protocol: Protocol,
    /// The endpoints that must answer, with whether each is on the node.
    pub(super) set: Vec<(&'a str, bool)>,
    /// The node that translates.
    pub(super) node: &'a Node,
    /// The sender.
    pub(super) sender: Ipv4Addr,
    /// Its name, where it is a pod.
    pub(super) pod: Option<&'a str>,
    /// Whether it is a process of the node itself.
    pub(super) host: bool,
}

/// What is wrong with a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is another.
    Differs(String),
    /// The endpoints are not reached evenly, which chance brings about now and then.
    Uneven(String),
}

impl Case<'_> {
    /// The addresses that the pods may see.
    pub(super) fn seen(&self) -> Vec<Ipv4Addr> {
        let Expectation::Ok(_, _) = self.expectation else { return Vec::new() };
        let mut seen: Vec<Ipv4Addr> =
            self.set.iter().flat_map(|(pod, here)| self.seen_by(pod, *here)).collect();
        seen.sort();
        seen.dedup();
        seen
    }

    /// Judges the outcomes of a cell's tries.
    pub(super) fn judge(&self, outcomes: &[Outcome]) -> Result<(), Fault> {
        for outcome in outcomes {
            if let Some(wrong) = self.wrong(outcome) {
                return Err(Fault::Differs(wrong));
            }
        }
        match self.expectation {
            Expectation::Ok(..) => self.even(outcomes),
            Expectation::Echo | Expectation::Refused | Expectation::Timeout => Ok(()),
        }
    }

    fn wrong(&self, outcome: &Outcome) -> Option<String> {
        let denied = self.host && self.protocol == Protocol::Udp;
        let fits = match (self.expectation, outcome) {
            (Expectation::Ok(..), Outcome::Answered { pod, seen }) => {
                let Some((_, here)) = self.set.iter().find(|(p, _)| p == pod) else {
                    return Some(format!("{pod} answered"));
                };
                if !self.seen_by(pod, *here).contains(seen) {
                    return Some(format!("{pod} saw {seen}"));
                }
                true
            }
            (Expectation::Echo, Outcome::Echo) => true,
            (Expectation::Refused, Outcome::Refused(Cause::Reset)) => {
                self.protocol == Protocol::Tcp
            }
            (Expectation::Refused, Outcome::Refused(Cause::Icmp(_))) => {
                self.protocol == Protocol::Udp
            }
            // A rule in OUTPUT tells the sender at once.
            (
                Expectation::Refused | Expectation::Timeout,
                Outcome::Refused(Cause::Local | Cause::Denied(_)),
            ) => denied,
            (Expectation::Timeout, Outcome::Timeout) => true,
            _ => false,
        };
        (!fits).then(|| format!("{outcome:?}"))
    }

    fn seen_by(&self, pod: &str, here: bool) -> Vec<Ipv4Addr> {
        let Expectation::Ok(_, seen) = self.expectation else { return Vec::new() };
        let keeps = match seen {
            Seen::Keep => true,
            Seen::Node => false,
            Seen::KeepHere => here,
            Seen::NodeForItself => self.pod != Some(pod),
        };
        if keeps { vec![self.sender] } else { vec![self.node.address, self.node.gateway()] }
    }

    fn even(&self, outcomes: &[Outcome]) -> Result<(), Fault> {
        let mut counts: BTreeMap<&str, u32> = self.set.iter().map(|(pod, _)| (*pod, 0)).collect();
        for outcome in outcomes {
            if let Outcome::Answered { pod, .. } = outcome {
                *counts.entry(pod).or_default() += 1;
            }
        }
        let shown = || format!("{counts:?} of {} tries", outcomes.len());
        let Some(critical) = counts.len().checked_sub(2).map(|n| CHI_SQUARE[n.min(8)]) else {
            return Ok(());
        };
        let mean = f64::from(counts.values().sum::<u32>()) / counts.len() as f64;
        let deviation: f64 = counts.values().map(|n| (f64::from(*n) - mean).powi(2) / mean).sum();
        if counts.values().any(|n| *n == 0) || deviation > critical {
            return Err(Fault::Uneven(shown()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;
    use crate::matrix::expect::Set;

    fn judge(
        expectation: Expectation,
        protocol: Protocol,
        host: bool,
        outcomes: &[Outcome],
    ) -> Result<(), Fault> {
        let t = Topology::default();
        let sender = if host { t.nodes[0].address } else { t.clients[0].address };
        let set = vec![("a1", true), ("b1", false)];
        Case { expectation, protocol, set, node: &t.nodes[0], sender, pod: None, host }
            .judge(outcomes)
    }

    fn answered(pod: &str, seen: &str) -> Outcome {
        Outcome::Answered { pod: pod.to_owned(), seen: seen.parse().unwrap() }
    }

    const KEEP_HERE: Expectation = Expectation::Ok(Set::Cluster, Seen::KeepHere);

    #[test]
    fn the_clients_address_is_kept_where_the_endpoint_is_on_the_node() {
        let tries = |from_a1: &str, from_b1: &str| {
            judge(
                KEEP_HERE,
                Protocol::Tcp,
                false,
                &[answered("a1", from_a1), answered("b1", from_b1)],
            )
        };
        assert_eq!(tries("192.0.2.200", "192.0.2.11"), Ok(()));
        assert_eq!(
            tries("192.0.2.11", "192.0.2.11"),
            Err(Fault::Differs("a1 saw 192.0.2.11".into()))
        );
        assert!(tries("192.0.2.200", "192.0.2.200").is_err());
        assert!(tries("192.0.2.200", "192.0.2.12").is_err());
    }

    #[test]
    fn another_pod_or_a_silent_try_differs() {
        let c = |o: Outcome| {
            judge(
                KEEP_HERE,
                Protocol::Tcp,
                false,
                &[answered("a1", "192.0.2.200"), answered("b1", "192.0.2.11"), o],
            )
        };
        assert!(c(answered("c1", "192.0.2.11")).is_err());
        assert!(c(Outcome::Timeout).is_err());
        assert!(c(Outcome::Refused(Cause::Reset)).is_err());
    }

    #[test]
    fn every_endpoint_is_reached_evenly() {
        let tries = |a: usize, b: usize| {
            let mut list = vec![answered("a1", "192.0.2.200"); a];
            list.extend(vec![answered("b1", "192.0.2.11"); b]);
            judge(KEEP_HERE, Protocol::Tcp, false, &list)
        };
        assert_eq!(tries(20, 20), Ok(()));
        assert_eq!(tries(28, 12), Ok(()));
        assert!(matches!(tries(34, 6), Err(Fault::Uneven(_))));
        assert!(matches!(tries(3, 0), Err(Fault::Uneven(_))));
    }

    #[test]
    fn a_refusal_is_what_the_protocol_has_for_it() {
        let icmp = Outcome::Refused(Cause::Icmp(Ipv4Addr::LOCALHOST));
        let reset = Outcome::Refused(Cause::Reset);
        let local = Outcome::Refused(Cause::Local);
        let judge = |p, host, o: &Outcome| {
            judge(Expectation::Refused, p, host, std::slice::from_ref(o)).is_ok()
        };
        assert!(judge(Protocol::Tcp, false, &reset) && !judge(Protocol::Tcp, false, &icmp));
        assert!(judge(Protocol::Udp, false, &icmp) && !judge(Protocol::Udp, false, &local));
        assert!(judge(Protocol::Udp, true, &local) && !judge(Protocol::Tcp, true, &local));
        assert!(!judge(Protocol::Udp, false, &Outcome::Timeout));
    }
}
