//! The agent and its verbs as people type them: what is refused says why, what ends leaves what
//! it should, what starts again goes on.
//!
//! Needs root, and fails without: each test makes network namespaces of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bed;
mod cleanup;
mod connections;
mod everything;
mod members;
mod objects;
mod refusals;
mod succession;
