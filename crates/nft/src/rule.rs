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
    /// `update @map { KEY timeout S : VALUE }`: a new key gets the value, a known one keeps its own,
    /// and its timeout begins anew.
    Learn {
        /// The concatenated key.
        key: Vec<Operand>,
        /// The concatenated value.
        value: Vec<Operand>,
        /// After so many seconds it is forgotten.
        timeout_s: u32,
        /// The map.
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
    /// `ip daddr & 0.0.0.0`: the same for every packet, in a key that is shared with addresses.
    AnyIpDaddr,
    /// `ip6 daddr & ::`
    AnyIp6Daddr,
    /// `fib daddr type`: RTN_LOCAL and the like.
    FibDaddrType,
    /// `th dport`
    ThDport,
    /// `icmp type`
    IcmpType,
    /// `meta l4proto`
    L4Proto,
    /// `iifname`
    IifName,
    /// `ct state`
    CtState,
    /// `ct status`
    CtStatus,
    /// `ct original ip saddr`
    CtOriginalIpSaddr,
    /// `ct original ip6 saddr`
    CtOriginalIp6Saddr,
    /// `ct original ip daddr`
    CtOriginalIpDaddr,
    /// `ct original ip6 daddr`
    CtOriginalIp6Daddr,
    /// `ct original proto-dst`
    CtOriginalProtoDst,
    /// `ct reply ip saddr`
    CtReplyIpSaddr,
    /// `ct reply ip6 saddr`
    CtReplyIp6Saddr,
    /// `ct reply proto-src`
    CtReplyProtoSrc,
    /// `jhash ip saddr mod N seed SEED`
    JhashIpSaddr(Jhash),
    /// `jhash ip6 saddr mod N seed SEED`
    JhashIp6Saddr(Jhash),
    /// `numgen random mod N`
    NumgenRandom(u32),
}

/// Which of so many a hash picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jhash {
    /// From 0 to one less.
    pub modulus: u32,
    /// What it starts from.
    pub seed: u32,
}

impl Operand {
    /// The type of what is looked at.
    pub const fn kind(self) -> Type {
        match self {
            Self::IpSaddr
            | Self::IpDaddr
            | Self::AnyIpDaddr
            | Self::CtOriginalIpSaddr
            | Self::CtOriginalIpDaddr
            | Self::CtReplyIpSaddr => Type::Ipv4Addr,
            Self::Ip6Saddr
            | Self::Ip6Daddr
            | Self::AnyIp6Daddr
            | Self::CtOriginalIp6Saddr
            | Self::CtOriginalIp6Daddr
            | Self::CtReplyIp6Saddr => Type::Ipv6Addr,
            Self::ThDport | Self::CtOriginalProtoDst | Self::CtReplyProtoSrc => Type::InetService,
            Self::IcmpType | Self::L4Proto => Type::InetProto,
            Self::IifName => Type::IfName,
            Self::CtState
            | Self::CtStatus
            | Self::FibDaddrType
            | Self::NumgenRandom(_)
            | Self::JhashIpSaddr(_)
            | Self::JhashIp6Saddr(_) => Type::Number,
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
