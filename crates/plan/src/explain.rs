//! A reason in one sentence, with what to do about it.

use std::net::IpAddr;

use crate::{Observed, Reason, Verdict, World, verdict};

/// Why an address is not announced here, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The reason.
    pub reason: Reason,
    /// It in one sentence, with the names of what it is about.
    pub sentence: String,
    /// What to do about it; empty where nothing is to be done.
    pub cure: String,
}

/// Why an address is withheld here, or `None` if it is not.
pub fn explain(w: &World, o: &Observed, a: IpAddr) -> Option<Explanation> {
    match verdict(w, o, a) {
        Verdict::Own(_) | Verdict::StandBy(_) => None,
        Verdict::Withhold(reason) => {
            Some(Explanation { reason, sentence: format!("{a}: {reason}"), cure: String::new() })
        }
    }
}
