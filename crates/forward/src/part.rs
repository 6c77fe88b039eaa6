//! What one Service contributes to the table.

use std::net::IpAddr;

use signpost_plan::{Answer, Backend, Protocol, Table};

use crate::layout;

/// What one Service contributes to the table: each address and port that clients ask, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// No two with the same frontend.
    pub fronts: Vec<(Frontend, Slots)>,
}

/// What clients ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frontend {
    /// The address.
    pub address: IpAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
}

/// The endpoints of a frontend. The position of one is its index in the kernel's map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// For everybody, unless `local` says otherwise.
    pub cluster: Box<[Backend]>,
    /// For outsiders under `Local`.
    pub local: Option<Box<[Backend]>>,
}

/// The two ways of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// By `svc` and `ep`.
    Cluster,
    /// By `svc_x` and `ep_l`.
    Local,
}

/// Where a frontend's verdict leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// To the chain that picks one of so many endpoints.
    Pick(u32),
    /// Nowhere, in silence.
    Drop,
}

/// An endpoint's address and port.
pub type Endpoint = (IpAddr, u16);

/// The elements of one Service, from its table.
pub fn render(t: &Table) -> Part {
    let slots = |e: &signpost_plan::Entry| Slots {
        cluster: e.cluster.clone().into(),
        local: match e.outsiders {
            Answer::Cluster | Answer::Refuse => None,
            Answer::Local | Answer::Drop => Some(e.local.clone().into()),
        },
    };
    let front = |e| Some((Frontend::of(e)?, slots(e)));
    let mut fronts: Vec<_> = t.entries.iter().filter_map(front).collect();
    fronts.sort_by_key(|(frontend, _)| *frontend);
    Part { fronts }
}

impl Frontend {
    /// The frontend of a table's entry.
    pub fn of(entry: &signpost_plan::Entry) -> Option<Self> {
        let signpost_plan::Frontend { protocol, port, .. } = entry.frontend;
        Some(Self { address: entry.frontend.vip()?, protocol, port })
    }
}

impl Slots {
    /// The endpoints of a lane; `None` where packets do not take it.
    pub fn lane(&self, lane: Lane) -> Option<&[Backend]> {
        match lane {
            Lane::Cluster => Some(&self.cluster),
            Lane::Local => self.local.as_deref(),
        }
    }

    /// Where the verdict of a lane leads; `None`: no verdict, the packet goes on.
    pub fn target(&self, lane: Lane) -> Option<Target> {
        match (lane, self.lane(lane)?.len()) {
            (Lane::Cluster, 0) => None,
            (Lane::Local, 0) => Some(Target::Drop),
            (Lane::Cluster | Lane::Local, count) => Some(Target::Pick(count as u32)),
        }
    }
}

impl Lane {
    /// Both, in the order of a packet's lookups from the last.
    pub const ALL: [Self; 2] = [Self::Cluster, Self::Local];

    /// The verdict map.
    pub const fn verdicts(self) -> &'static str {
        match self {
            Self::Cluster => layout::SVC,
            Self::Local => layout::SVC_X,
        }
    }

    /// The map of endpoints.
    pub const fn endpoints(self) -> &'static str {
        match self {
            Self::Cluster => layout::EP,
            Self::Local => layout::EP_L,
        }
    }

    /// The chain that picks one of so many endpoints.
    pub(crate) fn chain(self, count: u32) -> Box<str> {
        format!("{}{count}", self.letter()).into()
    }

    /// The count that a chain picks of, if it is one of this lane's.
    pub(crate) fn count_of(self, chain: &str) -> Option<u32> {
        let count: u32 = chain.strip_prefix(self.letter())?.parse().ok()?;
        // "c01" and "c+1" parse as well, and are not our names.
        (count > 0 && *self.chain(count) == *chain).then_some(count)
    }

    const fn letter(self) -> char {
        match self {
            Self::Cluster => 'c',
            Self::Local => 'l',
        }
    }
}

pub(crate) fn endpoint(backend: &Backend) -> Endpoint {
    (backend.address, backend.port)
}
