//! The expectation, as people wrote it.

use std::fmt;
use std::str::FromStr;

use super::row::{Column, Row};
use crate::Error;

/// The table that Signpost's own forwarding is judged by.
const BUILT_IN: &str = include_str!("../../data/expected-matrix.md");

/// How many columns there are.
const COLUMNS: usize = Column::ALL.len();

/// What one cell must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// It is answered.
    Served(Served),
    /// The echo comes back.
    Echo,
    /// Refused, as the protocol does it.
    Refused,
    /// Silence.
    Timeout,
}

/// Who answers, and whom they see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Which endpoints answer.
    pub set: Set,
    /// Whether all of them do.
    pub spread: Spread,
    /// Whom the pod sees.
    pub seen: Seen,
    /// Whether the set may be empty, which means silence.
    pub may_be_empty: bool,
}

/// Which endpoints answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// The cluster's.
    Cluster,
    /// The node's.
    Local,
}

/// How many of a set answer one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Each of them.
    Even,
    /// Always the same one.
    One,
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
pub struct Expected(Vec<(Row, [Option<Expectation>; COLUMNS])>);

impl Expected {
    /// The project's own.
    pub fn built_in() -> Self {
        BUILT_IN.parse().expect("a test reads it")
    }

    /// One cell, where there is one.
    pub fn cell(&self, row: Row, column: Column) -> Option<Expectation> {
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
            let row = Row::all().find(|r| r.to_string() == cells[0]);
            let row = row.ok_or_else(|| fault(format!("{:?} is no row", cells[0])))?;
            let parsed = cells[1..]
                .iter()
                .map(|c| (c != "-").then(|| c.parse()).transpose())
                .collect::<Result<Vec<Option<Expectation>>, _>>()?;
            let parsed = <[_; COLUMNS]>::try_from(parsed)
                .map_err(|_| fault(format!("row {:?} has not {COLUMNS} cells", cells[0])))?;
            rows.push((row, parsed));
        }
        match Row::all().find(|r| !rows.iter().any(|(have, _)| have == r)) {
            Some(missing) => Err(fault(format!("row \"{missing}\" is missing"))),
            None => Ok(Self(rows)),
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Served(Served { spread: Spread::Even, .. }) | Self::Echo => "OK",
            Self::Served(Served { spread: Spread::One, .. }) => "ONE",
            Self::Refused => "REFUSED",
            Self::Timeout => "TIMEOUT",
        })
    }
}

impl FromStr for Expectation {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self, Error> {
        let fault = || Error::Data(format!("expected matrix: {s:?} is no expectation"));
        let (said, may_be_empty) = match s.split_once(", ") {
            Some((said, "none: TIMEOUT")) => (said, true),
            Some(_) => return Err(fault()),
            None => (s, false),
        };
        let words: Vec<&str> = said.split_whitespace().collect();
        let (spread, set, seen) = match words[..] {
            ["TIMEOUT"] => return Ok(Self::Timeout),
            ["REFUSED"] => return Ok(Self::Refused),
            ["ECHO"] => return Ok(Self::Echo),
            ["OK", set, ref seen @ ..] => (Spread::Even, set, seen),
            ["ONE", set, ref seen @ ..] => (Spread::One, set, seen),
            _ => return Err(fault()),
        };
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
        Ok(Self::Served(Served { set, spread, seen, may_be_empty }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::row::{Kind, When};

    const LOCAL: Row = Row { kind: Kind::NodePort, when: When::Local };

    #[test]
    fn the_built_in_table_has_every_row() {
        let table: Expected = BUILT_IN.parse().unwrap();
        assert_eq!(table.cell(LOCAL, Column::OutsiderWithout), Some(Expectation::Timeout));
        let served =
            Served { set: Set::Local, spread: Spread::Even, seen: Seen::Keep, may_be_empty: true };
        assert_eq!(table.cell(LOCAL, Column::PodElsewhere), Some(Expectation::Served(served)));
        let elsewhere = Row { kind: Kind::LoadBalancer, when: When::Local };
        assert_eq!(table.cell(elsewhere, Column::PodElsewhere), None);
    }

    #[test]
    fn a_row_that_is_missing_or_unknown_is_refused() {
        let ping = "| externalIP, ping |";
        let without: Vec<&str> = BUILT_IN.lines().filter(|l| !l.starts_with(ping)).collect();
        let said = without.join("\n").parse::<Expected>().unwrap_err().to_string();
        assert!(said.contains("ping"), "{said}");
        let check = |from: &str, to: &str, expect: &str| {
            let said = BUILT_IN.replace(from, to).parse::<Expected>().unwrap_err().to_string();
            assert!(said.contains(expect), "{said}");
        };
        check(ping, "| externalIP, pong |", "pong");
        check("OK L keep", "OK L kept", "kept");
        check("none: TIMEOUT", "none: SILENCE", "SILENCE");
        check("| ECHO | ECHO |", "| ECHO |", "has not 7 cells");
    }
}
