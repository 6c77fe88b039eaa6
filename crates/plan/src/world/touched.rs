//! What a change touches.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::ServiceKey;

/// What a change of the world touches, to be planned again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Services whose table may differ.
    pub services: BTreeSet<ServiceKey>,
    /// Addresses whose verdict may differ.
    pub addresses: BTreeSet<IpAddr>,
    /// Every table and verdict may differ (a pool, this node, this host).
    pub all: bool,
    /// [`crate::scope()`] may differ.
    pub scope: bool,
}

impl Touched {
    /// Everything may differ.
    pub fn everything() -> Self {
        Self { all: true, scope: true, ..Self::default() }
    }

    /// Nothing needs planning.
    pub fn is_empty(&self) -> bool {
        self.services.is_empty() && self.addresses.is_empty() && !self.all && !self.scope
    }

    /// Adds what another change touches.
    pub fn merge(&mut self, other: Self) {
        self.services.extend(other.services);
        self.addresses.extend(other.addresses);
        self.all |= other.all;
        self.scope |= other.scope;
    }
}
