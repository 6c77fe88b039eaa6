//! The applier over a kernel on paper: every way from one set of tables to another.
#![allow(clippy::unwrap_used)]

mod difference;
mod isolation;
mod recorder;
mod sequences;
mod world;
