//! Where the world's objects come from, as one closed enum of events.

pub(crate) mod dir;

use signpost_plan::world::Change;
use signpost_report::Diagnostic;

/// What a source tells control.
#[derive(Debug)]
pub(crate) enum SourceEvent {
    /// Objects that came, changed or went.
    Changes(Vec<Change>),
    /// Everything that is wrong with what people wrote, whole.
    Diagnostics(Vec<Diagnostic>),
    /// The first reading is complete: decisions may be made.
    Complete,
    /// The source cannot go on.
    Failed(String),
}
