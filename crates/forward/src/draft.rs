//! What a change of Services comes to, before the kernel has seen it.

use std::collections::{BTreeMap, BTreeSet};

use signpost_nft::Change;
use signpost_plan::{Protocol, Scope, ServiceKey};

use crate::chain::Chain;
use crate::diff::{Member, Op, diff_front, gone, member_ops, members, unlearned};
use crate::element::changes;
use crate::found::Found;
use crate::ladder::Ladder;
use crate::part::{Endpoint, Slots};
use crate::plane::{Plane, scope_members};
use crate::{Frontend, Part, Turn};

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
    pub(crate) chains: BTreeMap<Chain, u32>,
    pub(crate) scope: BTreeSet<Member>,
    /// Endpoints of UDP frontends that went away.
    pub(crate) gone: Vec<(Frontend, Endpoint)>,
    /// What clients must not be led back to.
    pub(crate) unlearned: BTreeSet<(Frontend, Endpoint)>,
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
            chains: self.chains.clone(),
            scope: scope_members(self.layout, scope),
            gone: Vec::new(),
            unlearned: BTreeSet::new(),
        };
        let mut edits = Edits::default();
        for (frontend, touch) in &touched {
            let have = self.ladder(frontend, found);
            let placed = touch.slots.map(|slots| slots.placed_on(&have));
            edits.front(Some(touch.wanted), *frontend, &have, placed.as_ref());
            draft.count(self, frontend, placed.as_ref());
            draft.forget(frontend, &have, placed.as_ref());
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
            for (frontend, slots) in fronts.filter(|(f, _)| f.family() == self.layout.family) {
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
            fronts.filter(|frontend| frontend.family() == self.layout.family).collect()
        });
        (service.clone(), fronts)
    }

    /// What the kernel has under a frontend.
    fn ladder(&self, frontend: &Frontend, found: Option<&Found>) -> Ladder {
        match (found, self.fronts.get(frontend)) {
            (Some(found), _) => found.ladder(frontend),
            (None, Some(slots)) => Ladder::of(frontend, slots),
            (None, None) => Ladder::default(),
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
                edits.front(None, *frontend, &found.ladder(frontend), Some(slots));
            }
        }
        let strange = |f: &Frontend| !touched.contains_key(f) && !self.fronts.contains_key(f);
        for (frontend, have) in found.ladders.iter().filter(|(f, _)| strange(f)) {
            edits.front(None, *frontend, have, None);
            draft.forget(frontend, have, None);
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
        have: &Ladder,
        want: Option<&Slots>,
    ) {
        let mut ops = [Vec::new(), Vec::new()];
        diff_front(frontend, have, want, &mut ops);
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
                let now = |member: &Member| plane.members.get(member).copied().unwrap_or_default();
                let count = self.members.entry(member).or_insert_with_key(now);
                *count = count.saturating_add_signed(step);
            }
            let targets = Turn::ALL.into_iter().filter_map(|turn| slots.target(frontend, turn));
            for chain in targets.filter_map(|target| target.chain()) {
                let count = self.chains.entry(chain).or_default();
                *count = count.saturating_add_signed(step);
            }
        }
    }

    /// Notes which connections and clients must be led elsewhere.
    fn forget(&mut self, frontend: &Frontend, have: &Ladder, want: Option<&Slots>) {
        if frontend.protocol == Protocol::Udp {
            let gone = gone(have, want);
            self.gone.extend(gone.into_iter().map(|endpoint| (*frontend, endpoint)));
        }
        let unlearned = unlearned(frontend, have, want);
        self.unlearned.extend(unlearned.into_iter().map(|endpoint| (*frontend, endpoint)));
    }

    /// The changes where the kernel has what it acknowledged.
    fn change(&mut self, plane: &Plane, edits: Edits) {
        let there = |member: &Member| plane.members.contains_key(member);
        let come = self.members.iter().filter(|(m, n)| **n > 0 && !there(m)).map(|(m, _)| m);
        let go = self.members.iter().filter(|(m, n)| **n == 0 && there(m)).map(|(m, _)| m);
        let ops = member_ops(come, go);
        let there = plane.chains.keys().copied().collect();
        self.assemble(plane, [Vec::new(), Vec::new()], edits, ops, &plane.scope, &there);
    }

    /// The changes where the kernel has what was read.
    fn mend(&mut self, plane: &Plane, found: &Found, edits: Edits) {
        let counted = plane.members.keys().filter(|member| !self.members.contains_key(member));
        let counted =
            counted.chain(self.members.iter().filter(|(_, n)| **n > 0).map(|m| m.0)).cloned();
        let want: BTreeSet<Member> = counted.collect();
        let (scope, have): (BTreeSet<_>, BTreeSet<_>) =
            found.members.iter().cloned().partition(Member::is_of_scope);
        let ops = member_ops(want.difference(&have), have.difference(&want));
        for chain in &found.chains {
            self.chains.entry(*chain).or_default();
        }
        let [before, after] = found.skeleton.clone();
        let before = before.into_iter().chain(found.strays.iter().cloned()).collect();
        self.assemble(plane, [before, after], edits, ops, &scope, &found.chains);
    }

    fn assemble(
        &mut self,
        plane: &Plane,
        skeleton: [Vec<Change>; 2],
        edits: Edits,
        ops: [Vec<Op>; 2],
        scope: &BTreeSet<Member>,
        there: &BTreeSet<Chain>,
    ) {
        let [first, later] = &mut self.transactions;
        let ([before, after], Edits([made, removed]), [join, leave]) = (skeleton, edits, ops);
        first.extend(None, before);
        for chain in self.chains.keys().filter(|chain| !there.contains(chain)) {
            let chain = plane.layout.shared(*chain);
            first.extend(None, [Change::AddChain(chain.name.clone(), None)]);
            let rules = chain.rules.into_iter();
            first.extend(None, rules.map(|rule| Change::AddRule(chain.name.clone(), rule)));
        }
        // Ranges may not overlap at any time, so those that go make room in the same transaction.
        let mut scoped: Vec<_> = scope.difference(&self.scope).cloned().map(Op::Leave).collect();
        scoped.extend(self.scope.difference(scope).cloned().map(Op::Join));
        first.extend(None, changes(&scoped));
        first.extend(None, changes(&join));
        first.append(made);
        later.append(removed);
        later.extend(None, changes(&leave));
        let spare: Vec<_> = self.chains.iter().filter(|(_, n)| **n == 0).map(|c| *c.0).collect();
        if spare.len() > SPARE_CHAINS {
            for chain in spare {
                let name = chain.name();
                later.extend(None, [Change::FlushChain(name.clone()), Change::DeleteChain(name)]);
                self.chains.remove(&chain);
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
