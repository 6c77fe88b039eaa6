//! The recordings there are, and what is served in them.

use std::net::Ipv4Addr;
use std::time::Duration;

use signpost_lab::Topology;
use signpost_lab::topology::Client;

use super::Error;
use super::cell::{self, Section};
use super::service::Services;
use crate::Mode;

/// What kube-proxy did, written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// In nftables mode.
    Nftables,
    /// In iptables mode.
    Iptables,
    /// In ipvs mode: a LoadBalancer under `Local` with one pod.
    IpvsOnePod,
    /// In ipvs mode: a NodePort under `Local` behind an address that Keepalived holds.
    IpvsKeepalived,
}

/// A node programs what is new within a second or two; ten times that is a busy machine.
const SETTLES: Duration = Duration::from_secs(20);

/// In ipvs mode it starts some 60 programs, twice, and the machine may be an emulated one: 150 s.
const SETTLES_IPVS: Duration = Duration::from_secs(600);

/// The lab that they can be measured in again: its members have the addresses of the recorded ones,
/// among them a load balancer on the segment that is no node. The nodes had a second NIC as well
/// ([`Topology::with_control`]), but not in ipvs mode.
pub fn topology() -> Topology {
    let mut t = Topology::default();
    let address = Ipv4Addr::new(192, 0, 2, 150);
    t.clients.push(Client { name: "balancer".to_owned(), address });
    t
}

impl Recording {
    /// All.
    pub const ALL: [Self; 4] =
        [Self::Nftables, Self::Iptables, Self::IpvsOnePod, Self::IpvsKeepalived];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
            Self::IpvsOnePod => "ipvs-one-pod",
            Self::IpvsKeepalived => "ipvs-keepalived",
        }
    }

    /// The kube-proxy that it is of.
    pub fn mode(self) -> Mode {
        match self {
            Self::Nftables => Mode::Nftables,
            Self::Iptables => Mode::Iptables,
            Self::IpvsOnePod | Self::IpvsKeepalived => Mode::Ipvs,
        }
    }

    pub(super) fn sections(self, t: &Topology) -> Result<Vec<Section>, Error> {
        let fault = |message| Error::Recording { file: self.name(), message };
        let services = Services::parse(self.manifests()).map_err(fault)?;
        cell::parse(self.text(), &services, t).map_err(fault)
    }

    /// What is served in it: Services with their status, and EndpointSlices.
    pub(super) fn manifests(self) -> &'static str {
        match self {
            Self::Nftables | Self::Iptables => concat!(
                include_str!("../../data/truth/services.yaml"),
                "---\n",
                include_str!("../../data/truth/endpointslices.yaml"),
            ),
            Self::IpvsOnePod => include_str!("../../data/truth/ipvs-one-pod.yaml"),
            Self::IpvsKeepalived => include_str!("../../data/truth/ipvs-keepalived.yaml"),
        }
    }

    /// How long a node may take to program them.
    pub(super) fn settles(self) -> Duration {
        match self {
            Self::Nftables | Self::Iptables => SETTLES,
            Self::IpvsOnePod | Self::IpvsKeepalived => SETTLES_IPVS,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Nftables => include_str!("../../data/truth/nftables.txt"),
            Self::Iptables => include_str!("../../data/truth/iptables.txt"),
            Self::IpvsOnePod => include_str!("../../data/truth/ipvs-one-pod.txt"),
            Self::IpvsKeepalived => include_str!("../../data/truth/ipvs-keepalived.txt"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_parses_and_no_cell_is_missing() {
        let t = topology().with_control().checked().unwrap();
        let counts = Recording::ALL.map(|r| {
            let sections = r.sections(&t).unwrap();
            sections.iter().map(|s| s.cells.len()).sum::<usize>()
        });
        assert_eq!(counts, [1613, 1613, 46, 38]);
    }
}
