//! Who is a pod, by address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::{Node, World};

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

    pub(super) fn is_host(&self, address: IpAddr) -> bool {
        self.hosts.contains(&address)
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

    /// Sorts the declared ranges and merges those that touch.
    fn settle(&mut self) {
        self.declared = IpNet::aggregate(&self.declared);
        self.declared.sort_by_key(IpNet::network);
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
    /// After a Node came: endpoints in its ranges need no count any more.
    pub(super) fn declare_pods(&mut self, node: &Node) {
        self.pods.hosts.extend(&node.internal_ips);
        for ip in &node.internal_ips {
            self.pods.strays.remove(ip);
        }
        self.pods.declared.extend(node.pod_cidrs.iter().map(IpNet::trunc));
        self.pods.settle();
        for net in &node.pod_cidrs {
            let inside = self.pods.strays.range(net.network()..=net.broadcast());
            for ip in inside.map(|(ip, _)| *ip).collect::<Vec<_>>() {
                self.pods.strays.remove(&ip);
            }
        }
    }

    /// Counts anew after a range went: rare, and costs every endpoint.
    pub(super) fn count_pods(&mut self) {
        let cidrs = self.nodes.values().flat_map(|n| &n.pod_cidrs);
        self.pods.declared = cidrs.chain(&self.pods.extra).map(IpNet::trunc).collect();
        self.pods.settle();
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
