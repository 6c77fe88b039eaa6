//! Takes everything out of the kernel that this crate ever put there.

use signpost_netlink::nf_tables::{CommitError, Session};
use signpost_nft::{Change, Family};

use crate::TABLE;
use crate::error::Error;
use crate::kernel::Kernel;

/// Every family that a table of ours can be in.
const FAMILIES: [Family; 2] = [Family::Ip, Family::Ip6];

/// Deletes our tables in this thread's network namespace and nothing else; says how many there
/// were. A table that a running process owns stays, with an error.
pub fn cleanup() -> Result<u32, Error> {
    clean(&mut Session::open().map_err(Error::socket)?)
}

fn clean(kernel: &mut impl Kernel) -> Result<u32, Error> {
    let mut deleted = 0;
    for family in FAMILIES {
        match kernel.commit(family, TABLE, &[Change::DeleteTable]) {
            Ok(()) => deleted += 1,
            Err(CommitError::Refused(refusals)) => match refusals.first().map(|r| r.errno) {
                Some(libc::ENOENT) => {}
                Some(errno) => return Err(Error::refused(errno)),
                None => return Err(Error::Refused(libc::EIO)),
            },
            Err(CommitError::RefusedWhole { errno: libc::EPERM }) => {
                return Err(Error::NotPermitted);
            }
            Err(CommitError::RefusedWhole { errno }) => return Err(Error::refused(errno)),
            Err(error @ (CommitError::NoAck | CommitError::Io(_))) => {
                return Err(Error::Unacknowledged(error));
            }
        }
    }
    Ok(deleted)
}
