//! nf_tables as data: tables, chains, rules, sets and their elements. No I/O.
//!
//! The one form in which Signpost holds rules. It prints in nft's own syntax, and `netlink` encodes
//! it to and decodes it from the kernel's messages; a table that goes through the kernel comes back
//! equal.

mod bytes;
mod change;
pub mod display;
mod rule;
mod set;
mod table;

pub use bytes::{Bytes, Part};
pub use change::Change;
pub use rule::{Jhash, Operand, Rule, Statement, Verdict};
pub use set::{Element, Form, Set, SetValue, Type, Value};
pub use table::{Base, Chain, ChainType, Family, Hook, Table};
