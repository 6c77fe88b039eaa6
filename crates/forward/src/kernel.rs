//! The kernel, as far as rules go.

use signpost_netlink::ReadError;
use signpost_netlink::nf_tables::{CommitError, Elements, Session};
use signpost_nft::{Change, Element, Family, Table};

/// What changes tables and reads them. [`Session`] is the one for real; tests have their own.
pub trait Kernel {
    /// Applies the changes in one transaction: `Ok` only once it is acknowledged.
    fn commit(
        &mut self,
        family: Family,
        table: &str,
        changes: &[Change],
    ) -> Result<(), CommitError>;

    /// Reads a table with the elements of its sets; `None`: there is none.
    fn read(&mut self, family: Family, table: &str)
    -> Result<Option<(Table, Elements)>, ReadError>;

    /// What a set of it has learned from packets.
    fn learned(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
    ) -> Result<Vec<Element>, ReadError>;
}

impl Kernel for Session {
    fn commit(
        &mut self,
        family: Family,
        table: &str,
        changes: &[Change],
    ) -> Result<(), CommitError> {
        Session::commit(self, family, table, changes).map(drop)
    }

    fn read(
        &mut self,
        family: Family,
        table: &str,
    ) -> Result<Option<(Table, Elements)>, ReadError> {
        Session::read(self, family, table)
    }

    fn learned(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
    ) -> Result<Vec<Element>, ReadError> {
        Session::learned(self, family, table, set)
    }
}
