//! Why a transaction did not take place.

use std::io;

use signpost_nft::{Change, Family, display};

use super::config::missing_config;

/// A transaction of which nothing was applied, or whose fate is unknown.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The kernel refused it, for these changes. Later ones may be consequences of the first.
    #[error("the kernel refused {} of the changes, the first: {}", .0.len(), first(.0))]
    Refused(Vec<Refusal>),
    /// The kernel refused the transaction as a whole.
    #[error("the kernel refused the transaction: {}", io::Error::from_raw_os_error(*.errno))]
    RefusedWhole {
        /// The errno.
        errno: i32,
    },
    /// No acknowledgement came: whether it was applied is unknown, read and compare.
    #[error("the kernel did not acknowledge the transaction")]
    NoAck,
    /// The batch could not be sent: nothing was applied.
    #[error("netlink socket: {0}")]
    Io(#[from] io::Error),
}

impl CommitError {
    /// The error with the object that it is about, the errno in words, and the cure if the kernel
    /// lacks something.
    pub fn in_words(&self, family: Family, table: &str, changes: &[Change]) -> String {
        let table = format!("table {} {table}", display::family(family));
        let mut words = match self {
            Self::Refused(refusals) => match refusals.first() {
                Some(Refusal { index, errno, .. }) => {
                    let errno = io::Error::from_raw_os_error(*errno);
                    let change = changes.get(*index).map(Change::to_string).unwrap_or_default();
                    format!("{table}: {change}: {errno}")
                }
                None => format!("{table}: {self}"),
            },
            Self::RefusedWhole { .. } | Self::NoAck | Self::Io(_) => format!("{table}: {self}"),
        };
        let options = missing_config(family, changes, self);
        if !options.is_empty() {
            words.push_str("; this kernel may lack ");
            words.push_str(&options.join(" or "));
        }
        words
    }
}

/// A change that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which change of the transaction.
    pub index: usize,
    /// Which of its elements, where the kernel says so.
    pub element: Option<usize>,
    /// The errno.
    pub errno: i32,
}

fn first(refusals: &[Refusal]) -> String {
    refusals.first().map_or_else(String::new, |refusal| {
        let words = io::Error::from_raw_os_error(refusal.errno);
        format!("change {}: {words}", refusal.index)
    })
}
