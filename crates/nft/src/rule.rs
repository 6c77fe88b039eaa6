//! Rules: what they look at and what they do.

use crate::{Bytes, Type};

/// A rule: statements in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule(pub Vec<Statement>);

/// A statement of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// `LEFT == RIGHT` or `!=`, of one operand.
    Match {
        /// What is looked at.
        left: Operand,
        /// `!=`
        negated: bool,
        /// What it is compared with.
        right: Bytes,
    },
    /// `ct status & BITS == 0` (negated: `!= 0`), and the like.
    MatchBits {
        /// What is looked at.
        left: Operand,
        /// The bits, in host order.
        bits: u32,
        /// True: any of them is set; false: none is.
        any: bool,
    },
    /// `KEY @set`, `KEY != @set`.
    InSet {
        /// The concatenated key.
        key: Vec<Operand>,
        /// The set.
        set: Box<str>,
        /// `!=`
        negated: bool,
    },
    /// `KEY vmap @map`.
    Vmap {
        /// The concatenated key.
        key: Vec<Operand>,
        /// The verdict map.
        map: Box<str>,
    },
    /// `dnat to KEY map @map`: address and port from a map of two data.
    Dnat {
        /// The concatenated key.
        key: Vec<Operand>,
        /// The map.
        map: Box<str>,
    },
    /// `masquerade`, `masquerade fully-random`.
    Masquerade {
        /// NF_NAT_RANGE_PROTO_RANDOM_FULLY
        fully_random: bool,
    },
    /// `redirect`: to an address of the interface that it came in by.
    Redirect,
    /// `reject with tcp reset`.
    RejectTcpReset,
    /// `reject with icmp port-unreachable` (icmpv6 in family ip6).
    RejectPortUnreachable,
    /// A verdict, last.
    Verdict(Verdict),
    /// What Signpost never writes, read from the kernel: it equals nothing of ours.
    Foreign(Box<str>),
}

/// What a rule can look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// `ip saddr`
    IpSaddr,
    /// `ip daddr`
    IpDaddr,
    /// `ip6 saddr`
    Ip6Saddr,
    /// `ip6 daddr`
    Ip6Daddr,
    /// `th dport`
    ThDport,
    /// `icmp type`
    IcmpType,
    /// `meta l4proto`
    L4Proto,
    /// `iifname`
    IifName,
    /// `ct status`
    CtStatus,
    /// `ct original ip daddr`
    CtOriginalIpDaddr,
    /// `numgen random mod N`
    NumgenRandom(u32),
}

impl Operand {
    /// The type of what is looked at.
    pub const fn kind(self) -> Type {
        match self {
            Self::IpSaddr | Self::IpDaddr | Self::CtOriginalIpDaddr => Type::Ipv4Addr,
            Self::Ip6Saddr | Self::Ip6Daddr => Type::Ipv6Addr,
            Self::ThDport => Type::InetService,
            Self::IcmpType | Self::L4Proto => Type::InetProto,
            Self::IifName => Type::IfName,
            Self::CtStatus | Self::NumgenRandom(_) => Type::Number,
        }
    }
}

/// What becomes of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// `accept`
    Accept,
    /// `drop`
    Drop,
    /// `return`
    Return,
    /// `jump CHAIN`
    Jump(Box<str>),
    /// `goto CHAIN`
    Goto(Box<str>),
}
