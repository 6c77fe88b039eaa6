//! From what is there to what is wanted, make before break.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use signpost_plan::{Answer, Protocol, Sources};

use crate::ladder::{Ladder, Seen};
use crate::part::{Endpoint, Place, Slots, endpoint};
use crate::{Frontend, Lane, Part, Target, Turn};

/// One element to be made, replaced or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A frontend's verdict.
    Point {
        /// In this map.
        turn: Turn,
        /// The frontend.
        frontend: Frontend,
        /// Something is there already: it goes in the same transaction.
        replaces: bool,
        /// Where it leads; `None`: the verdict goes.
        target: Option<Target>,
    },
    /// A frontend's endpoint.
    Fill {
        /// In this lane.
        lane: Lane,
        /// The frontend.
        frontend: Frontend,
        /// Its index.
        index: u32,
        /// Something is there already: it goes in the same transaction.
        replaces: bool,
        /// The address and port; `None`: the index goes.
        endpoint: Option<Endpoint>,
    },
    /// A member of a shared set comes.
    Join(Member),
    /// A member of a shared set goes.
    Leave(Member),
}

/// A member of a set that Services share. There are a hundred thousand: the rarest one must not make all
/// others large.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    /// Of `vips`: an address that clients ask.
    Vip(IpAddr),
    /// Of `node_ports`: a port that clients ask of this node.
    NodePort(Protocol, u16),
    /// Of `closed`: a frontend that nobody serves.
    Closed(Frontend),
    /// Of `allowed`: who may ask a frontend.
    Allowed(Box<(Frontend, IpNet)>),
    /// Of `hairpin`: an endpoint of this node.
    Hairpin(IpAddr),
    /// Of `local_pods`: an endpoint of this node.
    LocalPod(IpAddr),
    /// Of `pods`.
    Pods(IpNet),
    /// Of `node_nets`: where this node's addresses are asked for NodePorts.
    NodeNet(IpNet),
    /// Of `uplinks`: a name filled up with zeros.
    Uplink([u8; 16]),
}

/// What leads from one part to the other: first what packets may need, then, in a transaction of
/// its own, what nobody needs any more. A packet that took a verdict from before the first
/// transaction still finds its index after it.
///
/// Endpoints that stay keep their index, so the kernel ends with the wanted ones in the order of
/// `want.placed_on(have)`.
pub fn diff(have: &Part, want: &Part) -> [Vec<Op>; 2] {
    let mut out = [Vec::new(), Vec::new()];
    let placed = want.placed_on(have);
    let frontends = have.fronts.iter().chain(&placed.fronts).map(|(f, _)| *f);
    for frontend in frontends.collect::<BTreeSet<_>>() {
        let ladder = have.slots(&frontend).map(|slots| Ladder::of(&frontend, slots));
        diff_front(frontend, &ladder.unwrap_or_default(), placed.slots(&frontend), &mut out);
    }
    let (have, want) = (have.members(), placed.members());
    let [now, later] = member_ops(want.difference(&have), have.difference(&want));
    out[0].extend(now);
    out[1].extend(later);
    out
}

impl Part {
    /// The same endpoints, in the order that changes the fewest indexes of what is there.
    pub fn placed_on(&self, have: &Part) -> Part {
        let on = |(frontend, slots): &(Frontend, Slots)| {
            let there = have.slots(frontend).map(|there| Ladder::of(frontend, there));
            (*frontend, slots.placed_on(&there.unwrap_or_default()))
        };
        Part { fronts: self.fronts.iter().map(on).collect() }
    }

    /// What it has in the shared sets.
    pub fn members(&self) -> BTreeSet<Member> {
        self.fronts.iter().flat_map(|(frontend, slots)| members(frontend, slots)).collect()
    }

    fn slots(&self, frontend: &Frontend) -> Option<&Slots> {
        let at = self.fronts.binary_search_by_key(frontend, |(f, _)| *f).ok()?;
        Some(&self.fronts[at].1)
    }
}

/// Members that come and go, by transaction.
pub(crate) fn member_ops<'a>(
    come: impl Iterator<Item = &'a Member>,
    go: impl Iterator<Item = &'a Member>,
) -> [Vec<Op>; 2] {
    let (now, later): (Vec<_>, Vec<_>) = go.cloned().partition(Member::is_range);
    let now = now.into_iter().map(Op::Leave).chain(come.cloned().map(Op::Join)).collect();
    [now, later.into_iter().map(Op::Leave).collect()]
}

impl Member {
    /// Ranges may not overlap at any time, so those that go make room for those that come.
    pub(crate) const fn is_range(&self) -> bool {
        match self {
            Self::Allowed(..) | Self::Pods(_) | Self::NodeNet(_) => true,
            Self::Vip(_)
            | Self::NodePort(..)
            | Self::Closed(_)
            | Self::Hairpin(_)
            | Self::LocalPod(_)
            | Self::Uplink(_) => false,
        }
    }

    /// Whether it comes from the scope, not from Services.
    pub(crate) const fn is_of_scope(&self) -> bool {
        match self {
            Self::Pods(_) | Self::NodeNet(_) | Self::Uplink(_) => true,
            Self::Vip(_)
            | Self::NodePort(..)
            | Self::Closed(_)
            | Self::Allowed(..)
            | Self::Hairpin(_)
            | Self::LocalPod(_) => false,
        }
    }
}

/// What a frontend has in the shared sets.
pub(crate) fn members(frontend: &Frontend, slots: &Slots) -> BTreeSet<Member> {
    let backends = slots.cluster.iter().chain(&slots.local);
    let local = backends.filter(|b| b.local).map(|b| b.address);
    let mut members: BTreeSet<_> =
        local.flat_map(|pod| [Member::Hairpin(pod), Member::LocalPod(pod)]).collect();
    members.insert(match frontend.place {
        Place::Address(address) => Member::Vip(address),
        Place::Node(_) => Member::NodePort(frontend.protocol, frontend.port),
    });
    if slots.pods == Answer::Refuse {
        members.insert(Member::Closed(*frontend));
    }
    match &slots.sources {
        Sources::Any => {}
        Sources::Only(nets) => {
            let allowed = nets.iter().map(|net| Member::Allowed(Box::new((*frontend, *net))));
            members.extend(allowed);
        }
    }
    members
}

pub(crate) fn diff_front(
    frontend: Frontend,
    have: &Ladder,
    want: Option<&Slots>,
    out: &mut [Vec<Op>; 2],
) {
    for lane in Lane::ALL {
        let rungs = want.map(|slots| slots.rungs(lane)).unwrap_or_default();
        let there = have.rungs(lane);
        for (index, backend) in (0..).zip(&*rungs) {
            let wanted = endpoint(backend);
            let seen = there.get(&index).copied().unwrap_or_default();
            if !seen.is(Some(&wanted)) {
                let (replaces, endpoint) = (seen.is_there(), Some(wanted));
                out[0].push(Op::Fill { lane, frontend, index, replaces, endpoint });
            }
        }
        for (&index, _) in there.range(rungs.len() as u32..) {
            out[1].push(Op::Fill { lane, frontend, index, replaces: true, endpoint: None });
        }
    }
    for (turn, have) in Turn::ALL.into_iter().zip(&have.verdicts) {
        let target = want.and_then(|slots| slots.target(&frontend, turn));
        if !have.is(target.as_ref()) {
            let replaces = have.is_there();
            out[0].push(Op::Point { turn, frontend, replaces, target });
        }
    }
}

/// The endpoints of a frontend that went away.
pub(crate) fn gone(have: &Ladder, want: Option<&Slots>) -> Vec<Endpoint> {
    let before: BTreeSet<Endpoint> = have.endpoints().collect();
    let lanes = want.into_iter().flat_map(|slots| Lane::ALL.map(|lane| slots.lane(lane)));
    let after: BTreeSet<Endpoint> = lanes.flatten().map(endpoint).collect();
    before.difference(&after).copied().collect()
}

/// The endpoints of a frontend that clients must not be led back to: those that went away, and all
/// where it is decided anew who gets which.
pub(crate) fn unlearned(
    frontend: &Frontend,
    have: &Ladder,
    want: Option<&Slots>,
) -> BTreeSet<Endpoint> {
    if !have.verdicts[Turn::Learn as usize].is_there() {
        return BTreeSet::new();
    }
    let same = |(turn, seen): (Turn, &Seen<Target>)| {
        seen.is(want.and_then(|slots| slots.target(frontend, turn)).as_ref())
    };
    if !Turn::ALL.into_iter().zip(&have.verdicts).all(same) {
        return have.endpoints().collect();
    }
    let left = |lane| {
        let now = want.map(|slots| slots.lane(lane)).unwrap_or_default();
        let now: BTreeSet<_> = now.iter().map(endpoint).collect();
        have.lane(lane).filter(|there| !now.contains(there)).collect::<Vec<_>>()
    };
    Lane::ALL.into_iter().flat_map(left).collect()
}
