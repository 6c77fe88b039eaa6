//! Any order of events ends where a fresh start would, and no state on the way misleads a packet.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use signpost_forward::{Forward, Options, Paper, Protection, TableOwner};
use signpost_netlink::nf_tables::{CommitError, Elements};
use signpost_nft::{Bytes, Element, Part, SetValue, Table, Type, Value, Verdict};
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
            let contents = kernel.0.borrow().paper.contents().unwrap();
            prop_assert_eq!(unordered(&contents), unordered(&fresh_contents(&have, &scope)));
            for pair in kernel.0.borrow().states.windows(2) {
                for (verdict, index) in missing(&pair[0].1, &pair[1].1) {
                    prop_assert!(false, "{verdict:?} leads to {index}, gone at once");
                }
            }
        }
    }
}

fn fresh_contents(
    have: &BTreeMap<ServiceKey, signpost_plan::Table>,
    scope: &Scope,
) -> (Table, Elements) {
    let kernel = Recorder::default();
    let mut fresh = Forward::with_kernel(kernel.clone(), OPTIONS).unwrap();
    fresh.sync(have.values().cloned().collect(), scope);
    let contents = kernel.0.borrow().paper.contents();
    contents.unwrap()
}

fn settled(outcome: signpost_forward::Outcome) -> Result<(), TestCaseError> {
    prop_assert!(outcome.trouble.is_none(), "{outcome:?}");
    prop_assert!(outcome.refused.is_empty() && outcome.in_flight.is_empty(), "{outcome:?}");
    Ok(())
}

fn edit(kernel: &Recorder, picks: &[prop::sample::Index]) {
    use signpost_forward::Kernel;
    use signpost_nft::{Change, Family};
    let mut recorded = kernel.0.borrow_mut();
    for pick in picks {
        let (_, elements) = recorded.paper.contents().unwrap();
        let all: Vec<(Box<str>, Element)> = elements
            .into_iter()
            .flat_map(|(set, all)| all.into_iter().map(move |element| (set.clone(), element)))
            .collect();
        if let Some((set, element)) = (!all.is_empty()).then(|| pick.get(&all).clone()) {
            let change = Change::DeleteElements(set, vec![element]);
            Paper::commit(&mut recorded.paper, Family::Ip, "signpost", &[change]).unwrap();
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
            if let Value::Verdict(Verdict::Goto(chain)) = &element.value {
                used.insert(chain.clone());
            }
            let key = match table.sets[set].value {
                SetValue::Data(_) => frontend(element).0,
                SetValue::None | SetValue::Verdict | SetValue::Foreign(_) => element.key,
            };
            lines.push(format!("{set} {key:?} {} {:?}", element.interval_end, element.value));
        }
    }
    lines.sort();
    used.extend(table.chains.keys().filter(|name| !is_pick(name)).cloned());
    assert!(used.iter().all(|chain| table.chains.contains_key(chain)));
    (used, lines)
}

fn is_pick(chain: &str) -> bool {
    chain.starts_with(['c', 'l']) && chain[1..].parse::<u32>().is_ok()
}

/// A map's key without the index, and the index.
fn frontend(element: &Element) -> (Bytes, u32) {
    let types = [Type::Ipv4Addr, Type::InetProto, Type::InetService, Type::Number];
    match element.key.parts(&types).unwrap()[..] {
        [address, protocol, port, Part::Number(index)] => {
            (Bytes::new(&[address, protocol, port]), index)
        }
        _ => panic!("{element:?}"),
    }
}

/// What a packet that took a verdict from `before` can't find in either state.
fn missing(before: &Elements, after: &Elements) -> Vec<(Bytes, u32)> {
    let mut missing = Vec::new();
    for (verdicts, endpoints) in [("svc", "ep"), ("svc_x", "ep_l")] {
        let indexes = |state: &Elements| -> BTreeSet<(Bytes, u32)> {
            state[endpoints].iter().map(frontend).collect()
        };
        let (old, new) = (indexes(before), indexes(after));
        for element in &before[verdicts] {
            let Value::Verdict(Verdict::Goto(chain)) = &element.value else { continue };
            let all = (0..chain[1..].parse().unwrap()).map(|index| (element.key, index));
            missing.extend(all.filter(|slot| !old.contains(slot) || !new.contains(slot)));
        }
    }
    missing
}
