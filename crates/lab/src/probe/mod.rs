//! Probes: real packets from one place of the lab to one address, and what came of them.

mod flight;
mod outcome;
mod pool;
mod stream;

pub use flight::{lift_limits, run};
pub use outcome::{Cause, Outcome, Protocol, Summary, Target, Verdict, summary};
pub use pool::{Fate, Pool};
pub use stream::{Report, Stream};
