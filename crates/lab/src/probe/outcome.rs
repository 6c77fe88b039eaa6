//! What a client sees.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The address.
    pub address: Ipv4Addr,
    /// The port; 0 for a ping.
    pub port: u16,
    /// How.
    pub protocol: Protocol,
}

/// How an address is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// A connection, a request, an answer.
    Tcp,
    /// A datagram, an answer.
    Udp,
    /// An ICMP echo.
    Ping,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Protocol::Tcp => write!(f, "{}:{}/tcp", self.address, self.port),
            Protocol::Udp => write!(f, "{}:{}/udp", self.address, self.port),
            Protocol::Ping => write!(f, "{}/icmp", self.address),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let fault = || format!("{s:?} is not ADDRESS:PORT/tcp, ADDRESS:PORT/udp or ADDRESS/icmp");
        let (place, word) = s.rsplit_once('/').ok_or_else(fault)?;
        let protocol = match word {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            "icmp" => Protocol::Ping,
            _ => return Err(fault()),
        };
        let (address, port) = match (protocol, place.rsplit_once(':')) {
            (Protocol::Ping, None) => (place, 0),
            (Protocol::Tcp | Protocol::Udp, Some((address, port))) => {
                (address, port.parse().map_err(|_| fault())?)
            }
            _ => return Err(fault()),
        };
        Ok(Self { address: address.parse().map_err(|_| fault())?, port, protocol })
    }
}

/// What came of one try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A pod answered; `seen` is whom it saw.
    Answered {
        /// The pod.
        pod: String,
        /// The client's address as the pod saw it.
        seen: Ipv4Addr,
    },
    /// The echo came back.
    Echo,
    /// Refused.
    Refused(Cause),
    /// Nothing came in time.
    Timeout,
    /// Somebody says that there is no way.
    Unreachable(Cause),
    /// Something else answered, or broke off.
    Strange(String),
}

/// How one learns of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A TCP reset.
    Reset,
    /// An ICMP error from there.
    Icmp(Ipv4Addr),
    /// An ICMP error from there: the packet went round until its time was up.
    Expired(Ipv4Addr),
    /// The own kernel, at once (EPERM of a rule in OUTPUT, no route, nobody answers ARP).
    Local,
    /// The own kernel, at once, and an ICMP error from there: a rule in OUTPUT that rejects.
    Denied(Ipv4Addr),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset => f.write_str("rst"),
            Self::Icmp(from) => write!(f, "icmp from {from}"),
            Self::Expired(from) => write!(f, "icmp time exceeded from {from}"),
            Self::Local => f.write_str("local"),
            Self::Denied(from) => write!(f, "local, icmp from {from}"),
        }
    }
}

/// One word for several tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Verdict {
    /// All were answered.
    Ok,
    /// All were refused.
    Refused,
    /// None was answered.
    Timeout,
    /// All were told that there is no way.
    Unreachable,
    /// Nobody has the address.
    NoAddress,
    /// It depends.
    Mixed,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "OK",
            Self::Refused => "REFUSED",
            Self::Timeout => "TIMEOUT",
            Self::Unreachable => "UNREACHABLE",
            Self::NoAddress => "NO_ADDRESS",
            Self::Mixed => "MIXED",
        })
    }
}

/// What came of several tries of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// In one word.
    pub verdict: Verdict,
    /// How many of each.
    pub forks: BTreeMap<Verdict, usize>,
    /// How often each pod answered.
    pub pods: BTreeMap<String, usize>,
    /// Whom the pods saw.
    pub seen: BTreeSet<Ipv4Addr>,
    /// How refusals came.
    pub causes: BTreeSet<Cause>,
}

/// Counts outcomes.
pub fn summary(outcomes: &[Outcome]) -> Summary {
    let mut s = Summary {
        verdict: Verdict::Timeout,
        forks: BTreeMap::new(),
        pods: BTreeMap::new(),
        seen: BTreeSet::new(),
        causes: BTreeSet::new(),
    };
    for outcome in outcomes {
        let verdict = match outcome {
            Outcome::Answered { pod, seen } => {
                *s.pods.entry(pod.clone()).or_default() += 1;
                s.seen.insert(*seen);
                Verdict::Ok
            }
            Outcome::Echo => Verdict::Ok,
            Outcome::Refused(cause) => {
                s.causes.insert(*cause);
                Verdict::Refused
            }
            Outcome::Timeout => Verdict::Timeout,
            Outcome::Unreachable(Cause::Local) => Verdict::NoAddress,
            Outcome::Unreachable(cause) => {
                s.causes.insert(*cause);
                Verdict::Unreachable
            }
            Outcome::Strange(_) => Verdict::Mixed,
        };
        *s.forks.entry(verdict).or_default() += 1;
    }
    let mut kinds = s.forks.keys();
    s.verdict = match (kinds.next(), kinds.next()) {
        (Some(only), None) => *only,
        (Some(_), Some(_)) => Verdict::Mixed,
        (None, _) => Verdict::Timeout,
    };
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_read_what_they_print() {
        for text in ["192.0.2.1:80/tcp", "192.0.2.1:53/udp", "192.0.2.1/icmp"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for bad in
            ["192.0.2.1", "192.0.2.1/tcp", "192.0.2.1:80/icmp", "x:80/tcp", "192.0.2.1:99999/udp"]
        {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[test]
    fn one_other_outcome_makes_it_mixed() {
        let answered = |pod: &str| Outcome::Answered { pod: pod.into(), seen: Ipv4Addr::LOCALHOST };
        let s = summary(&[answered("a1"), answered("b1"), answered("a1")]);
        assert_eq!((s.verdict, s.pods["a1"]), (Verdict::Ok, 2));
        assert_eq!(summary(&[answered("a1"), Outcome::Timeout]).verdict, Verdict::Mixed);
        assert_eq!(summary(&[]).verdict, Verdict::Timeout);
    }
}
