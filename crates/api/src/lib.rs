//! Kubernetes' and MetalLB's objects, parsed into the plan's types.
//!
//! [`parse`] is the edge: what it lets through is not checked again. It never fails as a whole
//! where it can help it: a bad object becomes a [`Diagnostic`], the others come through.

mod address;
mod advertisement;
mod document;
mod meta;
mod node;
mod object;
mod pool;
mod read;
mod service;
mod slice;
mod tree;

use std::collections::BTreeSet;

use signpost_report::{Diagnostic, Severity, Span};

use document::{Document, Draft, Finding};
use tree::At;

pub use object::{Identity, Object};
pub use service::LOAD_BALANCER_CLASS_DOMAIN;

/// Larger texts are not manifests: a list of 10,000 EndpointSlices of 10 endpoints has 25 MB.
pub const TEXT_MAX: usize = 64 << 20;

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The objects that are well written.
    pub objects: Vec<Object>,
    /// Objects that are there and badly written: their last good state should stay.
    pub broken: Vec<Identity>,
    /// What is wrong with the others, and what is ignored on purpose.
    pub diagnostics: Vec<Diagnostic>,
    /// False if the text is not YAML: nothing can be said of what it does not hold.
    pub complete: bool,
    /// Something in it does not say which object it is: it may be one that is missing.
    pub nameless: bool,
}

/// Parses a YAML or JSON file: documents, each an object or a list of objects.
pub fn parse(file: &str, text: &str) -> Parsed {
    let mut out = Output {
        file,
        parsed: Parsed { complete: true, ..Parsed::default() },
        unknown: BTreeSet::new(),
    };
    match tree::documents::<Document>(text) {
        Ok(documents) => documents.into_iter().flat_map(|d| d.0).for_each(|f| out.add(f)),
        Err(e) => {
            let d = Diagnostic::error("", e.message)
                .with_cure("its last good objects stay until it is mended");
            out.parsed.diagnostics.push(d.at(out.span(e.at)));
            out.parsed.complete = false;
        }
    }
    out.parsed
}

struct Output<'a> {
    file: &'a str,
    parsed: Parsed,
    unknown: BTreeSet<String>,
}

impl Output<'_> {
    fn add(&mut self, finding: Finding) {
        match finding {
            Finding::Draft(draft) => self.add_draft(*draft),
            Finding::UnknownKind { kind, at } => {
                if self.unknown.insert(kind.clone()) {
                    self.tell(
                        Severity::Note,
                        at,
                        &kind,
                        "this kind is not read".into(),
                        String::new(),
                    );
                }
            }
            Finding::NoObject { at, message, cure } => {
                self.parsed.nameless = true;
                self.tell(Severity::Error, at, "", message, cure);
            }
        }
    }

    fn add_draft(&mut self, draft: Draft) {
        self.parsed.nameless |= draft.identity.is_none();
        for r in draft.remarks {
            self.tell(r.severity, r.at, &draft.label, r.message, r.cure);
        }
        match (draft.object, draft.identity) {
            (Some(mut object), _) => {
                object.set_span(self.span(draft.at));
                self.parsed.objects.push(object);
            }
            (None, Some(identity)) if draft.broken => self.parsed.broken.push(identity),
            (None, _) => {}
        }
    }

    fn tell(&mut self, severity: Severity, at: At, object: &str, message: String, cure: String) {
        let span = Some(self.span(at));
        let object = object.to_owned();
        self.parsed.diagnostics.push(Diagnostic { span, severity, object, message, cure });
    }

    fn span(&self, at: At) -> Span {
        Span { file: self.file.into(), line: at.line, column: at.column }
    }
}
