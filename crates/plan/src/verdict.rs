//! The gate: whether this node may attract traffic for an address, and does.

use crate::{LinkIndex, NodeName, Reason};

/// What this node does about an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It owns the address and answers for it on these interfaces.
    Own(Vec<LinkIndex>),
    /// It could, and another member does.
    StandBy(NodeName),
    /// It must not.
    Withhold(Reason),
}

/// What this node offers the other members for an address: the part of the verdict that does not
/// depend on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Where it would answer.
    pub links: Vec<LinkIndex>,
    /// See [`crate::Member::weight`].
    pub weight: u16,
}

/// The gate of one address.
pub fn verdict(
    _w: &crate::World,
    _o: &crate::Observed,
    _a: std::net::IpAddr,
) -> Verdict {
    Verdict::Withhold(Reason::NoService)
}
