//! What a lab consists of, as data.

mod check;
mod ipv6;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use crate::Error;

pub use ipv6::{Ipv6, Subnets};

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
    /// The same subnets in IPv6, where the lab has both families.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6>,
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
    /// Its address in IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6Addr>,
    /// Its pods' subnet in IPv6; the first address is the node's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_cidr6: Option<Ipv6Net>,
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
    /// The same in IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6Addr>,
}

/// A client outside the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// The same in IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6Addr>,
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
                ipv6: None,
                pod_cidr6: None,
                pods: (1..=2)
                    .map(|k| Pod {
                        name: format!("{letter}{k}"),
                        address: Ipv4Addr::new(198, 19, n, 4 + k),
                        ipv6: None,
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
                ipv6: None,
            }],
            behind: Behind {
                subnet: Ipv4Net::new_assert(Ipv4Addr::new(198, 51, 100, 0), 24),
                router: Ipv4Addr::new(198, 51, 100, 1),
                clients: vec![Client {
                    name: "remote".to_owned(),
                    address: Ipv4Addr::new(198, 51, 100, 77),
                    ipv6: None,
                }],
            },
            control: None,
            ipv6: None,
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
}
