//! Whether a topology's names and addresses fit together.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{CONTROL, ROUTER, SWITCH, Topology};
use crate::{Error, Family};

/// A veth's name has 15 bytes at most; the switch's end is called `p-NAME`.
const MEMBER_NAME_MAX: usize = 12;

/// More would not be a lab on one machine any more.
const MEMBERS_MAX: usize = 1000;

impl Topology {
    /// Itself, if its names and addresses fit together.
    pub fn checked(self) -> Result<Self, Error> {
        let check = || {
            self.check_names()?;
            Family::ALL.into_iter().try_for_each(|f| self.check_addresses(f))?;
            self.check_control()
        };
        check().map_err(Error::Topology)?;
        Ok(self)
    }

    fn check_names(&self) -> Result<(), String> {
        let mut names = BTreeSet::from([ROUTER, SWITCH]);
        if self.control.is_some() {
            names.insert(CONTROL);
        }
        if self.control.is_none() && (self.nodes.is_empty() || self.clients.is_empty()) {
            return Err("at least one node and one client on the segment are needed".to_owned());
        }
        let nodes = self.nodes.iter().map(|n| n.name.as_str());
        let pods = self.nodes.iter().flat_map(|n| n.pods.iter().map(|p| p.name.as_str()));
        let all: Vec<&str> =
            nodes.chain(pods).chain(self.outsiders().map(|c| c.name.as_str())).collect();
        if all.len() > MEMBERS_MAX {
            return Err(format!("{} members, and {MEMBERS_MAX} are the most", all.len()));
        }
        for name in all {
            let fine = (1..=MEMBER_NAME_MAX).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            if !fine {
                return Err(format!(
                    "the name {name:?} is not 1 to {MEMBER_NAME_MAX} of a-z, 0-9 and '-'"
                ));
            }
            if !names.insert(name) {
                return Err(format!("two members are called {name}"));
            }
        }
        Ok(())
    }

    fn check_addresses(&self, family: Family) -> Result<(), String> {
        let placed = self.placed(family);
        let Some(subnets) = self.subnets(family) else {
            return match placed.first() {
                Some((name, address, _)) => Err(format!(
                    "{name} has the address {address}, and the topology no subnets of IPv6: add `ipv6`"
                )),
                None => Ok(()),
            };
        };
        let mut addresses = BTreeSet::from([subnets.router, subnets.behind_router]);
        for (name, address, subnet) in placed {
            if !addresses.insert(address) {
                return Err(format!("two members have the address {address}"));
            }
            if !subnet.is_some_and(|s| s.contains(&address)) {
                let subnet =
                    subnet.map_or("a subnet: its node has none".to_owned(), |s| s.to_string());
                return Err(format!("{name}'s address {address} is not in {subnet}"));
            }
        }
        for (router, subnet) in
            [(subnets.router, subnets.segment), (subnets.behind_router, subnets.behind)]
        {
            if !subnet.contains(&router) {
                return Err(format!("the router's address {router} is not in {subnet}"));
            }
        }
        Ok(())
    }

    /// Who has an address of a family, and the subnet where it must be.
    fn placed(&self, family: Family) -> Vec<(&str, IpAddr, Option<IpNet>)> {
        let subnets = self.subnets(family);
        let segment = subnets.map(|s| s.segment);
        let mut placed = Vec::new();
        let mut put = |name, address: Option<IpAddr>, subnet| {
            placed.extend(address.map(|a| (name, a, subnet)));
        };
        for node in &self.nodes {
            put(node.name.as_str(), node.at(family), segment);
            for pod in &node.pods {
                put(pod.name.as_str(), pod.at(family), node.pod_subnet(family));
            }
        }
        for client in &self.clients {
            put(client.name.as_str(), client.at(family), segment);
        }
        for client in &self.behind.clients {
            put(client.name.as_str(), client.at(family), subnets.map(|s| s.behind));
        }
        placed
    }

    fn check_control(&self) -> Result<(), String> {
        let Some(c) = &self.control else { return Ok(()) };
        let places = self.nodes.iter().filter_map(|n| self.management(n));
        if places.clone().count() < self.nodes.len() || places.clone().any(|a| a == c.address) {
            return Err(format!("{} has no place for {} and each node", c.subnet, c.address));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::topology::Control;

    #[test]
    fn what_does_not_fit_is_named() {
        let check = |change: fn(&mut Topology), expect: &str| {
            let mut t = Topology::default();
            change(&mut t);
            let said = t.checked().unwrap_err().to_string();
            assert!(said.contains(expect), "{said}");
        };
        check(|t| t.nodes.clear(), "at least one node");
        check(|t| t.nodes[0].name = "client".into(), "two members are called client");
        check(|t| t.nodes[0].address = t.nodes[1].address, "192.0.2.12");
        check(|t| t.nodes[0].address = Ipv4Addr::LOCALHOST, "not in 192.0.2.0/24");
        check(|t| t.nodes[0].pods[0].name = "a/b".into(), "\"a/b\"");
        check(|t| t.router = Ipv4Addr::LOCALHOST, "router's address");
        check(
            |t| {
                let control = t.clone().with_control().control.unwrap();
                t.control = Some(Control { address: Ipv4Addr::new(198, 18, 255, 11), ..control });
            },
            "no place for 198.18.255.11",
        );
        check(|t| t.nodes[0].ipv6 = "2001:db8::1".parse().ok(), "no subnets of IPv6");
        let check6 = |change: fn(&mut Topology), expect: &str| {
            let mut t = Topology::default().with_ipv6();
            change(&mut t);
            let said = t.checked().unwrap_err().to_string();
            assert!(said.contains(expect), "{said}");
        };
        check6(|t| t.clients[0].ipv6 = t.nodes[1].ipv6, "2001:db8:2::12");
        check6(|t| t.nodes[0].pods[0].ipv6 = t.nodes[1].pods[0].ipv6, "not in 2001:db8:19:1::/64");
        check6(|t| t.nodes[0].pod_cidr6 = None, "its node has none");
    }
}
