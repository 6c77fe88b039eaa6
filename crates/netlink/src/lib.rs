//! Netlink: a message writer, a socket, nf_tables, route and conntrack.

pub mod conntrack;
mod fuzz;
pub mod message;
pub mod nf_tables;
mod request;
pub mod route;
mod socket;

pub use fuzz::fuzz_read;
pub use request::ReadError;
