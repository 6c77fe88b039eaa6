//! What was observed of our decisions' effect: acknowledgements, owners, drains.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::{NodeName, ServiceKey, Table};

/// What the kernel acknowledged and what the machines report.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Per Service, the table of the last acknowledged transaction.
    pub acknowledged: BTreeMap<ServiceKey, Table>,
    /// Services whose rules the kernel refused, with the errno.
    pub refused: BTreeMap<ServiceKey, i32>,
    /// Addresses whose rules were edited by others and are not repaired yet.
    pub damaged: BTreeSet<IpAddr>,
    /// Who owns an address, as the mesh says.
    pub owners: BTreeMap<IpAddr, NodeName>,
    /// Whether a person drained this node.
    pub drained: bool,
    /// Neither a member nor the gateway is heard.
    pub cut_off: bool,
    /// Whether the wire side may announce.
    pub lease: Lease,
}

/// Whether the wire side still believes that the control loop lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lease {
    /// It was renewed in time.
    #[default]
    Held,
    /// It was not.
    Lapsed,
}
