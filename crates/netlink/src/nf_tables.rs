//! nf_tables: tables of `signpost_nft` into the kernel, out of it, and what others do to them.

use std::collections::BTreeMap;

use signpost_nft::{Family, Set};

use crate::message::Message;

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
pub use error::{CommitError, Refusal};
pub use monitor::{ChangeKind, Event, Monitor};
pub use read::Elements;
pub use session::{Acked, Session};

/// For [`crate::fuzz_read`].
pub(crate) fn parse_anything(
    message: &Message<'_>,
    family: Family,
    sets: &BTreeMap<Box<str>, Set>,
) {
    let _ = monitor::event(message, (family, "a", None));
    if let Ok((_, attributes)) = decode::split(message.payload) {
        let _ = decode::table(attributes.clone());
        let _ = decode::chain(attributes.clone());
        let _ = decode::set(attributes.clone());
        let _ = decode::elements(attributes.clone());
        if let Ok(rule) = decode::rule(attributes) {
            let _ = expressions::rule(family, sets, rule.expressions);
        }
    }
}
