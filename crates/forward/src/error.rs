//! What can go wrong as a whole.

use std::io;

use signpost_netlink::ReadError;
use signpost_netlink::nf_tables::{CommitError, missing_config};
use signpost_nft::{Change, Family};

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
    #[error(
        "this kernel has no nf_tables: it needs CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4, \
         CONFIG_NFT_CT, CONFIG_NFT_NAT, CONFIG_NFT_MASQ, CONFIG_NFT_REJECT and CONFIG_NFT_NUMGEN"
    )]
    NoNfTables,
    /// The kernel has nf_tables and lacks something of it, named here.
    #[error("{0}")]
    Lacks(String),
    /// The table can't be read.
    #[error("table {TABLE} can't be read: {0}")]
    Read(#[source] ReadError),
    /// Another process that lives owns the table.
    #[error(
        "table {TABLE} belongs to another process that is running: stop it first, or take over \
         from it (--takeover, with its --socket)"
    )]
    OwnedByAnother,
    /// A change that is no single Service's was refused.
    #[error("the kernel refused to change table {TABLE}: {}", io::Error::from_raw_os_error(*.0))]
    Refused(i32),
    /// Whether the kernel applied the changes is unknown.
    #[error("changes to table {TABLE} were not acknowledged: {0}")]
    Unacknowledged(#[source] CommitError),
}

impl Error {
    pub(crate) fn socket(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT) => Self::NoNfTables,
            Some(_) | None => Self::Socket(error),
        }
    }

    pub(crate) fn reading(error: ReadError) -> Self {
        match error {
            ReadError::Refused(libc::EPERM) => Self::NotPermitted,
            ReadError::Refused(libc::EINVAL | libc::EOPNOTSUPP) => Self::NoNfTables,
            error => Self::Read(error),
        }
    }

    /// With the option that the kernel lacks, if that is why.
    pub(crate) fn explained(self, family: Family, changes: &[Change], why: &CommitError) -> Self {
        let lacks = !missing_config(family, changes, why).is_empty();
        if lacks && matches!(self, Self::Refused(_)) {
            return Self::Lacks(why.in_words(family, TABLE, changes));
        }
        self
    }

    pub(crate) fn refused(errno: i32) -> Self {
        match errno {
            libc::EPERM => Self::OwnedByAnother,
            errno => Self::Refused(errno),
        }
    }
}
