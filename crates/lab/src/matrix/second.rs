//! Second addresses of nodes, as a Keepalived beside Signpost holds them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::row::When;
use super::scope::Scope;
use crate::topology::Node;
use crate::{Error, Family, Lab};

/// How far a node's second address is from its first one: in the built-in topology nobody is there.
const DISTANCE: u8 = 0x30;

/// The second address of a node.
pub(super) fn address(node: &Node, family: Family) -> IpAddr {
    match node.at(family) {
        Some(IpAddr::V6(first)) => Ipv6Addr::from(u128::from(first) + u128::from(DISTANCE)).into(),
        Some(IpAddr::V4(_)) | None => {
            Ipv4Addr::from(u32::from(node.address) + u32::from(DISTANCE)).into()
        }
    }
}

/// Nodes that have their second addresses, until this goes.
pub(super) struct Second<'a> {
    lab: &'a Lab,
    families: Vec<Family>,
}

impl<'a> Second<'a> {
    /// Gives them, where the scope asks for them.
    pub(super) fn bind(lab: &'a Lab, scope: &Scope) -> Result<Self, Error> {
        let wanted = scope.rows.iter().any(|row| row.when == When::SecondAddress);
        let families = if wanted { scope.families.clone() } else { Vec::new() };
        let bound = Self { lab, families };
        bound.all("add")?;
        Ok(bound)
    }

    fn all(&self, verb: &str) -> Result<(), Error> {
        for node in &self.lab.topology().nodes {
            let lines: String = self
                .families
                .iter()
                .map(|f| {
                    let how = match (f, verb) {
                        // Deprecated: no source of what the node itself sends.
                        (Family::Ipv6, "add") => " nodad preferred_lft 0",
                        (Family::Ipv4 | Family::Ipv6, _) => "",
                    };
                    let address = address(node, *f);
                    format!("addr {verb} {address}/{} dev eth0{how}\n", f.host_len())
                })
                .collect();
            self.lab.namespace(&node.name)?.ip(&lines)?;
        }
        Ok(())
    }
}

impl Drop for Second<'_> {
    fn drop(&mut self) {
        // With the lab they are gone anyhow.
        let _ = self.all("del");
    }
}
