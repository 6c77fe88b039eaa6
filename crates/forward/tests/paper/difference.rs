//! `diff` leads from any part to any other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use proptest::prelude::*;
use signpost_forward::{Frontend, Lane, Member, Op, Part, Target, Turn, diff, render};

use crate::world::tables;

/// The elements of a part, as a kernel would hold them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Elements {
    verdicts: BTreeMap<(Turn, Frontend), Target>,
    endpoints: BTreeMap<(Lane, Frontend, u32), (IpAddr, u16)>,
    members: BTreeSet<Member>,
}

impl Elements {
    fn patch(&mut self, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Point { turn, frontend, replaces, target } => {
                    let key = (*turn, *frontend);
                    assert_eq!(self.verdicts.remove(&key).is_some(), *replaces, "{op:?}");
                    self.verdicts.extend(target.map(|target| (key, target)));
                }
                Op::Fill { lane, frontend, index, replaces, endpoint } => {
                    let key = (*lane, *frontend, *index);
                    assert_eq!(self.endpoints.remove(&key).is_some(), *replaces, "{op:?}");
                    self.endpoints.extend(endpoint.map(|endpoint| (key, endpoint)));
                }
                Op::Join(member) => assert!(self.members.insert(member.clone()), "{op:?}"),
                Op::Leave(member) => assert!(self.members.remove(member), "{op:?}"),
            }
        }
    }
}

fn part() -> impl Strategy<Value = Part> {
    tables().prop_map(|tables| tables.into_values().next().as_ref().map(render).unwrap_or_default())
}

proptest! {
    #[test]
    fn it_leads_from_any_part_to_any_other(have in part(), want in part()) {
        prop_assert_eq!(diff(&have, &have), [vec![], vec![]]);
        let mut elements = Elements::default();
        diff(&Part::default(), &have).iter().for_each(|ops| elements.patch(ops));
        let [additions, removals] = diff(&have, &want);
        elements.patch(&additions);
        let between = elements.clone();
        elements.patch(&removals);
        // Only what nobody needs goes late.
        prop_assert_eq!(&between.verdicts, &elements.verdicts);
        prop_assert!(elements.endpoints.iter().all(|each| between.endpoints.get(each.0) == Some(each.1)));
        prop_assert!(between.members.is_superset(&elements.members));
        let mut placed = Elements::default();
        let wanted = want.placed_on(&have);
        diff(&Part::default(), &wanted).iter().for_each(|ops| placed.patch(ops));
        prop_assert_eq!(elements, placed);
    }
}
