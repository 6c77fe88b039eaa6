//! Single elements that others edited, put right without reading the whole table: reading 100,000
//! elements takes some 0.3 s.

use std::collections::BTreeMap;

use signpost_netlink::nf_tables::{ChangeKind, Event};
use signpost_nft::{Bytes, Change, Element, Value};

use crate::element::{endpoint_value, read_endpoint, read_member, read_verdict, verdict_value};
use crate::layout::LEARNED;
use crate::part::endpoint;
use crate::plane::Plane;
use crate::{Lane, Turn};

/// Somebody rewrites whole sets.
const MANY: usize = 4096;

/// What others left under single keys, by set: whether something is there.
#[derive(Debug, Default)]
pub(crate) struct Edits(BTreeMap<(Box<str>, Bytes), bool>);

impl Edits {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether reading the table is quicker, and safer for our memory.
    pub(crate) fn are_many(&self) -> bool {
        self.0.len() > MANY
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The last event of a key counts.
    pub(crate) fn absorb(&mut self, own_port: u32, events: &[Event]) {
        for event in events {
            let (set, elements, is_there) = match event {
                Event::Change { port, .. } if *port == own_port => continue,
                Event::Change { kind: ChangeKind::NewElements(set, all), .. } => (set, all, true),
                Event::Change { kind: ChangeKind::DeleteElements(set, all), .. } => {
                    (set, all, false)
                }
                Event::Change { .. } | Event::Generation { .. } | Event::Overrun => continue,
            };
            if &**set == LEARNED {
                continue;
            }
            let keys = elements.iter().map(|element| (set.clone(), element.key));
            self.0.extend(keys.map(|key| (key, is_there)));
        }
    }

    /// What makes them as they should be, in one transaction.
    pub(crate) fn mend(&self, plane: &Plane) -> Vec<Change> {
        let mut changes = Vec::new();
        for ((set, key), is_there) in &self.0 {
            let element = Element { key: *key, interval_end: false, value: Value::None };
            if *is_there {
                changes.push(Change::DeleteElements(set.clone(), vec![element.clone()]));
            }
            if let Some(value) = wanted(plane, set, &element) {
                changes.push(Change::AddElements(set.clone(), vec![Element { value, ..element }]));
            }
        }
        changes
    }
}

/// What should be under a key.
fn wanted(plane: &Plane, set: &str, element: &Element) -> Option<Value> {
    let address = plane.layout.address();
    if let Some(turn) = Turn::ALL.into_iter().find(|turn| set == turn.verdicts()) {
        let (frontend, _) = read_verdict(turn, address, element)?;
        return plane.fronts.get(&frontend)?.target(&frontend, turn).map(verdict_value);
    }
    if let Some(lane) = Lane::ALL.into_iter().find(|lane| set == lane.endpoints()) {
        let (frontend, index, _) = read_endpoint(address, element)?;
        let rungs = plane.fronts.get(&frontend)?.rungs(lane);
        return Some(endpoint_value(endpoint(rungs.get(index as usize)?)));
    }
    let member = read_member(set, address, element)?;
    let is_wanted = plane.members.contains_key(&member) || plane.scope.contains(&member);
    is_wanted.then_some(Value::None)
}
