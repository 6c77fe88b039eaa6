//! Why an address is not announced here: one closed list, used everywhere.

use std::fmt;

/// Why this node does not attract traffic for an address. In the order in which they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// No Service asks for the address.
    NoService,
    /// It lies in no pool.
    OutsidePools,
    /// No L2Advertisement selects its pool.
    NotAdvertised,
    /// An L2Advertisement selects its pool, but none of them this node.
    NodeNotSelected,
    /// The node bears `node.kubernetes.io/exclude-from-external-load-balancers`.
    NodeExcluded,
    /// The node's condition NetworkUnavailable is True.
    NetworkUnavailable,
    /// No interface here to announce it on.
    NoLink,
    /// The interface has no carrier or is down.
    CarrierDown,
    /// `net.ipv4.conf.IF.forwarding` is 0.
    ForwardingDisabled,
    /// No endpoint serves anywhere.
    NoEndpoints,
    /// `externalTrafficPolicy: Local`, and no endpoint serves here.
    NoLocalEndpoints,
    /// `externalTrafficPolicy: Local`, only terminating endpoints here, and ready ones elsewhere.
    OnlyTerminatingHere,
    /// The kernel refused the rules.
    RulesRefused,
    /// Somebody edited the rules, and the repair is not acknowledged yet.
    RulesDamaged,
    /// The kernel has not acknowledged the rules yet.
    RulesNotAcknowledged,
    /// The control loop hung: the wire side withdrew on its own.
    ControlHung,
    /// Neither a member nor the gateway is heard.
    CutOff,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
