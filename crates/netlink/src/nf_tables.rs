//! nf_tables: tables of `signpost_nft` into the kernel, out of it, and what others do to them.

mod constants;
mod encode;
mod error;
mod session;

pub use error::{CommitError, Refusal};
pub use session::{Acked, Session};
