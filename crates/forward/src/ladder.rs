//! The numbered endpoints of one lane of a frontend, as the kernel has them.

use std::collections::BTreeMap;

use signpost_plan::Backend;

use crate::part::{Endpoint, Slots, endpoint};
use crate::{Lane, Target};

/// What the kernel has under one frontend in one lane. Others may have edited it: indexes can be
/// missing, or be there beyond the count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ladder {
    pub(crate) verdict: Seen,
    pub(crate) slots: BTreeMap<u32, Seen<Endpoint>>,
}

/// What stands under a key in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Seen<T = Target> {
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
    /// Of one lane as we wrote it.
    pub(crate) fn of(slots: &Slots, lane: Lane) -> Self {
        let verdict = slots.target(lane).map_or(Seen::Nothing, Seen::Ours);
        let backends = slots.lane(lane).unwrap_or_default().iter();
        Self { verdict, slots: (0..).zip(backends.map(|b| Seen::Ours(endpoint(b)))).collect() }
    }
}

/// Puts endpoints into an order that changes the fewest slots: who is there stays in its place, the
/// rest fills the gaps. `wanted` is sorted.
pub(crate) fn place(have: &Ladder, wanted: &[Backend]) -> Box<[Backend]> {
    let mut placed: Vec<Option<Backend>> = vec![None; wanted.len()];
    let mut waiting = vec![true; wanted.len()];
    for (place, seen) in
        placed.iter_mut().enumerate().map(|(i, p)| (p, have.slots.get(&(i as u32))))
    {
        let Some(Seen::Ours(there)) = seen else { continue };
        let Ok(found) = wanted.binary_search_by_key(there, endpoint) else { continue };
        if std::mem::take(&mut waiting[found]) {
            *place = Some(wanted[found]);
        }
    }
    let mut rest = wanted.iter().zip(waiting).filter_map(|(b, waits)| waits.then_some(*b));
    placed.into_iter().filter_map(|place| place.or_else(|| rest.next())).collect()
}
