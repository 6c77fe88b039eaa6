//! What others did to our table.

use std::collections::BTreeSet;
use std::net::IpAddr;

use signpost_netlink::nf_tables::{ChangeKind, Event};
use signpost_nft::{Element, Type};

use crate::diff::Member;
use crate::element::{read_address, read_member};
use crate::layout::{CLOSED, HAIRPIN, LEARNED, LOCAL_PODS, VIPS};
use crate::part::Place;
use crate::plane::Plane;
use crate::{Lane, Turn};

/// Which addresses' rules others edited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Of these.
    pub addresses: BTreeSet<IpAddr>,
    /// Of NodePorts.
    pub node_ports: bool,
    /// Of all: a chain, a rule, a set, the table, or it is unknown what.
    pub all: bool,
}

impl Damage {
    /// Nothing was edited.
    pub fn is_none(&self) -> bool {
        !self.all && !self.node_ports && self.addresses.is_empty()
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
            Some(places) => places.into_iter().for_each(|place| match place {
                Place::Address(address) => {
                    self.addresses.insert(address);
                }
                Place::Node(_) => self.node_ports = true,
            }),
            None => self.all = true,
        }
    }
}

/// The places that an element of a set is for; `None`: all.
fn affected(plane: &Plane, kind: Type, set: &str, element: &Element) -> Option<Vec<Place>> {
    if set == LEARNED {
        // Clients are led anew: no rule is missing.
        return Some(Vec::new());
    }
    let maps = Turn::ALL.map(Turn::verdicts).into_iter().chain(Lane::ALL.map(Lane::endpoints));
    if maps.chain([VIPS, CLOSED]).any(|map| map == set) {
        return Some(vec![Place::of(read_address(kind, element)?)]);
    }
    if ![HAIRPIN, LOCAL_PODS].contains(&set) {
        return None;
    }
    let pod = match read_member(set, kind, element)? {
        Member::Hairpin(pod) | Member::LocalPod(pod) => pod,
        Member::Vip(_)
        | Member::NodePort(..)
        | Member::Closed(_)
        | Member::Allowed(..)
        | Member::Pods(_)
        | Member::NodeNet(_)
        | Member::Uplink(_) => return None,
    };
    let serves = plane.fronts.iter().filter(|(_, slots)| {
        let mut lanes = Lane::ALL.into_iter().flat_map(|lane| slots.lane(lane));
        lanes.any(|backend| backend.address == pod)
    });
    Some(serves.map(|(frontend, _)| frontend.place).collect())
}
