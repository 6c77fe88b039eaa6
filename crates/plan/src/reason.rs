//! Why an address is not announced here: one closed list, used everywhere.

use std::fmt;

/// Why this node does not attract traffic for an address. In the order in which they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// No Service asks for the address.
    NoService,
    /// It lies in no pool.
    OutsidePools,
    /// It is a node's own address: serving it would cut the node off.
    NodeAddress,
    /// It is a Service's ClusterIP: serving it would cut that Service off.
    ClusterIp,
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
    /// `net.ipv4.conf.IF.forwarding`, or ipv6's, is 0.
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
    /// The members have not agreed on an owner yet.
    Undecided,
}

impl Reason {
    /// Its name in statuses; it never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoService => "NoService",
            Self::OutsidePools => "OutsidePools",
            Self::NodeAddress => "NodeAddress",
            Self::ClusterIp => "ClusterIp",
            Self::NotAdvertised => "NotAdvertised",
            Self::NodeNotSelected => "NodeNotSelected",
            Self::NodeExcluded => "NodeExcluded",
            Self::NetworkUnavailable => "NetworkUnavailable",
            Self::NoLink => "NoLink",
            Self::CarrierDown => "CarrierDown",
            Self::ForwardingDisabled => "ForwardingDisabled",
            Self::NoEndpoints => "NoEndpoints",
            Self::NoLocalEndpoints => "NoLocalEndpoints",
            Self::OnlyTerminatingHere => "OnlyTerminatingHere",
            Self::RulesRefused => "RulesRefused",
            Self::RulesDamaged => "RulesDamaged",
            Self::RulesNotAcknowledged => "RulesNotAcknowledged",
            Self::ControlHung => "ControlHung",
            Self::CutOff => "CutOff",
            Self::Undecided => "Undecided",
        }
    }
}

/// One sentence; [`crate::explain()`] tells the names of what it is about.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoService => "no Service asks for it",
            Self::OutsidePools => "it lies in no IPAddressPool",
            Self::NodeAddress => "it is a node's own address",
            Self::ClusterIp => "it is a Service's ClusterIP",
            Self::NotAdvertised => "no L2Advertisement selects its pool",
            Self::NodeNotSelected => "the L2Advertisements of its pool select other nodes",
            Self::NodeExcluded => "the node is excluded from load balancers by its label",
            Self::NetworkUnavailable => "the node's network is not set up (NetworkUnavailable)",
            Self::NoLink => "this node has no interface to announce it on",
            Self::CarrierDown => "the interface to announce it on is down or has no carrier",
            Self::ForwardingDisabled => "the interface to announce it on does not forward",
            Self::NoEndpoints => "no endpoint serves anywhere",
            Self::NoLocalEndpoints => "externalTrafficPolicy is Local, and no endpoint serves here",
            Self::OnlyTerminatingHere => {
                "externalTrafficPolicy is Local, the endpoints here are terminating, and others are ready"
            }
            Self::RulesRefused => "the kernel refused the rules",
            Self::RulesDamaged => "somebody edited the rules, and they are not repaired yet",
            Self::RulesNotAcknowledged => "the kernel has not acknowledged the rules yet",
            Self::ControlHung => "the agent's control loop hung",
            Self::CutOff => "neither a member nor the gateway is heard",
            Self::Undecided => "the members have not agreed on an owner yet",
        })
    }
}
