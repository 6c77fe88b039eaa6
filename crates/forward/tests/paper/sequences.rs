//! Any order of events ends where a fresh start would, and no state on the way misleads a packet.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use signpost_forward::{Forward, Options, Paper, Protection, TableOwner};
use signpost_netlink::nf_tables::{CommitError, Elements};
use signpost_nft::{Bytes, Element, Family, Part, SetValue, Table, Type, Value, Verdict};
use signpost_plan::{Scope, ServiceKey};

use crate::recorder::Recorder;
use crate::world::{scope, tables};

const OPTIONS: Options = Options { table_owner: TableOwner::Off, protection: Protection::Full };

#[derive(Clone, Debug)]
enum Event {
    /// Only what differs is handed on.
    Apply(BTreeMap<ServiceKey, signpost_plan::Table>, Scope),
    /// Another process with the same duty takes over.
    Restart,
    /// Somebody deletes elements, the numbers chosen by chance, and we hear of it.
    Edit(Vec<prop::sample::Index>),
    /// A transaction is not acknowledged, and not applied.
    Unacknowledged,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (tables(), scope()).prop_map(|(tables, scope)| Event::Apply(tables, scope)),
        1 => Just(Event::Restart),
        1 => prop::collection::vec(any::<prop::sample::Index>(), 1..4).prop_map(Event::Edit),
        1 => Just(Event::Unacknowledged),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn every_way_ends_as_a_fresh_start(events in prop::collection::vec(event(), 1..12)) {
        let kernel = Recorder::default();
        let mut forward = Forward::with_kernel(kernel.clone(), OPTIONS).unwrap();
        let (mut have, mut scope) = (BTreeMap::new(), Scope::default());
        settled(forward.sync(Vec::new(), &scope))?;
        for event in events {
            match event {
                Event::Apply(want, new) => {
                    let want_keys: BTreeSet<_> = have.keys().chain(want.keys()).cloned().collect();
                    let changed = want_keys.into_iter().filter(|key| have.get(key) != want.get(key));
                    let changed = changed.map(|key| (key.clone(), want.get(&key).cloned()));
                    settled(forward.apply(changed.collect(), &new))?;
                    (have, scope) = (want, new);
                }
                Event::Restart => {
                    forward = Forward::with_kernel(kernel.clone(), OPTIONS).unwrap();
                    let generation = kernel.0.borrow().paper.generation;
                    settled(forward.sync(have.values().cloned().collect(), &scope))?;
                    prop_assert_eq!(kernel.0.borrow().paper.generation, generation);
                }
                Event::Edit(picks) => {
                    edit(&kernel, &picks);
                    kernel.0.borrow_mut().states.clear();
                    settled(forward.read_and_diff())?;
                }
                Event::Unacknowledged => {
                    kernel.0.borrow_mut().fails.push(CommitError::NoAck);
                    forward.apply(Vec::new(), &Scope::default());
                    kernel.0.borrow_mut().fails.clear();
                    settled(forward.apply(Vec::new(), &scope))?;
                }
            }
            let mut fresh = Forward::with_kernel(Recorder::default(), OPTIONS).unwrap();
            settled(fresh.sync(have.values().cloned().collect(), &scope))?;
            for family in [Family::Ip, Family::Ip6] {
                let contents = kernel.0.borrow().paper.contents(family);
                let fresh = fresh_contents(family, &have, &scope);
                // A table that was needed once stays, empty.
                if contents.is_some() && fresh.is_some() {
                    prop_assert_eq!(contents.as_ref().map(unordered), fresh.as_ref().map(unordered));
                }
                prop_assert!(contents.is_some() || fresh.is_none());
                let states = &kernel.0.borrow().states;
                for pair in states.get(&family).into_iter().flat_map(|states| states.windows(2)) {
                    for (verdict, index) in missing(family, &pair[0].1, &pair[1].1) {
                        prop_assert!(false, "{verdict:?} leads to {index}, gone at once");
                    }
                }
            }
        }
    }
}

fn fresh_contents(
    family: Family,
    have: &BTreeMap<ServiceKey, signpost_plan::Table>,
    scope: &Scope,
) -> Option<(Table, Elements)> {
    let kernel = Recorder::default();
    let mut fresh = Forward::with_kernel(kernel.clone(), OPTIONS).unwrap();
    fresh.sync(have.values().cloned().collect(), scope);
    let recorded = kernel.0.borrow();
    recorded.paper.contents(family)
}

fn settled(outcome: signpost_forward::Outcome) -> Result<(), TestCaseError> {
    prop_assert!(outcome.trouble.is_none(), "{outcome:?}");
    prop_assert!(outcome.refused.is_empty() && outcome.in_flight.is_empty(), "{outcome:?}");
    Ok(())
}

fn edit(kernel: &Recorder, picks: &[prop::sample::Index]) {
    use signpost_forward::Kernel;
    use signpost_nft::Change;
    let mut recorded = kernel.0.borrow_mut();
    for pick in picks {
        let mut all: Vec<(Family, Box<str>, Element)> = Vec::new();
        for family in [Family::Ip, Family::Ip6] {
            let contents = recorded.paper.contents(family);
            for (set, elements) in contents.into_iter().flat_map(|(_, elements)| elements) {
                all.extend(elements.into_iter().map(|element| (family, set.clone(), element)));
            }
        }
        if let Some((family, set, element)) = (!all.is_empty()).then(|| pick.get(&all).clone()) {
            let change = Change::DeleteElements(set, vec![element]);
            Paper::commit(&mut recorded.paper, family, "signpost", &[change]).unwrap();
        }
    }
}

/// Without the order of endpoints, which depends on history, and chains that nothing leads to.
fn unordered(contents: &(Table, Elements)) -> (BTreeSet<Box<str>>, Vec<String>) {
    let (table, elements) = contents;
    let mut lines = Vec::new();
    let mut used: BTreeSet<Box<str>> = BTreeSet::new();
    for (set, all) in elements {
        for element in all {
            if let Value::Verdict(Verdict::Goto(chain) | Verdict::Jump(chain)) = &element.value {
                used.insert(chain.clone());
            }
            let key = match table.sets[set].value {
                SetValue::Data(_) => frontend(table.family, element).0,
                SetValue::None | SetValue::Verdict | SetValue::Foreign(_) => element.key,
            };
            lines.push(format!("{set} {key:?} {} {:?}", element.interval_end, element.value));
        }
    }
    lines.sort();
    used.extend(table.chains.keys().filter(|name| choice(name).is_none()).cloned());
    assert!(used.iter().all(|chain| table.chains.contains_key(chain)));
    (used, lines)
}

/// From which map a shared chain picks, and of how many; none for one that remembers.
fn choice(chain: &str) -> Option<(&'static str, u32)> {
    if chain.strip_prefix('t').is_some_and(|timeout| timeout.parse::<u32>().is_ok()) {
        return Some(("ep", 0));
    }
    let chain = chain.strip_prefix(['g', 'n']).unwrap_or(chain);
    let (map, count) = match (chain.strip_prefix('c'), chain.strip_prefix('l')) {
        (Some(count), _) => ("ep", count),
        (None, Some(count)) => ("ep_l", count),
        (None, None) => return None,
    };
    Some((map, if count == "s" { 1024 } else { count.parse().ok()? }))
}

/// A map's key without the index, and the index.
fn frontend(family: Family, element: &Element) -> (Bytes, u32) {
    let address = if family == Family::Ip6 { Type::Ipv6Addr } else { Type::Ipv4Addr };
    let types = [address, Type::InetProto, Type::InetService, Type::Number];
    match element.key.parts(&types).unwrap()[..] {
        [address, protocol, port, Part::Number(index)] => {
            (Bytes::new(&[address, protocol, port]), index)
        }
        _ => panic!("{element:?}"),
    }
}

/// What a packet that took a verdict from `before` can't find in either state.
fn missing(family: Family, before: &Elements, after: &Elements) -> Vec<(Bytes, u32)> {
    let mut missing = Vec::new();
    let indexes = |state: &Elements, map: &str| -> BTreeSet<(Bytes, u32)> {
        state[map].iter().map(|element| frontend(family, element)).collect()
    };
    for map in ["ep", "ep_l"] {
        let (old, new) = (indexes(before, map), indexes(after, map));
        for element in ["svc", "svc_x", "svc_o"].into_iter().flat_map(|verdicts| &before[verdicts])
        {
            let Value::Verdict(Verdict::Goto(chain)) = &element.value else { continue };
            let (from, count) = choice(chain).unwrap();
            let all = (0..count).map(|index| (element.key, index)).filter(|_| from == map);
            missing.extend(all.filter(|slot| !old.contains(slot) || !new.contains(slot)));
        }
    }
    missing
}
