//! Who serves what and where: pure functions of the world and of what was observed.
//!
//! No I/O, no clock, no lock. [`table()`] is the one oracle of which endpoints serve; [`verdict()`]
//! is the gate of announcements; [`owner()`] picks one member of a segment for an address.

mod degraded;
mod diagnostics;
mod explain;
mod frontend;
mod health;
mod name;
mod observed;
mod owner;
mod reason;
mod scope;
mod table;
mod verdict;
pub mod world;

pub use degraded::unserved;
pub use diagnostics::diagnostics;
pub use explain::{Explanation, explain};
pub use frontend::{Asked, Family, Frontend};
pub use health::{HealthCheck, health_checks};
pub use name::{LinkIndex, NodeName, Protocol, ServiceKey};
pub use observed::{Lease, Observed};
pub use owner::{Draw, Member, Members, owner};
pub use reason::Reason;
pub use scope::{Scope, scope};
pub use table::{Answer, Backend, Entry, Sources, Table, table};
pub use verdict::{FULL_WEIGHT, Offer, Verdict, decide, eligible, verdict};
pub use world::World;
