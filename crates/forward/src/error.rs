//! What can go wrong as a whole.

use std::io;

use signpost_netlink::ReadError;
use signpost_netlink::nf_tables::CommitError;

use crate::TABLE;

/// No rules could be changed, of any Service.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The netlink socket can't be had.
    #[error("netlink socket to nf_tables: {0}")]
    Socket(#[source] io::Error),
    /// This process lacks the right.
    #[error("table {TABLE} can't be read: CAP_NET_ADMIN is missing; run it as root or grant it")]
    NotPermitted,
    /// The kernel has no nf_tables.
    #[error("this kernel has no nf_tables: it needs CONFIG_NF_TABLES, CONFIG_NFT_NAT and more")]
    NoNfTables,
    /// The table can't be read.
    #[error("table {TABLE} can't be read: {0}")]
    Read(#[source] ReadError),
    /// Another process that lives owns the table.
    #[error("table {TABLE} belongs to another process that is running: stop that one first")]
    OwnedByAnother,
    /// A change that is no single Service's was refused.
    #[error("the kernel refused to change table {TABLE}: {}", io::Error::from_raw_os_error(*.0))]
    Refused(i32),
    /// Whether the kernel applied the changes is unknown.
    #[error("changes to table {TABLE} were not acknowledged: {0}")]
    Unacknowledged(#[source] CommitError),
}

impl Error {
    pub(crate) fn reading(error: ReadError) -> Self {
        match error {
            ReadError::Refused(libc::EPERM) => Self::NotPermitted,
            ReadError::Refused(libc::EINVAL | libc::EOPNOTSUPP) => Self::NoNfTables,
            error => Self::Read(error),
        }
    }

    pub(crate) fn refused(errno: i32) -> Self {
        match errno {
            libc::EPERM => Self::OwnedByAnother,
            errno => Self::Refused(errno),
        }
    }
}
