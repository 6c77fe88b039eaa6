//! This namespace's links, addresses and default routes (rtnetlink), and what happens to them.

mod decode;
mod links;
mod monitor;

pub use links::{DefaultRoute, Kind, Link, read_default_routes, read_links};
pub use monitor::{Event, Monitor};

use crate::message::Message;

/// For [`crate::fuzz_read`].
pub(crate) fn parse_anything(message: &Message<'_>) {
    let _ = monitor::event(message);
    let _ = decode::link(message.payload);
    let _ = decode::address(message.payload);
    let _ = decode::forwarding(message.payload);
    let _ = decode::default_routes(message.payload, &mut Vec::new());
}
