//! nf_tables: tables of `signpost_nft` into the kernel, out of it, and what others do to them.

mod constants;
mod decode;
mod encode;
mod error;
mod expressions;
mod read;
mod session;
mod userdata;

pub use error::{CommitError, ReadError, Refusal};
pub use read::Elements;
pub use session::{Acked, Session};
