//! Why a transaction did not take place.

use std::io;

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
    /// The socket failed. After a send that failed nothing was applied.
    #[error("netlink socket: {0}")]
    Io(#[from] io::Error),
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
