//! The expectation, as people wrote it.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The table that Signpost's own forwarding is judged by.
const BUILT_IN: &str = include_str!("../../data/expected-matrix.md");

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// `externalTrafficPolicy: Cluster`.
    Cluster,
    /// `externalTrafficPolicy: Local`.
    Local,
    /// Nobody serves.
    NoEndpoints,
    /// Only terminating endpoints, under `Cluster`.
    TerminatingCluster,
    /// Only terminating endpoints, under `Local`.
    TerminatingLocal,
    /// A port that no Service has.
    ClosedPort,
    /// An ICMP echo.
    Ping,
}

/// A column of the table: who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// From outside, by a node that has an endpoint.
    OutsiderWith,
    /// From outside, by a node that has none.
    OutsiderWithout,
    /// A process of the node itself.
    Host,
    /// A pod that is no endpoint.
    Pod,
    /// A pod that is one.
    Endpoint,
}

/// What one cell must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Each of the set answers, and sees that.
    Ok(Set, Seen),
    /// The echo comes back.
    Echo,
    /// Refused, as the protocol does it.
    Refused,
    /// Silence.
    Timeout,
}

/// Which endpoints answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// The cluster's.
    Cluster,
    /// The node's.
    Local,
}

/// Whom the pod sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The sender.
    Keep,
    /// The node.
    Node,
    /// The sender where the endpoint is on the node, the node elsewhere.
    KeepHere,
    /// The node where the sender picked itself, the sender elsewhere.
    NodeForItself,
}

/// The parsed table.
#[derive(Clone, Debug)]
pub struct Expected(Vec<(Row, [Expectation; 5])>);

impl Row {
    /// All, in the table's order.
    pub const ALL: [Self; 7] = [
        Self::Cluster,
        Self::Local,
        Self::NoEndpoints,
        Self::TerminatingCluster,
        Self::TerminatingLocal,
        Self::ClosedPort,
        Self::Ping,
    ];

    /// As the table calls it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Cluster => "LoadBalancer, Cluster",
            Self::Local => "LoadBalancer, Local",
            Self::NoEndpoints => "no endpoints, or only not-ready ones",
            Self::TerminatingCluster => "all endpoints terminating and serving, Cluster",
            Self::TerminatingLocal => "all endpoints terminating and serving, Local",
            Self::ClosedPort => "a port that no Service has",
            Self::Ping => "ping",
        }
    }
}

impl Column {
    const ALL: [Self; 5] =
        [Self::OutsiderWith, Self::OutsiderWithout, Self::Host, Self::Pod, Self::Endpoint];

    /// As the table calls it.
    pub fn label(self) -> &'static str {
        match self {
            Self::OutsiderWith => "outsider, N has an endpoint",
            Self::OutsiderWithout => "outsider, N has none",
            Self::Host => "host process on N",
            Self::Pod => "pod on N",
            Self::Endpoint => "an endpoint",
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok(..) | Self::Echo => "OK",
            Self::Refused => "REFUSED",
            Self::Timeout => "TIMEOUT",
        })
    }
}

impl FromStr for Expectation {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self, Error> {
        let fault = || Error::Data(format!("expected matrix: {s:?} is no expectation"));
        let words: Vec<&str> = s.split_whitespace().collect();
        match words[..] {
            ["TIMEOUT"] => Ok(Self::Timeout),
            ["REFUSED"] => Ok(Self::Refused),
            ["ECHO"] => Ok(Self::Echo),
            ["OK", set, ref seen @ ..] => {
                let set = match set {
                    "C" => Set::Cluster,
                    "L" => Set::Local,
                    _ => return Err(fault()),
                };
                let seen = match *seen {
                    ["keep"] => Seen::Keep,
                    ["node"] => Seen::Node,
                    ["keep/node"] => Seen::KeepHere,
                    ["self", "node"] => Seen::NodeForItself,
                    _ => return Err(fault()),
                };
                Ok(Self::Ok(set, seen))
            }
            _ => Err(fault()),
        }
    }
}

impl Expected {
    /// The project's own.
    pub fn built_in() -> Self {
        BUILT_IN.parse().expect("a test reads it")
    }

    /// One cell.
    pub fn cell(&self, row: Row, column: Column) -> Expectation {
        let (_, cells) =
            self.0.iter().find(|(r, _)| *r == row).expect("parsing asks for every row");
        cells[Column::ALL.iter().position(|c| *c == column).expect("it is one of all")]
    }
}

impl FromStr for Expected {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fault = |m: String| Error::Data(format!("expected matrix: {m}"));
        let mut lines = text.lines().filter_map(|l| l.trim().strip_prefix('|'));
        let split = |l: &str| -> Vec<String> {
            l.trim_end_matches('|').split('|').map(|c| c.trim().to_owned()).collect()
        };
        let head = split(lines.next().unwrap_or_default());
        if !head.iter().skip(1).map(String::as_str).eq(Column::ALL.map(Column::label)) {
            return Err(fault(format!("the columns are {head:?}")));
        }
        let mut rows = Vec::new();
        for line in lines.skip(1) {
            let cells = split(line);
            let row = Row::ALL.into_iter().find(|r| r.label() == cells[0]);
            let row = row.ok_or_else(|| fault(format!("{:?} is no row", cells[0])))?;
            let parsed =
                cells[1..].iter().map(|c| c.parse()).collect::<Result<Vec<Expectation>, _>>()?;
            let parsed = <[Expectation; 5]>::try_from(parsed)
                .map_err(|_| fault(format!("row {:?} has not 5 cells", cells[0])))?;
            rows.push((row, parsed));
        }
        match Row::ALL.into_iter().find(|r| !rows.iter().any(|(have, _)| have == r)) {
            Some(missing) => Err(fault(format!("row {:?} is missing", missing.label()))),
            None => Ok(Self(rows)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_has_every_row() {
        let table: Expected = BUILT_IN.parse().unwrap();
        assert_eq!(table.cell(Row::Local, Column::OutsiderWithout), Expectation::Timeout);
        assert_eq!(
            table.cell(Row::Cluster, Column::OutsiderWith),
            Expectation::Ok(Set::Cluster, Seen::KeepHere)
        );
    }

    #[test]
    fn a_row_that_is_missing_or_unknown_is_refused() {
        let without: String = BUILT_IN.lines().filter(|l| !l.starts_with("| ping")).fold(
            String::new(),
            |mut text, l| {
                text.push_str(l);
                text.push('\n');
                text
            },
        );
        assert!(without.parse::<Expected>().unwrap_err().to_string().contains("ping"));
        let wrong = BUILT_IN.replace("| ping |", "| pong |");
        assert!(wrong.parse::<Expected>().unwrap_err().to_string().contains("pong"));
        let wrong = BUILT_IN.replace("OK L keep", "OK L kept");
        assert!(wrong.parse::<Expected>().unwrap_err().to_string().contains("kept"));
    }
}
