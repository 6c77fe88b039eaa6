//! From what is there to what is wanted, make before break.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::ladder::{Ladder, Seen, place};
use crate::part::{Endpoint, Slots, endpoint};
use crate::{Frontend, Lane, Part, Target};

/// One element to be made, replaced or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A frontend's verdict.
    Point {
        /// In this lane.
        lane: Lane,
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
        endpoint: Option<(IpAddr, u16)>,
    },
    /// A member of a shared set comes.
    Join(Member),
    /// A member of a shared set goes.
    Leave(Member),
}

/// A member of a set that Services share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    /// Of `vips`: an address that clients ask.
    Vip(IpAddr),
    /// Of `hairpin`: an endpoint of this node.
    Hairpin(IpAddr),
    /// Of `local_pods`: an endpoint of this node.
    LocalPod(IpAddr),
    /// Of `pods`.
    Pods(IpNet),
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
        let (have, want) = (have.slots(&frontend), placed.slots(&frontend));
        for lane in Lane::ALL {
            let ladder = have.map(|slots| Ladder::of(slots, lane)).unwrap_or_default();
            diff_lane(frontend, lane, &ladder, want, &mut out);
        }
    }
    let (have, want) = (have.members(), placed.members());
    out[0].extend(want.difference(&have).copied().map(Op::Join));
    out[1].extend(have.difference(&want).copied().map(Op::Leave));
    out
}

impl Part {
    /// The same endpoints, in the order that changes the fewest indexes of what is there.
    pub fn placed_on(&self, have: &Part) -> Part {
        let on = |(frontend, slots): &(Frontend, Slots)| {
            let there = have.slots(frontend);
            let ladder = |lane| there.map(|slots| Ladder::of(slots, lane)).unwrap_or_default();
            (*frontend, slots.placed_on(&ladder(Lane::Cluster), &ladder(Lane::Local)))
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

impl Slots {
    pub(crate) fn placed_on(&self, cluster: &Ladder, local: &Ladder) -> Slots {
        Slots {
            cluster: place(cluster, &self.cluster),
            local: self.local.as_deref().map(|wanted| place(local, wanted)),
        }
    }
}

/// What a frontend has in the shared sets.
pub(crate) fn members(frontend: &Frontend, slots: &Slots) -> BTreeSet<Member> {
    let backends = slots.cluster.iter().chain(slots.local.iter().flatten());
    let local = backends.filter(|b| b.local).map(|b| b.address);
    let mut members: BTreeSet<_> =
        local.flat_map(|pod| [Member::Hairpin(pod), Member::LocalPod(pod)]).collect();
    members.insert(Member::Vip(frontend.address));
    members
}

pub(crate) fn diff_lane(
    frontend: Frontend,
    lane: Lane,
    have: &Ladder,
    want: Option<&Slots>,
    out: &mut [Vec<Op>; 2],
) {
    let backends = want.and_then(|slots| slots.lane(lane)).unwrap_or_default();
    for (index, backend) in (0..).zip(backends) {
        let wanted = endpoint(backend);
        let seen = have.slots.get(&index).copied().unwrap_or_default();
        if !seen.is(Some(&wanted)) {
            let (replaces, endpoint) = (seen.is_there(), Some(wanted));
            out[0].push(Op::Fill { lane, frontend, index, replaces, endpoint });
        }
    }
    let target = want.and_then(|slots| slots.target(lane));
    if !have.verdict.is(target.as_ref()) {
        let replaces = have.verdict.is_there();
        out[0].push(Op::Point { lane, frontend, replaces, target });
    }
    for (&index, _) in have.slots.range(backends.len() as u32..) {
        out[1].push(Op::Fill { lane, frontend, index, replaces: true, endpoint: None });
    }
}

/// The endpoints of a UDP frontend that went away.
pub(crate) fn gone(have: [&Ladder; 2], want: Option<&Slots>) -> Vec<Endpoint> {
    let slots = have.iter().flat_map(|ladder| ladder.slots.values());
    let before: BTreeSet<Endpoint> = slots
        .filter_map(|seen| match seen {
            Seen::Ours(there) => Some(*there),
            Seen::Nothing | Seen::Foreign => None,
        })
        .collect();
    let lanes = want.into_iter().flat_map(|slots| Lane::ALL.map(|lane| slots.lane(lane)));
    let after: BTreeSet<Endpoint> = lanes.flatten().flatten().map(endpoint).collect();
    before.difference(&after).copied().collect()
}
