//! What others did to our table.

use std::collections::BTreeSet;
use std::net::IpAddr;

use signpost_netlink::nf_tables::{ChangeKind, Event};
use signpost_nft::{Element, Type};

use crate::Lane;
use crate::diff::Member;
use crate::element::{read_address, read_member};
use crate::layout::{HAIRPIN, LOCAL_PODS, VIPS};
use crate::plane::Plane;

/// Which addresses' rules others edited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Of these.
    pub addresses: BTreeSet<IpAddr>,
    /// Of all: a chain, a rule, a set, the table, or it is unknown what.
    pub all: bool,
}

impl Damage {
    /// Nothing was edited.
    pub fn is_none(&self) -> bool {
        !self.all && self.addresses.is_empty()
    }

    /// By all but the session with this port id.
    pub(crate) fn of(plane: &Plane, own_port: u32, events: &[Event]) -> Self {
        let mut damage = Self::default();
        for event in events {
            match event {
                Event::Change { port, .. } if *port == own_port => {}
                Event::Change { kind, .. } => damage.add(plane, kind),
                Event::Generation { .. } => {}
                Event::Overrun => damage.all = true,
            }
        }
        damage
    }

    fn add(&mut self, plane: &Plane, kind: &ChangeKind) {
        match kind {
            ChangeKind::NewElements(set, elements) | ChangeKind::DeleteElements(set, elements) => {
                for element in elements {
                    self.add_element(plane, set, element);
                }
            }
            ChangeKind::NewTable
            | ChangeKind::DeleteTable
            | ChangeKind::NewChain(_)
            | ChangeKind::DeleteChain(_)
            | ChangeKind::NewRule(_)
            | ChangeKind::DeleteRule(_)
            | ChangeKind::NewSet(_)
            | ChangeKind::DeleteSet(_) => self.all = true,
        }
    }

    fn add_element(&mut self, plane: &Plane, set: &str, element: &Element) {
        let kind = plane.layout.address();
        match affected(plane, kind, set, element) {
            Some(addresses) => self.addresses.extend(addresses),
            None => self.all = true,
        }
    }
}

/// The addresses that an element of a set is for; `None`: all.
fn affected(plane: &Plane, kind: Type, set: &str, element: &Element) -> Option<Vec<IpAddr>> {
    let maps = Lane::ALL.into_iter().flat_map(|lane| [lane.verdicts(), lane.endpoints()]);
    if maps.chain([VIPS]).any(|map| map == set) {
        return Some(vec![read_address(kind, element)?]);
    }
    if ![HAIRPIN, LOCAL_PODS].contains(&set) {
        return None;
    }
    let pod = match read_member(set, kind, element)? {
        Member::Hairpin(pod) | Member::LocalPod(pod) => pod,
        Member::Vip(_) | Member::Pods(_) | Member::Uplink(_) => return None,
    };
    let serves = plane.fronts.iter().filter(|(_, slots)| {
        let lanes = Lane::ALL.into_iter().filter_map(|lane| slots.lane(lane));
        lanes.flatten().any(|backend| backend.address == pod)
    });
    Some(serves.map(|(frontend, _)| frontend.address).collect())
}
