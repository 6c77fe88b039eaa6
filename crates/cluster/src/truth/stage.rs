//! The circumstances of a section, made in the lab and unmade.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::Ipv4Addr;

use signpost_lab::Lab;
use signpost_lab::topology::ROUTER;

use super::Error;
use super::cell::{Cell, Kind, Section, Stage};
use super::place::Places;

/// The addresses that a recording's cells ask and nothing of the lab has: those of Services.
pub(super) struct Addresses {
    /// On the segment.
    on_link: BTreeSet<Ipv4Addr>,
    /// Elsewhere.
    routed: BTreeSet<Ipv4Addr>,
}

/// A kernel's default: one ICMP error a second for each receiver, after a burst of six.
const DEFAULT_RATELIMIT: &str = "1000";

/// What the lab sets: no limit.
const LAB_RATELIMIT: &str = "0";

/// The ports that a kernel gives to senders, by default. Each section has a share of its own: a
/// packet of a connection that a node remembers from the section before would be treated as it was.
const FIRST_PORT: u16 = 32768;
const LAST_PORT: u16 = 60999;

impl Addresses {
    pub(super) fn of(lab: &Lab, sections: &[Section]) -> Self {
        let places = Places::of(lab.topology());
        let cells = sections.iter().flat_map(|s| &s.cells);
        let asked = cells.map(Cell::address).filter(|a| !places.taken(*a));
        let (on_link, routed) = asked.partition(|a| lab.topology().segment.contains(a));
        Self { on_link, routed }
    }

    /// Makes the circumstances of the nth section.
    pub(super) fn enter(&self, lab: &Lab, sections: &[Section], n: usize) -> Result<(), Error> {
        let section = &sections[n];
        self.lead_to(lab, &section.stage.node)?;
        let share =
            (LAST_PORT - FIRST_PORT + 1) / u16::try_from(sections.len()).unwrap_or(u16::MAX);
        let first = FIRST_PORT + share * u16::try_from(n).unwrap_or(0);
        for sender in senders(section) {
            send_from(lab, sender, first, first + share - 1)?;
        }
        match section.stage.kind {
            Kind::Announced => Ok(()),
            Kind::Bound => self.bind(lab, section, "replace"),
            Kind::Limited => limit(lab, DEFAULT_RATELIMIT, "1"),
        }
    }

    /// Unmakes what is special about them.
    pub(super) fn leave(&self, lab: &Lab, section: &Section) -> Result<(), Error> {
        match section.stage.kind {
            Kind::Announced => Ok(()),
            Kind::Bound => self.bind(lab, section, "del"),
            Kind::Limited => limit(lab, LAB_RATELIMIT, "0"),
        }
    }

    /// Unmakes the rest.
    pub(super) fn clear(&self, lab: &Lab, sections: &[Section]) -> Result<(), Error> {
        let t = lab.topology();
        for sender in sections.iter().flat_map(senders).collect::<BTreeSet<_>>() {
            send_from(lab, sender, FIRST_PORT, LAST_PORT)?;
        }
        let clients = t.clients.iter().map(|c| c.name.as_str());
        for member in clients.clone().chain([ROUTER]).chain(t.nodes.iter().map(|n| n.name.as_str()))
        {
            lab.namespace(member)?.ip("neigh flush dev eth0 nud permanent\n")?;
        }
        let lines = self.routed.iter().map(|a| format!("route flush {a}\n"));
        let lines: String = lines.collect();
        for member in clients.chain([ROUTER]) {
            lab.namespace(member)?.ip(&lines)?;
        }
        Ok(())
    }

    /// Makes everybody send what is for Services to one node, as if that answered ARP for them.
    fn lead_to(&self, lab: &Lab, node: &str) -> Result<(), Error> {
        let t = lab.topology();
        let owner = lab.node(node)?;
        let mut neighbours = String::new();
        for address in &self.on_link {
            let mac = owner.mac();
            let _ =
                writeln!(neighbours, "neigh replace {address} lladdr {mac} dev eth0 nud permanent");
        }
        let mut routes = String::new();
        for address in &self.routed {
            let _ = writeln!(routes, "route replace {address} via {}", owner.address);
        }
        for member in t.clients.iter().map(|c| c.name.as_str()).chain([ROUTER]) {
            lab.namespace(member)?.ip(&[neighbours.as_str(), &routes].concat())?;
        }
        for other in t.nodes.iter().filter(|n| n.name != node) {
            lab.namespace(&other.name)?.ip(&neighbours)?;
        }
        Ok(lab.namespace(node)?.ip("neigh flush dev eth0 nud permanent\n")?)
    }

    /// Gives the node the addresses of a section, or takes them away.
    fn bind(&self, lab: &Lab, section: &Section, verb: &str) -> Result<(), Error> {
        let Stage { node, .. } = &section.stage;
        let asked: BTreeSet<Ipv4Addr> = section.cells.iter().map(Cell::address).collect();
        let lines: String = asked
            .intersection(&self.on_link)
            .map(|a| format!("addr {verb} {a}/32 dev eth0\n"))
            .collect();
        Ok(lab.namespace(node)?.ip(&lines)?)
    }
}

fn senders(section: &Section) -> BTreeSet<&str> {
    section.cells.iter().map(|cell| cell.sender.as_str()).collect()
}

fn send_from(lab: &Lab, member: &str, first: u16, last: u16) -> Result<(), Error> {
    let range = format!("{first} {last}");
    Ok(lab.namespace(member)?.sysctl("ipv4/ip_local_port_range", &range)?)
}

/// Sets a limit for ICMP errors, and whether redirects are sent: these use up the limit for a host.
/// A kernel forgets what it sent to a host after 20 s without a redirect or an error.
fn limit(lab: &Lab, icmp_ratelimit: &str, send_redirects: &str) -> Result<(), Error> {
    for node in &lab.topology().nodes {
        let ns = lab.namespace(&node.name)?;
        ns.sysctl("ipv4/icmp_ratelimit", icmp_ratelimit)?;
        ns.sysctl("ipv4/conf/all/send_redirects", send_redirects)?;
    }
    Ok(())
}
