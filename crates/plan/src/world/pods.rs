//! Who is a pod, by address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::World;

/// The pod ranges, with a count of the endpoints that lie outside the declared ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Pods {
    /// `--pod-cidr`.
    extra: Vec<IpNet>,
    /// Nodes' podCIDRs and `extra`, sorted, none inside another.
    declared: Vec<IpNet>,
    /// Nodes' own addresses: endpoints with these are host processes.
    hosts: BTreeSet<IpAddr>,
    /// How many endpoints bear an address that no declared range holds.
    strays: BTreeMap<IpAddr, u32>,
}

impl Pods {
    pub(super) fn set_extra(&mut self, extra: Vec<IpNet>) {
        self.extra = extra;
    }

    pub(super) fn ranges(&self) -> Vec<IpNet> {
        let mut all = self.declared.clone();
        all.extend(self.strays.keys().copied().map(IpNet::from));
        all.sort();
        all
    }

    /// Counts one endpoint more; true if the ranges changed.
    pub(super) fn add(&mut self, address: IpAddr) -> bool {
        if !self.stray(address) {
            return false;
        }
        let count = self.strays.entry(address).or_default();
        *count += 1;
        *count == 1
    }

    /// Counts one endpoint less; true if the ranges changed.
    pub(super) fn remove(&mut self, address: IpAddr) -> bool {
        let Some(count) = self.strays.get_mut(&address) else { return false };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        self.strays.remove(&address);
        true
    }

    fn stray(&self, address: IpAddr) -> bool {
        if self.hosts.contains(&address) {
            return false;
        }
        // Sorted and disjoint: only the last range that starts at or before can hold it.
        let after = self.declared.partition_point(|n| n.network() <= address);
        !after.checked_sub(1).is_some_and(|i| self.declared[i].contains(&address))
    }
}

impl World {
    /// Counts anew after the declared ranges changed; the Nodes are few and change rarely.
    pub(super) fn count_pods(&mut self) {
        let cidrs = self.nodes.values().flat_map(|n| n.pod_cidrs.iter().copied());
        let all = cidrs.chain(self.pods.extra.iter().copied()).map(|n| n.trunc());
        self.pods.declared = IpNet::aggregate(&all.collect());
        self.pods.declared.sort_by_key(IpNet::network);
        self.pods.hosts =
            self.nodes.values().flat_map(|n| n.internal_ips.iter().copied()).collect();
        self.pods.strays.clear();
        for slice in self.slices.values().flatten() {
            for e in &slice.endpoints {
                self.pods.add(e.address);
            }
        }
    }
}
