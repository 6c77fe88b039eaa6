//! What a person is told: where, what, and the cure.
//!
//! Three kinds of bad news exist in Signpost. A [`Diagnostic`] is about something that a person
//! wrote and never stops the rest. A `plan::Reason` says why an address is not announced. An
//! `Error` of a crate says which operation failed on which object.

use std::fmt;

/// A place in a file: the path as it was given, line and column from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The file.
    pub file: Box<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// How bad a [`Diagnostic`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something is ignored on purpose, and a person should know.
    Note,
    /// Something works otherwise than written.
    Warning,
    /// Something that was asked for is not done.
    Error,
}

/// One sentence about what a person wrote: where, which object, what is wrong, what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Diagnostic {
    /// Where, if the text came from a file.
    pub span: Option<Span>,
    /// How bad.
    pub severity: Severity,
    /// The object, as `kind namespace/name`, or empty.
    pub object: String,
    /// What is wrong, naming the field.
    pub message: String,
    /// What to do about it.
    pub cure: String,
}

impl Diagnostic {
    /// Something that was asked for is not done.
    pub fn error(object: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, object.into(), message.into())
    }

    /// Something works otherwise than written.
    pub fn warning(object: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, object.into(), message.into())
    }

    /// Something is ignored on purpose.
    pub fn note(object: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Note, object.into(), message.into())
    }

    /// With what to do about it.
    #[must_use]
    pub fn with_cure(mut self, cure: impl Into<String>) -> Self {
        self.cure = cure.into();
        self
    }

    /// With where it was written, if that is known.
    #[must_use]
    pub fn at(mut self, span: impl Into<Option<Span>>) -> Self {
        self.span = span.into();
        self
    }

    fn new(severity: Severity, object: String, message: String) -> Self {
        Self { span: None, severity, object, message, cure: String::new() }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// `file:line:column: error: Service demo/web: what is wrong (hint: what to do)`, on one line.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(span) = &self.span {
            write!(f, "{span}: ")?;
        }
        write!(f, "{}: ", self.severity)?;
        if !self.object.is_empty() {
            write!(f, "{}: ", self.object)?;
        }
        f.write_str(&self.message)?;
        if !self.cure.is_empty() {
            write!(f, " (hint: {})", self.cure)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_is_one_line() {
        let d = Diagnostic::error("Service demo/web", "spec.ports[0].port: 70000 is not a port");
        assert_eq!(
            d.to_string(),
            "error: Service demo/web: spec.ports[0].port: 70000 is not a port"
        );
        let span = Span { file: "a.yaml".into(), line: 3, column: 7 };
        assert_eq!(
            d.with_cure("write 1 to 65535").at(span).to_string(),
            "a.yaml:3:7: error: Service demo/web: spec.ports[0].port: 70000 is not a port \
             (hint: write 1 to 65535)"
        );
        assert_eq!(Diagnostic::note("", "nothing").to_string(), "note: nothing");
    }

    #[test]
    fn severities_are_ordered() {
        assert!(Severity::Note < Severity::Warning && Severity::Warning < Severity::Error);
    }
}
