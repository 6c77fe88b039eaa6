//! Whether this kernel has nf_tables for us, before anything is written.

use signpost_netlink::nf_tables::Session;

use crate::Error;

/// Asks nf_tables the cheapest question: [`Error::NotPermitted`] and [`Error::NoNfTables`] are
/// answers.
pub fn probe() -> Result<(), Error> {
    let mut session = Session::open().map_err(Error::socket)?;
    session.generation().map(drop).map_err(Error::reading)
}
