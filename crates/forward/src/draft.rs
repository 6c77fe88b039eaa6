//! What a change of Services comes to, before the kernel has seen it.

use std::collections::{BTreeMap, BTreeSet};

use signpost_nft::Change;
use signpost_plan::{Protocol, Scope, ServiceKey};

use crate::diff::{Member, Op, diff_lane, gone, members};
use crate::element::changes;
use crate::found::Found;
use crate::ladder::Ladder;
use crate::part::{Endpoint, Slots};
use crate::plane::{Plane, scope_members};
use crate::{Frontend, Lane, Part, Target};

/// So many chains that nothing leads to are kept, for the next Service of that size; more of them
/// go. A chain takes about 1 KB of kernel memory.
const SPARE_CHAINS: usize = 64;

/// A Service as it should be; `None`: nothing of it.
pub(crate) type Want = (ServiceKey, Option<Part>);

/// What a change of Services comes to.
#[derive(Debug)]
pub(crate) struct Draft {
    /// What packets may need, then what nobody needs any more.
    pub(crate) transactions: [Transaction; 2],
    pub(crate) fronts: Vec<(Frontend, Option<Slots>)>,
    pub(crate) services: Vec<(ServiceKey, Option<Box<[Frontend]>>)>,
    /// New counts.
    pub(crate) members: BTreeMap<Member, u32>,
    pub(crate) picks: BTreeMap<(Lane, u32), u32>,
    pub(crate) scope: BTreeSet<Member>,
    /// Endpoints of UDP frontends that went away.
    pub(crate) gone: Vec<(Frontend, Endpoint)>,
}

/// Changes, and for which of the wanted Services each is made.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) changes: Vec<Change>,
    pub(crate) origins: Vec<Option<usize>>,
}

impl Transaction {
    fn extend(&mut self, origin: Option<usize>, changes: impl IntoIterator<Item = Change>) {
        self.changes.extend(changes);
        self.origins.resize(self.changes.len(), origin);
    }
}

impl Plane {
    /// What it takes to make some Services as wanted. With `found` everything is compared with what
    /// the kernel holds; without, only those Services with what it acknowledged.
    ///
    /// `Err`: these of the wanted Services ask for a frontend that another one has.
    pub(crate) fn draft(
        &self,
        wanted: &[Want],
        scope: &Scope,
        found: Option<&Found>,
    ) -> Result<Draft, BTreeSet<usize>> {
        let touched = self.touched(wanted)?;
        let mut draft = Draft {
            transactions: Default::default(),
            fronts: Vec::with_capacity(touched.len()),
            services: wanted.iter().map(|want| self.claim(want)).collect(),
            members: BTreeMap::new(),
            picks: self.picks.clone(),
            scope: scope_members(self.layout, scope),
            gone: Vec::new(),
        };
        let mut edits = Edits::default();
        for (frontend, touch) in &touched {
            let have = self.ladders(frontend, found);
            let placed = touch.slots.map(|slots| slots.placed_on(&have[0], &have[1]));
            edits.front(Some(touch.wanted), *frontend, &have, placed.as_ref());
            draft.count(self, frontend, placed.as_ref());
            if frontend.protocol == Protocol::Udp {
                let gone = gone([&have[0], &have[1]], placed.as_ref());
                draft.gone.extend(gone.into_iter().map(|endpoint| (*frontend, endpoint)));
            }
            draft.fronts.push((*frontend, placed));
        }
        match found {
            Some(found) => {
                self.compare(&touched, found, &mut edits, &mut draft);
                draft.mend(self, found, edits);
            }
            None => draft.change(self, edits),
        }
        Ok(draft)
    }

    /// The frontends of the wanted Services, those that they have and those that they ask for.
    fn touched<'a>(
        &self,
        wanted: &'a [Want],
    ) -> Result<BTreeMap<Frontend, Touch<'a>>, BTreeSet<usize>> {
        let mut touched = BTreeMap::new();
        for (index, (service, _)) in wanted.iter().enumerate() {
            let released = Touch { wanted: index, slots: None };
            let fronts = self.services.get(service).into_iter().flatten();
            touched.extend(fronts.map(|frontend| (*frontend, released)));
        }
        let mut refused = BTreeSet::new();
        for (index, (_, part)) in wanted.iter().enumerate() {
            let fronts = part.iter().flat_map(|part| &part.fronts);
            for (frontend, slots) in fronts.filter(|(f, _)| self.layout.holds(f.address)) {
                let taken = match touched.get(frontend) {
                    Some(touch) => touch.slots.is_some(),
                    None => self.fronts.contains_key(frontend),
                };
                if taken {
                    refused.insert(index);
                } else {
                    touched.insert(*frontend, Touch { wanted: index, slots: Some(slots) });
                }
            }
        }
        if refused.is_empty() { Ok(touched) } else { Err(refused) }
    }

    fn claim(&self, (service, part): &Want) -> (ServiceKey, Option<Box<[Frontend]>>) {
        let fronts = part.as_ref().map(|part| {
            let fronts = part.fronts.iter().map(|(frontend, _)| *frontend);
            fronts.filter(|frontend| self.layout.holds(frontend.address)).collect()
        });
        (service.clone(), fronts)
    }

    /// What the kernel has under a frontend.
    fn ladders(&self, frontend: &Frontend, found: Option<&Found>) -> [Ladder; 2] {
        match (found, self.fronts.get(frontend)) {
            (Some(found), _) => Lane::ALL.map(|lane| found.ladder(*frontend, lane)),
            (None, Some(slots)) => Lane::ALL.map(|lane| Ladder::of(slots, lane)),
            (None, None) => Default::default(),
        }
    }

    /// Compares the frontends that are not touched with what the kernel holds.
    fn compare(
        &self,
        touched: &BTreeMap<Frontend, Touch<'_>>,
        found: &Found,
        edits: &mut Edits,
        draft: &mut Draft,
    ) {
        for (frontend, slots) in &self.fronts {
            if !touched.contains_key(frontend) {
                let have = self.ladders(frontend, Some(found));
                edits.front(None, *frontend, &have, Some(slots));
            }
        }
        let strange = |f: &Frontend| !touched.contains_key(f) && !self.fronts.contains_key(f);
        let frontends: BTreeSet<_> = found.ladders.keys().map(|(f, _)| *f).collect();
        for frontend in frontends.into_iter().filter(strange) {
            let have = self.ladders(&frontend, Some(found));
            edits.front(None, frontend, &have, None);
            if frontend.protocol == Protocol::Udp {
                let gone = gone([&have[0], &have[1]], None);
                draft.gone.extend(gone.into_iter().map(|endpoint| (frontend, endpoint)));
            }
        }
    }
}

/// A frontend of one of the wanted Services.
#[derive(Clone, Copy, Debug)]
struct Touch<'a> {
    /// Which of them.
    wanted: usize,
    /// `None`: it has it, and asks for it no more.
    slots: Option<&'a Slots>,
}

/// Elements that change, by transaction.
#[derive(Debug, Default)]
struct Edits([Transaction; 2]);

impl Edits {
    fn front(
        &mut self,
        origin: Option<usize>,
        frontend: Frontend,
        have: &[Ladder; 2],
        want: Option<&Slots>,
    ) {
        let mut ops = [Vec::new(), Vec::new()];
        for (lane, have) in Lane::ALL.into_iter().zip(have) {
            diff_lane(frontend, lane, have, want, &mut ops);
        }
        for (transaction, ops) in self.0.iter_mut().zip(&ops) {
            transaction.extend(origin, changes(ops));
        }
    }
}

impl Draft {
    /// Puts both transactions into one.
    pub(crate) fn join(&mut self) {
        let [first, later] = &mut self.transactions;
        first.append(std::mem::take(later));
    }

    /// Counts what a frontend shares with others, before and after.
    fn count(&mut self, plane: &Plane, frontend: &Frontend, after: Option<&Slots>) {
        let steps = [(plane.fronts.get(frontend), -1), (after, 1)];
        for (slots, step) in steps.into_iter().filter_map(|(slots, step)| Some((slots?, step))) {
            for member in members(frontend, slots) {
                let now = || plane.members.get(&member).copied().unwrap_or_default();
                let count = self.members.entry(member).or_insert_with(now);
                *count = count.saturating_add_signed(step);
            }
            for lane in Lane::ALL {
                if let Some(Target::Pick(size)) = slots.target(lane) {
                    let count = self.picks.entry((lane, size)).or_default();
                    *count = count.saturating_add_signed(step);
                }
            }
        }
    }

    /// The changes where the kernel has what it acknowledged.
    fn change(&mut self, plane: &Plane, edits: Edits) {
        let mut ops = [Vec::new(), Vec::new()];
        for (member, after) in &self.members {
            match (plane.members.contains_key(member), *after > 0) {
                (false, true) => ops[0].push(Op::Join(*member)),
                (true, false) => ops[1].push(Op::Leave(*member)),
                (false, false) | (true, true) => {}
            }
        }
        let there = plane.picks.keys().copied().collect();
        self.assemble(plane, [Vec::new(), Vec::new()], edits, ops, &plane.scope, &there);
    }

    /// The changes where the kernel has what was read.
    fn mend(&mut self, plane: &Plane, found: &Found, edits: Edits) {
        let counted = plane.members.keys().filter(|member| !self.members.contains_key(member));
        let counted =
            counted.copied().chain(self.members.iter().filter(|(_, n)| **n > 0).map(|m| *m.0));
        let want: BTreeSet<Member> = counted.collect();
        let (scope, have): (BTreeSet<_>, BTreeSet<_>) =
            found.members.iter().copied().partition(Member::is_of_scope);
        let ops = [
            want.difference(&have).copied().map(Op::Join).collect(),
            have.difference(&want).copied().map(Op::Leave).collect(),
        ];
        for pick in &found.picks {
            self.picks.entry(*pick).or_default();
        }
        let [before, after] = found.skeleton.clone();
        let before = before.into_iter().chain(found.strays.iter().cloned()).collect();
        self.assemble(plane, [before, after], edits, ops, &scope, &found.picks);
    }

    fn assemble(
        &mut self,
        plane: &Plane,
        skeleton: [Vec<Change>; 2],
        edits: Edits,
        ops: [Vec<Op>; 2],
        scope: &BTreeSet<Member>,
        there: &BTreeSet<(Lane, u32)>,
    ) {
        let [first, later] = &mut self.transactions;
        let ([before, after], Edits([made, removed]), [join, leave]) = (skeleton, edits, ops);
        first.extend(None, before);
        for (lane, count) in self.picks.keys().filter(|pick| !there.contains(pick)) {
            let chain = plane.layout.pick(*lane, *count);
            first.extend(None, [Change::AddChain(chain.name.clone(), None)]);
            let rules = chain.rules.into_iter();
            first.extend(None, rules.map(|rule| Change::AddRule(chain.name.clone(), rule)));
        }
        // Ranges may not overlap at any time, so those that go make room in the same transaction.
        let mut scoped: Vec<_> = scope.difference(&self.scope).copied().map(Op::Leave).collect();
        scoped.extend(self.scope.difference(scope).copied().map(Op::Join));
        first.extend(None, changes(&scoped));
        first.extend(None, changes(&join));
        first.append(made);
        later.append(removed);
        later.extend(None, changes(&leave));
        let spare: Vec<_> = self.picks.iter().filter(|(_, n)| **n == 0).map(|p| *p.0).collect();
        if spare.len() > SPARE_CHAINS {
            for (lane, count) in spare {
                let name = lane.chain(count);
                later.extend(None, [Change::FlushChain(name.clone()), Change::DeleteChain(name)]);
                self.picks.remove(&(lane, count));
            }
        }
        later.extend(None, after);
    }
}

impl Transaction {
    /// Puts changes first that are no single Service's.
    pub(crate) fn prepend(&mut self, changes: Vec<Change>) {
        self.origins.splice(0..0, changes.iter().map(|_| None));
        self.changes.splice(0..0, changes);
    }

    fn append(&mut self, mut other: Transaction) {
        self.changes.append(&mut other.changes);
        self.origins.append(&mut other.origins);
    }
}

impl Member {
    const fn is_of_scope(&self) -> bool {
        match self {
            Self::Pods(_) | Self::Uplink(_) => true,
            Self::Vip(_) | Self::Hairpin(_) | Self::LocalPod(_) => false,
        }
    }
}
