//! What people wrote and the plan cannot do as written.

use signpost_report::Diagnostic;

use crate::World;

/// Everything in the world that is not done as written.
pub fn diagnostics(_w: &World) -> Vec<Diagnostic> {
    Vec::new()
}
