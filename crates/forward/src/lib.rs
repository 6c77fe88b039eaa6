//! The plan's table into the kernel: render, read, diff, apply.
//!
//! The first three are pure. Applying twice changes nothing; a refused change isolates its Service.

mod chain;
mod cleanup;
mod diff;
mod draft;
mod element;
mod error;
mod foreign;
mod forward;
mod found;
mod kernel;
mod ladder;
mod layout;
mod learned;
mod mend;
mod paper;
mod part;
mod picks;
mod plane;
mod probe;
mod rules;
mod side;
mod sticky;

pub use chain::{By, Chain, Choice, Pick};
pub use cleanup::cleanup;
pub use diff::{Member, Op, diff};
pub use error::Error;
pub use foreign::Damage;
pub use forward::{Forward, Options, Outcome, Protection, TableOwner};
pub use kernel::Kernel;
pub use layout::TABLE;
pub use paper::Paper;
pub use part::{Endpoint, Frontend, Lane, Part, Place, Slots, Target, Turn, render};
pub use probe::probe;
