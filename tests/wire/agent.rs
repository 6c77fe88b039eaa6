//! The wire thread of the agent, as it is in the binary.

#![allow(dead_code, unreachable_pub, reason = "the agent uses what these tests do not")]

#[path = "../../src/agent/clock.rs"]
pub(crate) mod clock;
#[path = "../../src/agent/inbox.rs"]
pub(crate) mod inbox;
#[path = "../../src/agent/process.rs"]
pub(crate) mod process;
#[path = "../../src/agent/wire/mod.rs"]
pub(crate) mod wire;
