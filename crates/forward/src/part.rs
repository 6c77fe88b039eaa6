//! What one Service contributes to the table.

use std::borrow::Cow;
use std::net::IpAddr;

use signpost_plan::world::Affinity;
use signpost_plan::{Answer, Asked, Backend, Entry, Family, Protocol, Sources, Table};

use crate::chain::{By, Chain, Choice, Pick};
use crate::{layout, sticky};

/// What one Service contributes to the table: each frontend, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// No two with the same frontend.
    pub fronts: Vec<(Frontend, Slots)>,
}

/// What clients ask, as a packet shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frontend {
    /// The place.
    pub place: Place,
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
}

/// Where packets go that ask a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// To an address of Services.
    Address(IpAddr),
    /// To any address of this node, of one family.
    Node(Family),
}

/// The endpoints of a frontend and who gets which. In a random choice the position of one is its
/// index in the kernel's map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// All that serve; empty where nobody is led to them.
    pub cluster: Box<[Backend]>,
    /// Those of this node; empty where nobody is led to them.
    pub local: Box<[Backend]>,
    /// See [`Entry::pods`].
    pub pods: Answer,
    /// See [`Entry::outsiders`].
    pub outsiders: Answer,
    /// See [`Entry::processes`].
    pub processes: Answer,
    /// See [`Entry::affinity`].
    pub affinity: Affinity,
    /// See [`Entry::sources`].
    pub sources: Sources,
}

/// The two maps of endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// All that serve, in `ep`.
    Cluster,
    /// Those of this node, in `ep_l`.
    Local,
}

/// The verdict maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Turn {
    /// `svc`: pods, and everybody else who has no verdict elsewhere.
    Everybody,
    /// `svc_x`: asked before, for outsiders.
    Outsiders,
    /// `svc_o`: asked before, for this node's processes.
    Processes,
    /// `learn`: asked once a connection is translated.
    Learn,
}

/// Where a verdict leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// To a chain, for good.
    Pick(Pick),
    /// Nowhere, in silence.
    Drop,
    /// To a refusal, where everybody else is served.
    Refuse,
    /// To the chain that remembers the client's endpoint for so many seconds, and back.
    Learn(u32),
}

/// An endpoint's address and port.
pub type Endpoint = (IpAddr, u16);

/// The elements of one Service, from its table.
pub fn render(t: &Table) -> Part {
    let mut fronts: Vec<_> = t.entries.iter().map(|e| (Frontend::of(e), Slots::of(e))).collect();
    fronts.sort_by_key(|(frontend, _)| *frontend);
    Part { fronts }
}

impl Frontend {
    /// The frontend of a table's entry.
    pub fn of(entry: &Entry) -> Self {
        let place = match entry.frontend.asked {
            Asked::Vip(address) | Asked::ClusterIp(address) => Place::Address(address),
            Asked::NodePort(family) => Place::Node(family),
        };
        Self { place, protocol: entry.frontend.protocol, port: entry.frontend.port }
    }

    /// The family of its clients.
    pub fn family(&self) -> Family {
        match self.place {
            Place::Address(address) => Family::of(address),
            Place::Node(family) => family,
        }
    }
}

impl Place {
    /// The place of an address in a key. No Service has that of all zeros: it is a NodePort's.
    pub(crate) fn of(address: IpAddr) -> Self {
        if address.is_unspecified() {
            Self::Node(Family::of(address))
        } else {
            Self::Address(address)
        }
    }
}

impl Slots {
    fn of(e: &Entry) -> Self {
        let answers = [e.pods, e.outsiders, e.processes];
        let wanted = |answer: Answer| -> Box<[Backend]> {
            if answers.contains(&answer) { e.backends(answer).into() } else { Box::default() }
        };
        Self {
            cluster: wanted(Answer::Cluster),
            local: wanted(Answer::Local),
            pods: e.pods,
            outsiders: e.outsiders,
            processes: e.processes,
            affinity: e.affinity,
            sources: e.sources.clone(),
        }
    }

    /// The endpoints of a lane.
    pub fn lane(&self, lane: Lane) -> &[Backend] {
        match lane {
            Lane::Cluster => &self.cluster,
            Lane::Local => &self.local,
        }
    }

    /// What the kernel's map of a lane has under the indexes from 0.
    pub(crate) fn rungs(&self, lane: Lane) -> Cow<'_, [Backend]> {
        match self.affinity {
            Affinity::None => self.lane(lane).into(),
            Affinity::ClientIp { .. } => sticky::slots(self.lane(lane)).into(),
        }
    }

    /// Where a verdict leads; `None`: no verdict, the packet goes on.
    pub(crate) fn target(&self, frontend: &Frontend, turn: Turn) -> Option<Target> {
        let by = match (frontend.place, &self.sources) {
            (Place::Node(_), _) => By::Node,
            (Place::Address(_), Sources::Any) => By::Address,
            (Place::Address(_), Sources::Only(_)) => By::Guarded,
        };
        let everybody = self.led(by, self.pods);
        let instead =
            |other: Option<Target>| (other != everybody).then(|| other.unwrap_or(Target::Refuse));
        match turn {
            Turn::Everybody => everybody,
            Turn::Outsiders => instead(self.led(by, self.outsiders)),
            // The plan said already whether they may ask.
            Turn::Processes => instead(self.led(by.unguarded(), self.processes)),
            Turn::Learn => match self.affinity {
                Affinity::None => None,
                Affinity::ClientIp { timeout_s } => Some(Target::Learn(timeout_s)),
            },
        }
    }

    fn led(&self, by: By, answer: Answer) -> Option<Target> {
        let lane = match answer {
            Answer::Cluster => Lane::Cluster,
            Answer::Local => Lane::Local,
            Answer::Drop => return Some(Target::Drop),
            Answer::Refuse => return None,
        };
        let count = self.lane(lane).len() as u32;
        let choice = match self.affinity {
            Affinity::None => Choice::Random(count),
            Affinity::ClientIp { .. } => Choice::Sticky,
        };
        (count > 0).then_some(Target::Pick(Pick { by, lane, choice }))
    }
}

impl Lane {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Cluster, Self::Local];

    /// The map of endpoints.
    pub const fn endpoints(self) -> &'static str {
        match self {
            Self::Cluster => layout::EP,
            Self::Local => layout::EP_L,
        }
    }
}

impl Turn {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Everybody, Self::Outsiders, Self::Processes, Self::Learn];

    /// The verdict map.
    pub const fn verdicts(self) -> &'static str {
        match self {
            Self::Everybody => layout::SVC,
            Self::Outsiders => layout::SVC_X,
            Self::Processes => layout::SVC_O,
            Self::Learn => layout::LEARN,
        }
    }
}

impl Target {
    /// The chain that it leads to.
    pub(crate) fn chain(self) -> Option<Chain> {
        match self {
            Self::Pick(pick) => Some(Chain::Pick(pick)),
            Self::Learn(timeout_s) => Some(Chain::Learn(timeout_s)),
            Self::Drop | Self::Refuse => None,
        }
    }
}

pub(crate) fn endpoint(backend: &Backend) -> Endpoint {
    (backend.address, backend.port)
}
