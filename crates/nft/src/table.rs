//! A table and its chains.

use std::collections::BTreeMap;

use crate::{Rule, Set};

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
    /// `flags dormant`: its base chains are asleep. Signpost never writes it; adding the table wakes
    /// it.
    pub dormant: bool,
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
    /// Read from the kernel: another type, a policy other than accept, or bound to devices.
    Foreign,
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
    /// 5, in family inet.
    Ingress,
}
