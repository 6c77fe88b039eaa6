//! Named sets and maps, and their elements.

use crate::{Bytes, Verdict};

/// A named set or map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// The key's types, concatenated.
    pub key: Vec<Type>,
    /// What a key leads to.
    pub value: SetValue,
    /// How its elements are kept.
    pub form: Form,
}

/// How a set's elements are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each key for itself.
    Plain,
    /// `flags interval`: ranges. With a key of several parts each element has a first and a last
    /// key, and ranges may overlap (Linux 5.6).
    Interval,
    /// `flags dynamic,timeout`: rules add elements, and they go by themselves.
    Learned {
        /// So many elements at most.
        size: u32,
    },
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
    /// Read from the kernel: types or flags that Signpost never writes.
    Foreign(Box<str>),
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
    /// A 32 bit number in host order, as `numgen` gives.
    Number,
}

impl Type {
    /// The size of a value, without the padding that a concatenation adds.
    pub const fn size(self) -> usize {
        match self {
            Self::Ipv4Addr | Self::Number => 4,
            Self::Ipv6Addr | Self::IfName => 16,
            Self::InetProto => 1,
            Self::InetService => 2,
        }
    }

    /// The size of a key or data of these types as the kernel lays it out.
    pub fn total_size(types: &[Self]) -> usize {
        match types {
            [single] => single.size(),
            parts => parts.iter().map(|part| part.size().next_multiple_of(4)).sum(),
        }
    }
}

/// An element's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of a set, or the end marker of an interval.
    None,
    /// Of an interval set with a key of several parts: the last key, inclusive.
    Last(Bytes),
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
