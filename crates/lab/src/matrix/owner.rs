//! Who answers for an address on the segment.

use std::net::IpAddr;
use std::time::Duration;

use super::report::{Cell, Wanted};
use super::row::Kind;
use super::scenario::Scenario;
use crate::manifest::Policy;
use crate::topology::Node;
use crate::{Error, Family, Lab, arp, ndp, probe};

/// What answers ARP answers at once, and all who do within this.
const PATIENCE: Duration = Duration::from_millis(30);

/// On a busy machine an answer may take longer: silence is asked so often where an answer is due.
const TRIES: usize = 20;

/// The nodes that answer a client's ARP or neighbour solicitation; `silent`: nobody should.
pub(super) fn of(lab: &Lab, address: IpAddr, silent: bool) -> Result<Vec<&Node>, Error> {
    let t = lab.topology();
    let client = &t.clients[0];
    let ns = lab.namespace(&client.name)?;
    let mut macs = Vec::new();
    for _ in 0..if silent { 1 } else { TRIES } {
        macs = match (address, client.ipv6) {
            (IpAddr::V4(vip), _) => arp::who_has(&ns, client.address, vip, PATIENCE)?,
            (IpAddr::V6(vip), Some(own)) => ndp::who_has(&ns, own, vip, PATIENCE)?,
            (IpAddr::V6(_), None) => Vec::new(),
        };
        if !macs.is_empty() {
            break;
        }
    }
    Ok(t.nodes.iter().filter(|n| macs.iter().any(|m| m.to_string() == n.mac())).collect())
}

/// Whether they are the one that there must be.
pub(super) fn judged(
    lab: &Lab,
    s: &Scenario<'_>,
    kind: Kind,
    address: IpAddr,
    owners: &[&Node],
) -> Cell {
    let names: Vec<&str> = owners.iter().map(|n| n.name.as_str()).collect();
    let served = !s.cluster().is_empty();
    let differs = match owners {
        [] if !served => None,
        [one] if served => {
            let empty =
                s.service.external == Policy::Local && s.local(lab.topology(), one).is_empty();
            empty.then(|| format!("{} answers for it, and has no endpoint", one.name))
        }
        _ => {
            let due = if served { "and not one" } else { "and nobody should" };
            Some(format!("the nodes that answer for it are {names:?}, {due}"))
        }
    };
    Cell {
        from: format!("external {}", lab.topology().clients[0].address),
        to: address.to_string(),
        node: None,
        result: match owners {
            [] => probe::Verdict::NoAddress,
            [_] => probe::Verdict::Ok,
            [..] => probe::Verdict::Mixed,
        },
        forks: [].into(),
        client_seen: [].into(),
        pods: [].into(),
        service: s.service.name.to_owned(),
        row: s.row(kind),
        family: Family::of(address),
        column: "outsider, by ARP or neighbour discovery",
        expected: Wanted {
            result: if served { "OK" } else { "NO_ADDRESS" }.to_owned(),
            pods: vec![],
            client_seen: vec![],
        },
        differs,
    }
}
