//! Outsiders whose packets reach one node, whoever announces.

use std::net::IpAddr;

use super::scenario::Scenario;
use crate::topology::{Node, ROUTER};
use crate::{Error, Family, Lab};

/// The segment's clients and the router send the Services' packets to one node, until this goes.
pub(super) struct Pinned<'a> {
    lab: &'a Lab,
    undo: String,
}

impl<'a> Pinned<'a> {
    /// Does it: by the neighbour's Ethernet address for what is on the segment, by a route for what
    /// is not.
    pub(super) fn to(lab: &'a Lab, s: &[Scenario<'_>], node: &Node) -> Result<Self, Error> {
        let (mut lines, mut undo) = (String::new(), String::new());
        for address in s.iter().flat_map(|s| s.announced().chain(s.service.cluster_ips.clone())) {
            let family = Family::of(address);
            let Some(via) = node.at(family) else { continue };
            if is_on_segment(lab, address) {
                let mac = node.mac();
                lines += &format!("neigh replace {address} lladdr {mac} dev eth0 nud permanent\n");
                undo += &format!("neigh del {address} dev eth0\n");
            } else {
                let host = family.host_len();
                lines += &format!("route replace {address}/{host} via {via}\n");
                undo += &format!("route del {address}/{host} via {via}\n");
            }
        }
        let pinned = Self { lab, undo };
        pinned.everywhere(&lines)?;
        Ok(pinned)
    }

    fn everywhere(&self, lines: &str) -> Result<(), Error> {
        let clients = self.lab.topology().clients.iter().map(|c| c.name.as_str());
        clients.chain([ROUTER]).try_for_each(|member| self.lab.namespace(member)?.ip(lines))
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        // With the lab they are gone anyhow.
        let _ = self.everywhere(&self.undo);
    }
}

fn is_on_segment(lab: &Lab, address: IpAddr) -> bool {
    let subnets = lab.topology().subnets(Family::of(address));
    subnets.is_some_and(|s| s.segment.contains(&address))
}
