//! The mesh: who lives, and who owns an address.

pub(crate) mod auth;
