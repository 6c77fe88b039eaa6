//! Netlink: a message writer, a socket, nf_tables, route and conntrack.

pub mod message;
pub mod nf_tables;
mod socket;
