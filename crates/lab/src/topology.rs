//! What a lab consists of, as data.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::Error;

/// A veth's name has 15 bytes at most; the switch's end is called `p-NAME`.
const MEMBER_NAME_MAX: usize = 12;

/// More would not be a lab on one machine any more.
const MEMBERS_MAX: usize = 1000;

/// One segment with nodes and clients, a router, and clients behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Topology {
    /// The segment's subnet.
    pub segment: Ipv4Net,
    /// The router's address on it.
    pub router: Ipv4Addr,
    /// The addresses that Services may have, `FIRST-LAST`, within the segment.
    pub pool: String,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Clients on the segment.
    pub clients: Vec<Client>,
    /// What lies behind the router.
    pub behind: Behind,
    /// A segment for management, apart from the other one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its address on the segment.
    pub address: Ipv4Addr,
    /// Its pods' subnet; the first address is the node's own.
    pub pod_cidr: Ipv4Net,
    /// Its pods.
    #[serde(default)]
    pub pods: Vec<Pod>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
}

/// A client outside the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
}

/// The subnet behind the router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Behind {
    /// The subnet.
    pub subnet: Ipv4Net,
    /// The router's address in it.
    pub router: Ipv4Addr,
    /// The clients.
    #[serde(default)]
    pub clients: Vec<Client>,
}

/// Where the cluster's control plane is: the member `control`, and each node's second NIC `mgmt0`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Control {
    /// The subnet. A node has the same place in it as in the segment.
    pub subnet: Ipv4Net,
    /// The control plane's address.
    pub address: Ipv4Addr,
}

/// The name of the router's namespace.
pub const ROUTER: &str = "router";

/// The name of the switch's namespace.
pub const SWITCH: &str = "switch";

/// The name of the control plane's namespace.
pub const CONTROL: &str = "control";

impl Default for Topology {
    /// Three nodes with two pods each, a client on the segment and one behind the router, with
    /// addresses of RFC 5737 and RFC 2544.
    fn default() -> Self {
        Self::of_nodes(3)
    }
}

impl Topology {
    /// The built-in topology with so many nodes (at most 26), `node-a` and on.
    pub fn of_nodes(count: u8) -> Self {
        assert!((1..=26).contains(&count), "nodes are named by a letter");
        let node = |n: u8| {
            let letter = char::from(b'a' + n - 1);
            Node {
                name: format!("node-{letter}"),
                address: Ipv4Addr::new(192, 0, 2, 10 + n),
                pod_cidr: Ipv4Net::new_assert(Ipv4Addr::new(198, 19, n, 0), 24),
                pods: (1..=2)
                    .map(|k| Pod {
                        name: format!("{letter}{k}"),
                        address: Ipv4Addr::new(198, 19, n, 4 + k),
                    })
                    .collect(),
            }
        };
        Self {
            segment: Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 2, 0), 24),
            router: Ipv4Addr::new(192, 0, 2, 1),
            pool: "192.0.2.100-192.0.2.149".to_owned(),
            nodes: (1..=count).map(node).collect(),
            clients: vec![Client {
                name: "client".to_owned(),
                address: Ipv4Addr::new(192, 0, 2, 200),
            }],
            behind: Behind {
                subnet: Ipv4Net::new_assert(Ipv4Addr::new(198, 51, 100, 0), 24),
                router: Ipv4Addr::new(198, 51, 100, 1),
                clients: vec![Client {
                    name: "remote".to_owned(),
                    address: Ipv4Addr::new(198, 51, 100, 77),
                }],
            },
            control: None,
        }
    }

    /// The same with nobody on the segment and behind the router.
    pub fn emptied(mut self) -> Self {
        self.nodes.clear();
        self.clients.clear();
        self.behind.clients.clear();
        self
    }

    /// The same with a segment for management, 198.18.255.0/24.
    pub fn with_control(self) -> Self {
        let control = Control {
            subnet: Ipv4Net::new_assert(Ipv4Addr::new(198, 18, 255, 0), 24),
            address: Ipv4Addr::new(198, 18, 255, 1),
        };
        Self { control: Some(control), ..self }
    }

    /// Reads a file of YAML or JSON.
    pub fn from_file(file: &Path) -> Result<Self, Error> {
        let fault = |message| Error::TopologyFile { file: file.to_owned(), message };
        let text = std::fs::read_to_string(file).map_err(|e| fault(e.to_string()))?;
        let topology: Self = serde_saphyr::from_str(&text).map_err(|e| fault(e.to_string()))?;
        topology.checked().map_err(|e| fault(e.to_string()))
    }

    /// Itself, if its names and addresses fit together.
    pub fn checked(self) -> Result<Self, Error> {
        let fault = |m: String| Err(Error::Topology(m));
        let mut names = BTreeSet::from([ROUTER, SWITCH]);
        let mut addresses = BTreeSet::from([self.router, self.behind.router]);
        let members = self.nodes.iter().map(|n| (&n.name, n.address, self.segment));
        let pods =
            self.nodes.iter().flat_map(|n| n.pods.iter().map(|p| (&p.name, p.address, n.pod_cidr)));
        let clients = self.clients.iter().map(|c| (&c.name, c.address, self.segment));
        let behind = self.behind.clients.iter().map(|c| (&c.name, c.address, self.behind.subnet));
        let all: Vec<_> = members.chain(pods).chain(clients).chain(behind).collect();
        if self.control.is_some() {
            names.insert(CONTROL);
        }
        if self.control.is_none() && (self.nodes.is_empty() || self.clients.is_empty()) {
            return fault("at least one node and one client on the segment are needed".to_owned());
        }
        if all.len() > MEMBERS_MAX {
            return fault(format!("{} members, and {MEMBERS_MAX} are the most", all.len()));
        }
        for (name, address, subnet) in &all {
            let fine = (1..=MEMBER_NAME_MAX).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            if !fine {
                return fault(format!(
                    "the name {name:?} is not 1 to {MEMBER_NAME_MAX} of a-z, 0-9 and '-'"
                ));
            }
            if !names.insert(name) {
                return fault(format!("two members are called {name}"));
            }
            if !addresses.insert(*address) {
                return fault(format!("two members have the address {address}"));
            }
            if !subnet.contains(address) {
                return fault(format!("{name}'s address {address} is not in {subnet}"));
            }
        }
        for (router, subnet) in
            [(self.router, self.segment), (self.behind.router, self.behind.subnet)]
        {
            if !subnet.contains(&router) {
                return fault(format!("the router's address {router} is not in {subnet}"));
            }
        }
        if let Some(c) = &self.control {
            let places = self.nodes.iter().filter_map(|n| self.management(n));
            if places.clone().count() < self.nodes.len() || places.clone().any(|a| a == c.address) {
                return fault(format!("{} has no place for {} and each node", c.subnet, c.address));
            }
        }
        Ok(self)
    }

    /// Every member's name: nodes, pods, clients, the router, the switch and the control plane.
    pub fn members(&self) -> Vec<&str> {
        let mut names: Vec<&str> = vec![SWITCH, ROUTER];
        names.extend(self.control.iter().map(|_| CONTROL));
        names.extend(self.outsiders().map(|c| c.name.as_str()));
        for node in &self.nodes {
            names.push(&node.name);
            names.extend(node.pods.iter().map(|p| p.name.as_str()));
        }
        names
    }

    /// The clients of both subnets.
    pub fn outsiders(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().chain(&self.behind.clients)
    }

    /// A node by its name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.name == name)
    }

    /// The address of a node's second NIC, if there is one.
    pub fn management(&self, node: &Node) -> Option<Ipv4Addr> {
        let subnet = self.control.as_ref()?.subnet;
        let place = u32::from(node.address) - u32::from(self.segment.network());
        let address = Ipv4Addr::from(u32::from(subnet.network()).checked_add(place)?);
        subnet.contains(&address).then_some(address)
    }

    /// A pod by its name, with its node.
    pub fn pod(&self, name: &str) -> Option<(&Node, &Pod)> {
        self.nodes.iter().find_map(|n| n.pods.iter().find(|p| p.name == name).map(|p| (n, p)))
    }
}

impl Node {
    /// Its own address on the side of its pods.
    pub fn gateway(&self) -> Ipv4Addr {
        self.pod_cidr.hosts().next().unwrap_or(self.address)
    }

    /// Its Ethernet address on the segment.
    pub fn mac(&self) -> String {
        mac(self.address)
    }
}

/// A locally administered Ethernet address that tells the IP address.
pub fn mac(address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_one_fits_together_and_survives_a_file() {
        let t = Topology::default().checked().unwrap();
        let text = serde_json::to_string(&t).unwrap();
        assert_eq!(serde_saphyr::from_str::<Topology>(&text).unwrap(), t);
        assert_eq!(t.pod("b1").unwrap().0.name, "node-b");
        assert_eq!(t.nodes[1].gateway(), Ipv4Addr::new(198, 19, 2, 1));
    }

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
    }
}
