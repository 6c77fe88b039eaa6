//! The steps of a transaction.

use std::fmt;

use crate::{Base, Element, Rule, Set};

/// One step of a transaction on one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Makes the table, or adopts it; its sets and chains come by changes of their own.
    AddTable {
        /// See [`crate::Table::owner`].
        owner: bool,
        /// See [`crate::Table::persist`].
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

/// What it does, in words for an error: `add a rule to chain output`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddTable { .. } => f.write_str("add the table"),
            Self::DeleteTable => f.write_str("delete the table"),
            Self::AddSet(name, _) => write!(f, "add set {name}"),
            Self::DeleteSet(name) => write!(f, "delete set {name}"),
            Self::AddChain(name, _) => write!(f, "add chain {name}"),
            Self::DeleteChain(name) => write!(f, "delete chain {name}"),
            Self::FlushChain(name) => write!(f, "delete the rules of chain {name}"),
            Self::AddRule(name, _) => write!(f, "add a rule to chain {name}"),
            Self::AddElements(name, _) => write!(f, "add elements to set {name}"),
            Self::DeleteElements(name, _) => write!(f, "delete elements of set {name}"),
            Self::FlushSet(name) => write!(f, "delete all elements of set {name}"),
        }
    }
}
