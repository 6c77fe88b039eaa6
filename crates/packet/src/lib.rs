//! Wire formats, both ways.
//!
//! Every format is a plain value with `parse` and `write`. Bytes from the wire are hostile: lengths
//! are checked once, here, and nobody above looks at an offset again.

#![no_std]

mod arp;
mod ethernet;
mod ipv6;
mod ndp;

pub use arp::{Arp, FRAME_LEN, Operation};
pub use ethernet::{EtherType, Ethernet, Mac};
pub use ndp::{Ndp, NdpFrame, NdpKind, solicited_node};
