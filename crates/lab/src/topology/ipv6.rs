//! A topology's second family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::{Client, Node, Pod, Topology};
use crate::Family;

/// The subnets of a topology in IPv6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ipv6 {
    /// The segment's.
    pub segment: Ipv6Net,
    /// The router's address on it.
    pub router: Ipv6Addr,
    /// The addresses that Services may have, `FIRST-LAST`, within the segment.
    pub pool: String,
    /// The subnet behind the router.
    pub behind: Ipv6Net,
    /// The router's address in it.
    pub behind_router: Ipv6Addr,
}

/// The subnets of a topology in one family.
#[derive(Clone, Copy, Debug)]
pub struct Subnets<'a> {
    /// The segment's.
    pub segment: IpNet,
    /// The router's address on it.
    pub router: IpAddr,
    /// The addresses that Services may have, `FIRST-LAST`.
    pub pool: &'a str,
    /// The subnet behind the router.
    pub behind: IpNet,
    /// The router's address in it.
    pub behind_router: IpAddr,
}

impl Topology {
    /// The same in both families. Everybody has the same place in the subnets of 2001:db8::/32 as in
    /// those of IPv4, in digits that read alike: 192.0.2.11 is 2001:db8:2::11 as well.
    pub fn with_ipv6(mut self) -> Self {
        let segment = "2001:db8:2::/64".parse().expect("it is a subnet");
        let behind = "2001:db8:100::/64".parse().expect("it is a subnet");
        let here = |a| place(self.segment, a);
        for (n, node) in self.nodes.iter_mut().enumerate() {
            let cidr = Ipv6Net::new_assert(read_alike("2001:db8:19:", n + 1, "::"), 64);
            node.ipv6 = Some(at(segment, here(node.address)));
            node.pod_cidr6 = Some(cidr);
            for pod in &mut node.pods {
                pod.ipv6 = Some(at(cidr, place(node.pod_cidr, pod.address)));
            }
        }
        for client in &mut self.clients {
            client.ipv6 = Some(at(segment, here(client.address)));
        }
        for client in &mut self.behind.clients {
            client.ipv6 = Some(at(behind, place(self.behind.subnet, client.address)));
        }
        self.ipv6 = Some(Ipv6 {
            segment,
            router: at(segment, here(self.router)),
            pool: "2001:db8:2::100-2001:db8:2::149".to_owned(),
            behind,
            behind_router: at(behind, place(self.behind.subnet, self.behind.router)),
        });
        self
    }

    /// The families that it has.
    pub fn families(&self) -> Vec<Family> {
        Family::ALL.into_iter().filter(|f| self.subnets(*f).is_some()).collect()
    }

    /// Its subnets in a family.
    pub fn subnets(&self, family: Family) -> Option<Subnets<'_>> {
        match family {
            Family::Ipv4 => Some(Subnets {
                segment: self.segment.into(),
                router: self.router.into(),
                pool: &self.pool,
                behind: self.behind.subnet.into(),
                behind_router: self.behind.router.into(),
            }),
            Family::Ipv6 => self.ipv6.as_ref().map(|v6| Subnets {
                segment: v6.segment.into(),
                router: v6.router.into(),
                pool: &v6.pool,
                behind: v6.behind.into(),
                behind_router: v6.behind_router.into(),
            }),
        }
    }
}

impl Node {
    /// Its address in a family.
    pub fn at(&self, family: Family) -> Option<IpAddr> {
        choose(family, self.address, self.ipv6)
    }

    /// Its pods' subnet in a family.
    pub fn pod_subnet(&self, family: Family) -> Option<IpNet> {
        match family {
            Family::Ipv4 => Some(self.pod_cidr.into()),
            Family::Ipv6 => self.pod_cidr6.map(IpNet::from),
        }
    }

    /// Its own address on the side of its pods, in a family.
    pub fn gateway_at(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::Ipv4 => Some(self.gateway().into()),
            // Not `hosts()`: its first one is the anycast address of the subnet's routers.
            Family::Ipv6 => {
                self.pod_cidr6.map(|cidr| Ipv6Addr::from(u128::from(cidr.network()) + 1).into())
            }
        }
    }
}

impl Pod {
    /// Its address in a family.
    pub fn at(&self, family: Family) -> Option<IpAddr> {
        choose(family, self.address, self.ipv6)
    }
}

impl Client {
    /// Its address in a family.
    pub fn at(&self, family: Family) -> Option<IpAddr> {
        choose(family, self.address, self.ipv6)
    }
}

fn choose(family: Family, v4: Ipv4Addr, v6: Option<Ipv6Addr>) -> Option<IpAddr> {
    match family {
        Family::Ipv4 => Some(v4.into()),
        Family::Ipv6 => v6.map(IpAddr::from),
    }
}

fn place(subnet: Ipv4Net, address: Ipv4Addr) -> usize {
    usize::try_from(u32::from(address) - u32::from(subnet.network())).expect("32 bits fit")
}

fn at(subnet: Ipv6Net, place: usize) -> Ipv6Addr {
    read_alike(&subnet.network().to_string(), place, "")
}

/// Decimal digits, taken as hexadecimal ones.
fn read_alike(before: &str, place: usize, after: &str) -> Ipv6Addr {
    format!("{before}{place}{after}").parse().expect("a subnet's place has four digits at most")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_the_same_place_in_both_families() {
        let t = Topology::default().with_ipv6().checked().unwrap();
        let v6 = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        assert_eq!(t.nodes[0].at(Family::Ipv6), v6("2001:db8:2::11"));
        assert_eq!(t.nodes[1].gateway_at(Family::Ipv6), v6("2001:db8:19:2::1"));
        assert_eq!(t.pod("b2").unwrap().1.at(Family::Ipv6), v6("2001:db8:19:2::6"));
        assert_eq!(t.behind.clients[0].at(Family::Ipv6), v6("2001:db8:100::77"));
        assert_eq!(t.families(), Family::ALL);
        assert_eq!(Topology::default().families(), [Family::Ipv4]);
        let text = serde_json::to_string(&t).unwrap();
        assert_eq!(serde_saphyr::from_str::<Topology>(&text).unwrap(), t);
    }
}
