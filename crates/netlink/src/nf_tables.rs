//! nf_tables: tables of `signpost_nft` into the kernel, out of it, and what others do to them.

mod config;
mod constants;
mod decode;
mod encode;
mod error;
mod expressions;
mod monitor;
mod read;
mod session;
mod userdata;

pub use config::missing_config;
pub use error::{CommitError, ReadError, Refusal};
pub use monitor::{ChangeKind, Event, Monitor};
pub use read::Elements;
pub use session::{Acked, Session};
