//! The Services that a matrix is measured on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::row::{Kind as Asked, When};
use super::scenario::Scenario;
use super::scope::Scope;
use crate::manifest::{Kind, Label, Policy, Port, Service, State};
use crate::{Error, Family, Topology};

/// Every Service's port.
const PORT: u16 = 80;

/// The first Service's `nodePort`; the others count up.
const NODE_PORT: u16 = 30_100;

/// What a Service of the list below is beside its name.
struct Draft<'a> {
    kind: Kind,
    external: Policy,
    internal: Policy,
    endpoints: Vec<(&'a str, State)>,
    special: Option<When>,
    hints: Vec<&'a str>,
    label: Option<Label>,
    ranges: Ranges,
    publishes: bool,
    family: Option<Family>,
    asks_more: bool,
}

/// `loadBalancerSourceRanges`.
#[derive(Clone, Copy)]
enum Ranges {
    None,
    OfNobody,
    OfEverybody,
    OfTheOther(Family),
}

/// Services over the first two nodes' pods, as far as their rows are in the scope; further nodes
/// have no endpoint. An agent that acknowledges the last has seen the first.
pub(super) fn scenarios<'a>(t: &'a Topology, scope: &Scope) -> Result<Vec<Scenario<'a>>, Error> {
    let mut pools = Pools::of(t, scope)?;
    let mut scenarios = Vec::new();
    for (n, (name, draft)) in (0..).zip(drafts(t)?) {
        let scenario = draft.scenario(name, n, t, scope, &mut pools)?;
        let kinds = Asked::ALL.into_iter();
        let rows = kinds.filter(|k| scenario.has(*k)).map(|k| scenario.row(k));
        if rows.into_iter().any(|row| scope.rows.contains(&row)) || scenario.asks_more {
            scenarios.push(scenario);
        }
    }
    Ok(scenarios)
}

fn drafts(t: &Topology) -> Result<Vec<(&'static str, Draft<'_>)>, Error> {
    use Policy::{Cluster, Local};
    use State::{NotReady, Ready, Terminating, TerminatingUnsaid, Unsaid};
    let [first, second, third, ..] = &t.nodes[..] else {
        return Err(Error::Topology("a matrix needs three nodes at least".to_owned()));
    };
    let ([a1, a2, ..], [b1, ..]) = (&first.pods[..], &second.pods[..]) else {
        return Err(Error::Topology(
            "a matrix needs two pods on the first node and one on the second".to_owned(),
        ));
    };
    let (a1, a2, b1) = (a1.name.as_str(), a2.name.as_str(), b1.name.as_str());
    let plain = |external, internal, endpoints| Draft {
        kind: Kind::LoadBalancer,
        external,
        internal,
        endpoints,
        special: None,
        hints: Vec::new(),
        label: None,
        ranges: Ranges::None,
        publishes: false,
        family: None,
        asks_more: false,
    };
    let both = |policy, endpoints| plain(policy, policy, endpoints);
    let two = || vec![(a1, Ready), (b1, Ready)];
    let three = || vec![(a1, Ready), (a2, Ready), (b1, Ready)];
    let each = |state| vec![(a1, state), (b1, state)];
    let hints = || vec![first.name.as_str(), third.name.as_str(), second.name.as_str()];
    Ok(vec![
        ("cluster-ip", Draft { kind: Kind::ClusterIp, ..both(Cluster, two()) }),
        ("cluster-ip-local", Draft { kind: Kind::ClusterIp, ..both(Local, two()) }),
        ("node-port", Draft { kind: Kind::NodePort, ..both(Cluster, two()) }),
        ("node-port-local", Draft { kind: Kind::NodePort, ..both(Local, two()) }),
        ("cluster", Draft { asks_more: true, ..both(Cluster, two()) }),
        ("local", Draft { asks_more: true, ..both(Local, two()) }),
        ("cluster-three", plain(Cluster, Local, three())),
        ("local-three", plain(Local, Cluster, three())),
        ("local-mixed", both(Local, vec![(a1, Terminating), (b1, Ready)])),
        ("none", both(Cluster, vec![])),
        ("none-local", both(Local, vec![])),
        ("unready", both(Cluster, each(NotReady))),
        ("unready-local", both(Local, each(NotReady))),
        ("ending", both(Cluster, each(Terminating))),
        ("ending-local", both(Local, each(Terminating))),
        ("sticky", Draft { special: Some(When::Sticky), ..both(Cluster, three()) }),
        ("hinted", Draft { special: Some(When::Hinted), hints: hints(), ..both(Cluster, three()) }),
        (
            "hinted-local",
            Draft {
                special: Some(When::HintedLocal),
                hints: hints(),
                ..plain(Local, Cluster, three())
            },
        ),
        (
            "ranged",
            Draft { special: Some(When::Ranged), ranges: Ranges::OfNobody, ..both(Cluster, two()) },
        ),
        (
            "ranged-for-all",
            Draft {
                special: Some(When::RangedInside),
                ranges: Ranges::OfEverybody,
                ..both(Cluster, two())
            },
        ),
        ("ranges-of-v6", of_other_ranges(Family::Ipv4, both(Cluster, two()))),
        ("ranges-of-v4", of_other_ranges(Family::Ipv6, both(Cluster, two()))),
        (
            "other-proxy",
            Draft {
                kind: Kind::NodePort,
                special: Some(When::OtherProxy),
                label: Some(Label::ProxyName),
                ..both(Cluster, two())
            },
        ),
        ("unsaid", both(Cluster, vec![(a1, Unsaid), (b1, Ready)])),
        ("ending-unsaid", both(Cluster, each(TerminatingUnsaid))),
        ("published", Draft { publishes: true, ..both(Cluster, each(NotReady)) }),
        ("headless", Draft { label: Some(Label::Headless), ..both(Cluster, two()) }),
        ("headless-slices", Draft { label: Some(Label::HeadlessSlices), ..both(Cluster, two()) }),
    ])
}

fn of_other_ranges(family: Family, draft: Draft<'_>) -> Draft<'_> {
    Draft {
        special: Some(When::OtherRanges),
        ranges: Ranges::OfTheOther(family),
        family: Some(family),
        ..draft
    }
}

impl<'a> Draft<'a> {
    fn scenario(
        self,
        name: &'a str,
        n: u8,
        t: &Topology,
        scope: &Scope,
        pools: &mut Pools,
    ) -> Result<Scenario<'a>, Error> {
        let families: Vec<Family> = scope
            .families
            .iter()
            .copied()
            .filter(|f| self.family.is_none_or(|only| only == *f))
            .collect();
        let inside = scope.asks(Asked::ClusterIp) || scope.asks(Asked::NodePort);
        let is_balanced = self.kind == Kind::LoadBalancer;
        let balances = is_balanced && scope.asks(Asked::LoadBalancer);
        let external = is_balanced && self.family.is_none() && scope.asks(Asked::ExternalIp);
        let node_port = (self.kind != Kind::ClusterIp && scope.asks(Asked::NodePort))
            .then_some(NODE_PORT + u16::from(n));
        let port = |protocol: &_| Port { protocol: *protocol, port: PORT, node_port };
        let mut next = |wanted: bool| -> Result<Vec<IpAddr>, Error> {
            families.iter().filter(|_| wanted).map(|f| pools.next(*f)).collect()
        };
        let service = Service {
            name,
            kind: self.kind,
            balanced: next(balances)?,
            external_ips: next(external)?,
            cluster_ips: families.iter().filter(|_| inside).map(|f| cluster_ip(*f, n)).collect(),
            external: self.external,
            internal: self.internal,
            source_ranges: self.ranges.list(t),
            affinity_s: (self.special == Some(When::Sticky)).then_some(AFFINITY_S),
            publishes_not_ready: self.publishes,
            label: self.label,
            ports: scope.transports.iter().map(port).collect(),
            endpoints: self.endpoints,
            hints: self.hints,
        };
        Ok(Scenario { service, special: self.special, asks_more: self.asks_more })
    }
}

/// Longer than a matrix takes.
const AFFINITY_S: u32 = 10_800;

/// In subnets that nobody of a built-in topology has.
fn cluster_ip(family: Family, n: u8) -> IpAddr {
    match family {
        Family::Ipv4 => Ipv4Addr::new(198, 18, 0, 10 + n).into(),
        Family::Ipv6 => Ipv6Addr::new(0x2001, 0xdb8, 0x18, 0, 0, 0, 0, 0x10 + u16::from(n)).into(),
    }
}

impl Ranges {
    fn list(self, t: &Topology) -> Vec<IpNet> {
        let nobody = ["203.0.113.0/24", "2001:db8:113::/48"];
        let nobody = || nobody.map(|n| n.parse().expect("they are subnets")).to_vec();
        match self {
            Self::None => Vec::new(),
            Self::OfNobody => nobody(),
            Self::OfTheOther(own) => {
                nobody().into_iter().filter(|n: &IpNet| Family::of(n.addr()) != own).collect()
            }
            Self::OfEverybody => Family::ALL
                .into_iter()
                .flat_map(|f| {
                    let subnets = t.subnets(f).map(|s| [s.segment, s.behind]);
                    let pods = t.nodes.iter().filter_map(move |n| n.pod_subnet(f));
                    subnets.into_iter().flatten().chain(pods)
                })
                .collect(),
        }
    }
}

/// The addresses that are left in a topology's pools.
pub(super) struct Pools(Vec<(Family, IpAddr, IpAddr)>);

impl Pools {
    fn of(t: &Topology, scope: &Scope) -> Result<Self, Error> {
        let pool = |f: &Family| {
            let subnets = t.subnets(*f).ok_or_else(|| {
                Error::Topology(format!("it has no {f}: measure without, or add `ipv6`"))
            })?;
            let pool = subnets.pool;
            let fault = || Error::Topology(format!("the pool {pool:?} is not FIRST-LAST of {f}"));
            let (first, last) = pool.split_once('-').ok_or_else(fault)?;
            let read = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| fault());
            let (first, last) = (read(first)?, read(last)?);
            let fits = subnets.segment.contains(&first) && subnets.segment.contains(&last);
            if fits && first <= last { Ok((*f, first, last)) } else { Err(fault()) }
        };
        Ok(Self(scope.families.iter().map(pool).collect::<Result<_, _>>()?))
    }

    /// The last one: a person's own Services begin at the first.
    fn next(&mut self, family: Family) -> Result<IpAddr, Error> {
        let short = || Error::Topology(format!("its pool of {family} is too small for a matrix"));
        let pool = self.0.iter_mut().find(|(f, _, _)| *f == family).ok_or_else(short)?;
        let (_, first, last) = pool;
        let found = *last;
        if found < *first {
            return Err(short());
        }
        *last = match found {
            IpAddr::V4(a) => Ipv4Addr::from(u32::from(a) - 1).into(),
            IpAddr::V6(a) => Ipv6Addr::from(u128::from(a) - 1).into(),
        };
        Ok(found)
    }
}
