//! What came of a try, and what must come of a cell's tries.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use signpost_lab::probe::{self, Cause};

use super::place::Places;

/// What came of one try.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// A pod answered, and this is whom it saw.
    Seen { pod: String, client: Ipv4Addr },
    /// ICMP port unreachable from there.
    Refused(Ipv4Addr),
    /// A TCP reset.
    Reset,
    /// EPERM, and perhaps an ICMP error from there besides.
    Denied(Option<Ipv4Addr>),
    /// ICMP host unreachable from there.
    Unreachable(Ipv4Addr),
    /// ICMP time exceeded from there.
    Expired(Ipv4Addr),
    /// The status that a health check answered.
    Http(u16),
    /// Nothing.
    Timeout,
    /// What no recording has.
    Strange(String),
}

/// What must come of a cell's tries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expectation {
    pub(super) choice: Choice,
    /// The outcomes that there can be, at least one.
    pub(super) outcomes: Vec<Outcome>,
}

/// How the tries share the outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Each outcome comes about.
    Each,
    /// The same for all tries.
    OneOf,
    /// Any of them.
    AnyOf,
}

impl Expectation {
    /// Reads it. `target` is the address that the cell probes.
    pub(super) fn parse(text: &str, places: &Places, target: Ipv4Addr) -> Result<Self, String> {
        let (choice, list) = if let Some(list) = text.strip_prefix("one of ") {
            (Choice::OneOf, list)
        } else if let Some(list) = text.strip_prefix("any of ") {
            (Choice::AnyOf, list)
        } else {
            (Choice::Each, text)
        };
        let outcomes: Result<Vec<Outcome>, String> =
            list.split(", ").map(|word| Outcome::parse(word, places, target)).collect();
        Ok(Self { choice, outcomes: outcomes? })
    }

    /// Whether the tries depend on chance, so that many are needed to see each outcome.
    pub(super) fn depends(&self) -> bool {
        self.choice == Choice::Each && self.outcomes.len() > 1
    }

    /// Whether it may take a try all its patience.
    pub(super) fn waits(&self) -> bool {
        self.outcomes.iter().any(|o| matches!(o, Outcome::Timeout | Outcome::Unreachable(_)))
    }

    /// Whether the tries were what they must be.
    pub(super) fn holds(&self, tries: &[Outcome]) -> bool {
        let known = tries.iter().all(|t| self.outcomes.contains(t));
        known
            && match self.choice {
                Choice::Each => self.outcomes.iter().all(|o| tries.contains(o)),
                Choice::OneOf => tries.windows(2).all(|w| w[0] == w[1]) && !tries.is_empty(),
                Choice::AnyOf => !tries.is_empty(),
            }
    }
}

impl Outcome {
    fn parse(text: &str, places: &Places, target: Ipv4Addr) -> Result<Self, String> {
        let place = |word: &str| match word {
            "target" => Ok(target),
            _ => places.address(word).ok_or_else(|| format!("{word:?} is no place")),
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(match words[..] {
            [pod, "sees", client] => Self::Seen { pod: pod.to_owned(), client: place(client)? },
            ["REFUSED", from] => Self::Refused(place(from)?),
            ["RESET"] => Self::Reset,
            ["EPERM"] => Self::Denied(None),
            ["EPERM", from] => Self::Denied(Some(place(from)?)),
            ["HOSTUNREACH", from] => Self::Unreachable(place(from)?),
            ["TTL", from] => Self::Expired(place(from)?),
            ["HTTP", status] => {
                Self::Http(status.parse().map_err(|_| format!("{status:?} is no status"))?)
            }
            ["TIMEOUT"] => Self::Timeout,
            _ => return Err(format!("{text:?} is no outcome")),
        })
    }

    /// As a recording says it.
    fn text(&self, places: &Places) -> String {
        match self {
            Self::Seen { pod, client } => format!("{pod} sees {}", places.word(*client)),
            Self::Refused(from) => format!("REFUSED {}", places.word(*from)),
            Self::Reset => "RESET".to_owned(),
            Self::Denied(None) => "EPERM".to_owned(),
            Self::Denied(Some(from)) => format!("EPERM {}", places.word(*from)),
            Self::Unreachable(from) => format!("HOSTUNREACH {}", places.word(*from)),
            Self::Expired(from) => format!("TTL {}", places.word(*from)),
            Self::Http(status) => format!("HTTP {status}"),
            Self::Timeout => "TIMEOUT".to_owned(),
            Self::Strange(what) => format!("{what:?}"),
        }
    }
}

impl From<probe::Outcome> for Outcome {
    fn from(outcome: probe::Outcome) -> Self {
        use probe::Outcome as Probed;
        match outcome {
            Probed::Answered { pod, seen } => Self::Seen { pod, client: seen },
            Probed::Refused(Cause::Icmp(from)) => Self::Refused(from),
            Probed::Refused(Cause::Reset) => Self::Reset,
            Probed::Refused(Cause::Local) => Self::Denied(None),
            Probed::Refused(Cause::Denied(from)) => Self::Denied(Some(from)),
            Probed::Unreachable(Cause::Icmp(from)) => Self::Unreachable(from),
            Probed::Unreachable(Cause::Expired(from)) => Self::Expired(from),
            Probed::Timeout => Self::Timeout,
            other @ (Probed::Refused(_)
            | Probed::Unreachable(_)
            | Probed::Echo
            | Probed::Strange(_)) => Self::Strange(format!("{other:?}")),
        }
    }
}

/// The outcomes of tries, each with how often it came about.
pub(super) fn counted(tries: &[Outcome], places: &Places) -> String {
    let mut counts: BTreeMap<&Outcome, usize> = BTreeMap::new();
    for outcome in tries {
        *counts.entry(outcome).or_default() += 1;
    }
    let each =
        counts.into_iter().map(|(o, n)| format!("{} {n} of {}", o.text(places), tries.len()));
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::topology;

    const TARGET: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 100);

    fn parse(text: &str) -> Result<Expectation, String> {
        Expectation::parse(text, &Places::of(&topology()), TARGET)
    }

    /// Whether what was recorded holds for tries, which are given like it.
    fn holds(recorded: &str, tries: &[&str]) -> bool {
        let tries = tries.iter().flat_map(|t| parse(t).unwrap().outcomes);
        parse(recorded).unwrap().holds(&tries.collect::<Vec<_>>())
    }

    #[test]
    fn each_pod_answers_and_no_other() {
        let both = "a1 sees gateway-a, b1 sees node-a";
        assert!(holds(both, &["a1 sees gateway-a", "b1 sees node-a", "a1 sees gateway-a"]));
        assert!(!holds(both, &["a1 sees gateway-a", "a1 sees gateway-a"]));
        assert!(!holds(both, &["a1 sees gateway-a", "b1 sees node-a", "c1 sees node-a"]));
        assert!(!holds(both, &["a1 sees gateway-a", "b1 sees node-a", "TIMEOUT"]));
        assert!(!holds(both, &[]));
    }

    #[test]
    fn another_client_is_another_outcome() {
        assert!(holds("a1 sees client", &["a1 sees 192.0.2.200"]));
        assert!(!holds("a1 sees client", &["a1 sees node-a"]));
        assert!(!holds("a1 sees client", &["a1 sees client", "a1 sees node-a"]));
        let both = "a1 sees gateway-a, b1 sees node-a";
        assert!(!holds(both, &["a1 sees node-a", "b1 sees gateway-a"]));
    }

    #[test]
    fn refusals_are_told_apart() {
        let all = [
            "REFUSED node-a",
            "REFUSED node-c",
            "RESET",
            "EPERM",
            "EPERM node-a",
            "HOSTUNREACH node-a",
            "TTL node-a",
            "HTTP 503",
            "HTTP 200",
            "TIMEOUT",
        ];
        for recorded in all {
            for measured in all {
                assert_eq!(holds(recorded, &[measured]), recorded == measured, "{recorded}");
            }
        }
        assert!(holds("REFUSED target", &["REFUSED 192.0.2.100"]));
    }

    #[test]
    fn a_choice_that_chance_makes_shows_both_sides() {
        let chance = "a1 sees c1, TIMEOUT";
        assert!(holds(chance, &["TIMEOUT", "a1 sees c1", "TIMEOUT"]));
        assert!(!holds(chance, &["TIMEOUT", "TIMEOUT"]));
        assert!(!holds(chance, &["a1 sees c1"]));
        assert!(parse(chance).unwrap().depends());
        assert!(parse(chance).unwrap().waits());
    }

    #[test]
    fn affinity_sticks() {
        let sticks = "one of a1 sees c1, b1 sees c1";
        assert!(holds(sticks, &["b1 sees c1", "b1 sees c1"]));
        assert!(!holds(sticks, &["b1 sees c1", "a1 sees c1"]));
        assert!(!holds(sticks, &["b1 sees node-c", "b1 sees node-c"]));
        assert!(!holds(sticks, &[]));
        assert!(!parse(sticks).unwrap().depends());
    }

    #[test]
    fn news_that_may_come_late_is_still_of_one_kind() {
        let late = "any of HOSTUNREACH node-a, TIMEOUT";
        assert!(holds(late, &["TIMEOUT"]));
        assert!(holds(late, &["TIMEOUT", "HOSTUNREACH node-a"]));
        assert!(!holds(late, &["TIMEOUT", "HOSTUNREACH node-c"]));
        assert!(!holds(late, &["REFUSED node-a"]));
        assert!(!holds(late, &[]));
    }

    #[test]
    fn what_is_no_outcome_is_refused() {
        for bad in
            ["", "OK", "a1 sees", "a1 sees mars", "REFUSED", "HTTP x", "TIMEOUT TIMEOUT", "EPERM, "]
        {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
