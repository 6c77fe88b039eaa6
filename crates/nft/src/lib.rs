//! nf_tables as data: tables, chains, rules, sets and their elements. No I/O.
//!
//! The one form in which Signpost holds rules. It prints in nft's own syntax, and `netlink` encodes
//! it to and decodes it from the kernel's messages; a table that goes through the kernel comes back
//! equal.

use std::collections::BTreeMap;

/// A table with everything in it but the elements of its sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The address family.
    pub family: Family,
    /// The name.
    pub name: Box<str>,
    /// `flags owner`: only the socket that made it may change it (Linux 5.12).
    pub owner: bool,
    /// `flags persist`: it outlives that socket (Linux 6.9).
    pub persist: bool,
    /// Sets and maps by name.
    pub sets: BTreeMap<Box<str>, Set>,
    /// Chains by name.
    pub chains: BTreeMap<Box<str>, Chain>,
}

/// NFPROTO_*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// `ip`, 2.
    Ip,
    /// `ip6`, 10.
    Ip6,
    /// `inet`, 1.
    Inet,
}

/// A named set or map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// The key's types, concatenated.
    pub key: Vec<Type>,
    /// What a key leads to.
    pub value: SetValue,
    /// `flags interval`; only for keys of one type.
    pub interval: bool,
}

/// What a set's element carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetValue {
    /// Nothing: a set.
    None,
    /// Data: a map.
    Data(Vec<Type>),
    /// A verdict: a verdict map.
    Verdict,
}

/// The types of keys and data, with nft's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// `ipv4_addr`
    Ipv4Addr,
    /// `ipv6_addr`
    Ipv6Addr,
    /// `inet_proto`
    InetProto,
    /// `inet_service`
    InetService,
    /// `ifname`
    IfName,
    /// A 32 bit number in host order, as `numgen` and `mark` give.
    Number,
}

/// Key or data of an element as the kernel lays it out: each part padded to 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes {
    len: u8,
    data: [u8; Bytes::MAX],
}

/// An element's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of a set, or the end marker of an interval.
    None,
    /// Of a map.
    Data(Bytes),
    /// Of a verdict map.
    Verdict(Verdict),
}

/// An element of a set or map. For interval sets: the first address of a range, inclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The key.
    pub key: Bytes,
    /// `flags interval`: this is the first key after a range.
    pub interval_end: bool,
    /// The value.
    pub value: Value,
}

/// A chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Where the kernel calls it; `None`: only by jump and goto.
    pub base: Option<Base>,
    /// Its rules in order.
    pub rules: Vec<Rule>,
}

/// A base chain's place (policy accept).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// The chain type.
    pub kind: ChainType,
    /// The hook.
    pub hook: Hook,
    /// The priority.
    pub priority: i32,
}

/// The type of a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainType {
    /// `filter`
    Filter,
    /// `nat`
    Nat,
    /// `route`
    Route,
}

/// NF_INET_*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// 0
    Prerouting,
    /// 1
    Input,
    /// 2
    Forward,
    /// 3
    Output,
    /// 4
    Postrouting,
}

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

impl Bytes {
    /// The longest: IPv6 address, protocol, port, number.
    pub const MAX: usize = 28;
}

/// One step of a transaction on one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Makes the table, or adopts it; its sets and chains come by changes of their own.
    AddTable {
        /// See [`Table::owner`].
        owner: bool,
        /// See [`Table::persist`].
        persist: bool,
    },
    /// Deletes the table with everything in it. With no table there it fails with ENOENT.
    DeleteTable,
    /// Makes a set or map.
    AddSet(Box<str>, Set),
    /// Deletes a set or map.
    DeleteSet(Box<str>),
    /// Makes a chain without rules.
    AddChain(Box<str>, Option<Base>),
    /// Deletes a chain without rules.
    DeleteChain(Box<str>),
    /// Deletes all rules of a chain.
    FlushChain(Box<str>),
    /// Appends a rule to a chain.
    AddRule(Box<str>, Rule),
    /// Adds elements to a set or map.
    AddElements(Box<str>, Vec<Element>),
    /// Deletes elements of a set or map.
    DeleteElements(Box<str>, Vec<Element>),
    /// Deletes all elements of a set or map.
    FlushSet(Box<str>),
}
