//! Kubernetes' and MetalLB's objects, parsed into the plan's types.
//!
//! [`parse`] is the edge: what it lets through is not checked again. It never fails as a whole
//! where it can help it: a bad object becomes a [`Diagnostic`], the others come through.

mod object;

use signpost_report::Diagnostic;

pub use object::{Identity, Object};

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The objects that are well written.
    pub objects: Vec<Object>,
    /// What is wrong with the others, and what is ignored on purpose.
    pub diagnostics: Vec<Diagnostic>,
    /// False if the text is not YAML: nothing can be said of what it does not hold.
    pub complete: bool,
}

/// Parses a YAML or JSON file: documents, each an object or a list of objects.
pub fn parse(_file: &str, _text: &str) -> Parsed {
    Parsed::default()
}
