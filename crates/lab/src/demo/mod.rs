//! What Signpost is for, in six acts, each number measured when it is shown.

mod act;
mod black_hole;
mod flush;
mod moves;
mod picture;
mod served;

pub use act::{Act, Row};
pub use black_hole::black_hole;
pub use flush::flushed;
pub use moves::{cable_pulled, drained, endpoints_die};
pub use picture::picture;
pub use served::served;

use crate::{Error, Lab};

/// Plays the acts that need agents, each handed to `show` when it is over.
pub fn with_agents<E: From<Error>>(
    lab: &mut Lab,
    mut show: impl FnMut(Act) -> Result<(), E>,
) -> Result<(), E> {
    for play in [served, cable_pulled, drained, flushed, endpoints_die] {
        show(play(lab)?)?;
    }
    Ok(())
}
