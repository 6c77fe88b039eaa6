//! What the kernel holds of our table, sorted by what it is for.

use std::collections::{BTreeMap, BTreeSet};

use signpost_netlink::nf_tables::Elements;
use signpost_nft::{Change, Element, Rule, Table, Type};

use crate::chain::Chain;
use crate::diff::Member;
use crate::element::{ranges, read_endpoint, read_member, read_verdict};
use crate::ladder::Ladder;
use crate::layout::{
    ALLOWED, CLOSED, HAIRPIN, LOCAL_PODS, Layout, NODE_NETS, NODE_PORTS, PODS, UPLINKS, VIPS,
};
use crate::{Frontend, Lane, Turn};

/// What the kernel holds of our table.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) standing: Standing,
    /// What it takes to make sets and chains as they should be, before and after the elements.
    pub(crate) skeleton: [Vec<Change>; 2],
    pub(crate) ladders: BTreeMap<Frontend, Ladder>,
    pub(crate) members: BTreeSet<Member>,
    /// Chains that frontends share.
    pub(crate) chains: BTreeSet<Chain>,
    /// Elements that we never write.
    pub(crate) strays: Vec<Change>,
}

/// What there is of the table itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing.
    Missing,
    /// It is there.
    There {
        /// `flags owner`
        owned: bool,
    },
    /// It is there, and differs in what can't be changed.
    Broken,
}

impl Found {
    /// No table.
    pub(crate) fn nothing(layout: Layout) -> Self {
        let mut skeleton = Vec::new();
        let sets = layout.sets().into_iter();
        skeleton.extend(sets.map(|(name, set)| Change::AddSet(name.into(), set)));
        for chain in layout.chains() {
            skeleton.push(Change::AddChain(chain.name.clone(), chain.base));
            let rules = chain.rules.into_iter();
            skeleton.extend(rules.map(|rule| Change::AddRule(chain.name.clone(), rule)));
        }
        Self { skeleton: [skeleton, Vec::new()], ..Self::empty(Standing::Missing) }
    }

    /// A table that is there.
    pub(crate) fn of(layout: Layout, table: &Table, elements: &Elements) -> Self {
        let mut found = Self::empty(Standing::There { owned: table.owner });
        if table.dormant || !found.read_skeleton(layout, table) {
            return Self { standing: Standing::Broken, ..Self::nothing(layout) };
        }
        for (set, elements) in elements {
            found.read_set(layout.address(), set, elements);
        }
        found
    }

    fn empty(standing: Standing) -> Self {
        Self {
            standing,
            skeleton: Default::default(),
            ladders: BTreeMap::new(),
            members: BTreeSet::new(),
            chains: BTreeSet::new(),
            strays: Vec::new(),
        }
    }

    pub(crate) fn ladder(&self, frontend: &Frontend) -> Ladder {
        self.ladders.get(frontend).cloned().unwrap_or_default()
    }

    /// False: a set or a hook differs, which can't be changed once made.
    fn read_skeleton(&mut self, layout: Layout, table: &Table) -> bool {
        let sets = layout.sets();
        for (name, set) in &sets {
            match table.sets.get(*name) {
                Some(there) if there == set => {}
                Some(_) => return false,
                None => self.skeleton[0].push(Change::AddSet((*name).into(), set.clone())),
            }
        }
        let mut known = BTreeSet::new();
        for chain in layout.chains() {
            match table.chains.get(&chain.name) {
                Some(there) if there.base != chain.base => return false,
                Some(there) if there.rules == chain.rules => {}
                Some(_) => self.refill(&chain.name, chain.rules),
                None => {
                    self.skeleton[0].push(Change::AddChain(chain.name.clone(), chain.base));
                    let rules = chain.rules.into_iter();
                    let rules = rules.map(|rule| Change::AddRule(chain.name.clone(), rule));
                    self.skeleton[0].extend(rules);
                }
            }
            known.insert(chain.name);
        }
        for (name, chain) in &table.chains {
            if known.contains(name) {
                continue;
            }
            match Chain::named(name) {
                Some(shared) if chain.base.is_none() => {
                    let wanted = layout.shared(shared).rules;
                    if chain.rules != wanted {
                        self.refill(name, wanted);
                    }
                    self.chains.insert(shared);
                }
                Some(_) => return false,
                None => {
                    self.skeleton[0].push(Change::FlushChain(name.clone()));
                    self.skeleton[1].push(Change::DeleteChain(name.clone()));
                }
            }
        }
        let ours: BTreeSet<_> = sets.iter().map(|(name, _)| *name).collect();
        let foreign = table.sets.keys().filter(|name| !ours.contains(&***name));
        self.skeleton[1].extend(foreign.map(|name| Change::DeleteSet(name.clone())));
        true
    }

    fn refill(&mut self, chain: &str, rules: Vec<Rule>) {
        self.skeleton[0].push(Change::FlushChain(chain.into()));
        let rules = rules.into_iter().map(|rule| Change::AddRule(chain.into(), rule));
        self.skeleton[0].extend(rules);
    }

    fn read_set(&mut self, address: Type, set: &str, elements: &[Element]) {
        let of_ranges: Option<fn(_) -> _> = match set {
            PODS => Some(Member::Pods),
            NODE_NETS => Some(Member::NodeNet),
            _ => None,
        };
        if let Some(member) = of_ranges {
            match ranges(address, elements) {
                Some(ranges) => self.members.extend(ranges.into_iter().map(member)),
                None => self.strays.push(Change::FlushSet(set.into())),
            }
            return;
        }
        let mut strays = Vec::new();
        for element in elements {
            if !self.read_element(address, set, element) {
                strays.push(element.clone());
            }
        }
        if !strays.is_empty() {
            self.strays.push(Change::DeleteElements(set.into(), strays));
        }
    }

    /// False: we never write such an element.
    fn read_element(&mut self, address: Type, set: &str, element: &Element) -> bool {
        if let Some(turn) = Turn::ALL.into_iter().find(|turn| set == turn.verdicts()) {
            let Some((frontend, seen)) = read_verdict(turn, address, element) else { return false };
            self.ladders.entry(frontend).or_default().verdicts[turn as usize] = seen;
            return true;
        }
        if let Some(lane) = Lane::ALL.into_iter().find(|lane| set == lane.endpoints()) {
            let Some((frontend, index, seen)) = read_endpoint(address, element) else {
                return false;
            };
            self.ladders.entry(frontend).or_default().rungs[lane as usize].insert(index, seen);
            return true;
        }
        let shared = [VIPS, NODE_PORTS, CLOSED, ALLOWED, HAIRPIN, LOCAL_PODS, UPLINKS];
        if shared.contains(&set) {
            let member = read_member(set, address, element);
            let is_ours = member.is_some();
            self.members.extend(member);
            return is_ours;
        }
        // A foreign set goes as a whole.
        true
    }
}
