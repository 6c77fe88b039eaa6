//! What the kernel has under one frontend.

use std::collections::BTreeMap;

use signpost_plan::Backend;
use signpost_plan::world::Affinity;

use crate::part::{Endpoint, Slots, endpoint};
use crate::{Frontend, Lane, Target, Turn};

/// What the kernel has under one frontend: verdicts, and the numbered endpoints of both lanes.
/// Others may have edited it: indexes can be missing, or be there beyond the count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ladder {
    /// In the order of [`Turn::ALL`].
    pub(crate) verdicts: [Seen<Target>; 4],
    /// In the order of [`Lane::ALL`].
    pub(crate) rungs: [BTreeMap<u32, Seen<Endpoint>>; 2],
}

/// What stands under a key in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Seen<T> {
    /// Nothing.
    #[default]
    Nothing,
    /// What we could have written.
    Ours(T),
    /// What we never write.
    Foreign,
}

impl<T: PartialEq> Seen<T> {
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Ours(_) | Self::Foreign => true,
        }
    }

    pub(crate) fn is(&self, wanted: Option<&T>) -> bool {
        match self {
            Self::Nothing => wanted.is_none(),
            Self::Ours(there) => wanted == Some(there),
            Self::Foreign => false,
        }
    }
}

impl Ladder {
    /// A frontend as we wrote it.
    pub(crate) fn of(frontend: &Frontend, slots: &Slots) -> Self {
        let verdict = |turn| slots.target(frontend, turn).map_or(Seen::Nothing, Seen::Ours);
        let rungs = |lane| {
            let all = slots.rungs(lane);
            (0..).zip(all.iter().map(|b| Seen::Ours(endpoint(b)))).collect()
        };
        Self { verdicts: Turn::ALL.map(verdict), rungs: Lane::ALL.map(rungs) }
    }

    pub(crate) fn rungs(&self, lane: Lane) -> &BTreeMap<u32, Seen<Endpoint>> {
        &self.rungs[lane as usize]
    }

    /// The endpoints of a lane.
    pub(crate) fn lane(&self, lane: Lane) -> impl Iterator<Item = Endpoint> + '_ {
        self.rungs(lane).values().filter_map(|seen| match seen {
            Seen::Ours(there) => Some(*there),
            Seen::Nothing | Seen::Foreign => None,
        })
    }

    /// The endpoints of both lanes.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = Endpoint> + '_ {
        Lane::ALL.into_iter().flat_map(|lane| self.lane(lane))
    }
}

impl Slots {
    /// The same endpoints, in the order that changes the fewest indexes of what is there.
    pub(crate) fn placed_on(&self, have: &Ladder) -> Slots {
        let lane = |lane: Lane| match self.affinity {
            Affinity::None => place(have.rungs(lane), self.lane(lane)),
            // The slots follow from the set alone.
            Affinity::ClientIp { .. } => self.lane(lane).into(),
        };
        Slots { cluster: lane(Lane::Cluster), local: lane(Lane::Local), ..self.clone() }
    }
}

/// Who is there stays in its place, the rest fills the gaps. `wanted` is sorted.
pub(crate) fn place(have: &BTreeMap<u32, Seen<Endpoint>>, wanted: &[Backend]) -> Box<[Backend]> {
    let mut placed: Vec<Option<Backend>> = vec![None; wanted.len()];
    let mut waiting = vec![true; wanted.len()];
    for (place, seen) in placed.iter_mut().enumerate().map(|(i, p)| (p, have.get(&(i as u32)))) {
        let Some(Seen::Ours(there)) = seen else { continue };
        let Ok(found) = wanted.binary_search_by_key(there, endpoint) else { continue };
        if std::mem::take(&mut waiting[found]) {
            *place = Some(wanted[found]);
        }
    }
    let mut rest = wanted.iter().zip(waiting).filter_map(|(b, waits)| waits.then_some(*b));
    placed.into_iter().filter_map(|place| place.or_else(|| rest.next())).collect()
}
