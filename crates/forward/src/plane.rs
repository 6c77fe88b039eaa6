//! What the kernel acknowledged, of one family.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ipnet::IpNet;
use signpost_plan::{Family, Scope, ServiceKey};

use crate::Frontend;
use crate::chain::Chain;
use crate::diff::Member;
use crate::draft::Draft;
use crate::layout::Layout;
use crate::part::Slots;

/// What the kernel acknowledged, of one family.
#[derive(Debug)]
pub(crate) struct Plane {
    pub(crate) layout: Layout,
    pub(crate) fronts: BTreeMap<Frontend, Slots>,
    /// Which frontends a Service has.
    pub(crate) services: BTreeMap<ServiceKey, Box<[Frontend]>>,
    /// How many frontends have a member in a shared set.
    pub(crate) members: HashMap<Member, u32>,
    /// Of each chain that is there, how many verdicts lead to it.
    pub(crate) chains: BTreeMap<Chain, u32>,
    /// Members that come from the scope, not from Services.
    pub(crate) scope: BTreeSet<Member>,
}

impl Plane {
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            layout,
            fronts: BTreeMap::new(),
            services: BTreeMap::new(),
            members: HashMap::new(),
            chains: BTreeMap::new(),
            scope: BTreeSet::new(),
        }
    }

    /// Takes a draft for the truth: the kernel acknowledged it.
    pub(crate) fn accept(&mut self, draft: Draft) {
        for (frontend, slots) in draft.fronts {
            match slots {
                Some(slots) => self.fronts.insert(frontend, slots),
                None => self.fronts.remove(&frontend),
            };
        }
        for (service, fronts) in draft.services {
            match fronts {
                Some(fronts) => self.services.insert(service, fronts),
                None => self.services.remove(&service),
            };
        }
        for (member, count) in draft.members {
            match count {
                0 => self.members.remove(&member),
                count => self.members.insert(member, count),
            };
        }
        self.chains = draft.chains;
        self.scope = draft.scope;
    }
}

/// The members of shared sets that the scope gives.
pub(crate) fn scope_members(layout: Layout, scope: &Scope) -> BTreeSet<Member> {
    let uplinks = scope.uplinks.iter().filter_map(|name| uplink(name)).map(Member::Uplink);
    let ranges = |nets: &[IpNet]| {
        let nets = nets.iter().map(IpNet::trunc);
        let nets = nets.filter(|net| Family::of(net.addr()) == layout.family);
        // The kernel refuses ranges that overlap.
        IpNet::aggregate(&nets.collect()).into_iter()
    };
    let pods = ranges(&scope.pod_cidrs).map(Member::Pods);
    let nodes = ranges(&scope.node_ports).map(Member::NodeNet);
    uplinks.chain(pods).chain(nodes).collect()
}

/// A link's name as the kernel compares it; `None`: longer than a link's name can be.
fn uplink(name: &str) -> Option<[u8; 16]> {
    match signpost_nft::Part::if_name(name)? {
        signpost_nft::Part::IfName(name) => Some(name),
        _ => None,
    }
}
