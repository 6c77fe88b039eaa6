//! What Signpost is for, in six acts, each number measured when it is shown.

mod act;
mod black_hole;
mod picture;

pub use act::{Act, Row};
pub use black_hole::black_hole;
pub use picture::picture;
