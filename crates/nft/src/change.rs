//! The steps of a transaction.

use crate::{Base, Element, Rule, Set};

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
