//! The name of a lab, and the names of its namespaces.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::Error;

/// Labs' states live below this.
const RUN: &str = "/run/signpost-lab";

/// Every namespace of every lab begins with this.
const PREFIX: &str = "signpost-lab.";

/// File names under /run/netns and in messages stay short.
const NAME_MAX: usize = 20;

/// The name of a lab: no dot in it, so that one lab's prefix is never another's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabName(String);

impl LabName {
    /// The namespace of a node, pod, client, the router or the switch.
    pub fn namespace(&self, member: &str) -> String {
        format!("{}{member}", self.prefix())
    }

    /// What the names of all its namespaces begin with.
    pub fn prefix(&self) -> String {
        format!("{PREFIX}{}.", self.0)
    }

    /// Where its state, logs, sockets and manifests are.
    pub fn directory(&self) -> PathBuf {
        PathBuf::from(RUN).join(&self.0)
    }

    /// The labs of this machine that are up, or left something behind.
    pub fn all() -> Vec<Self> {
        let mut names = Vec::new();
        for (folder, prefix) in [("/run/netns", PREFIX), (RUN, "")] {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let file = entry.file_name();
                let Some(rest) = file.to_str().and_then(|f| f.strip_prefix(prefix)) else {
                    continue;
                };
                let name = rest.split('.').next().unwrap_or_default();
                names.extend(name.parse::<Self>().ok());
            }
        }
        names.sort();
        names.dedup();
        names
    }
}

impl FromStr for LabName {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self, Error> {
        let fine = (1..=NAME_MAX).contains(&s.len())
            && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if fine { Ok(Self(s.to_owned())) } else { Err(Error::Name(s.to_owned())) }
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_a_prefix_of_anothers_namespaces() {
        let (a, b): (LabName, LabName) = ("x".parse().unwrap(), "x-y".parse().unwrap());
        assert!(!b.namespace("node-a").starts_with(&a.prefix()));
    }

    #[test]
    fn names_that_would_leave_the_directory_are_refused() {
        for bad in ["", "..", "a/b", "a.b", "A", "a b", "a23456789012345678901"] {
            assert!(bad.parse::<LabName>().is_err(), "{bad:?}");
        }
    }
}
