//! The recording beside the measurement.

use std::fmt::Write;

use super::Recording;
use super::cell::{Kind, Section, Stage};
use super::outcome::{Outcome, counted};
use super::place::Places;

/// A recording, measured again.
#[derive(Debug)]
pub struct Report {
    recording: Recording,
    parts: Vec<Part>,
}

/// A section of it.
#[derive(Debug)]
struct Part {
    name: String,
    cells: usize,
    differ: Vec<Difference>,
}

/// A cell that is not as it was.
#[derive(Debug)]
struct Difference {
    key: String,
    recorded: String,
    measured: String,
}

impl Report {
    pub(super) fn new(recording: Recording) -> Self {
        Self { recording, parts: Vec::new() }
    }

    /// Compares a section's cells with the outcomes of their tries.
    pub(super) fn add(&mut self, section: &Section, outcomes: &[Vec<Outcome>], places: &Places) {
        let beside = section.cells.iter().zip(outcomes);
        let differ =
            beside.filter(|(cell, tries)| !cell.expected.holds(tries)).map(|(cell, tries)| {
                Difference {
                    key: cell.key.clone(),
                    recorded: cell.recorded.clone(),
                    measured: counted(tries, places),
                }
            });
        self.parts.push(Part {
            name: name(section),
            cells: section.cells.len(),
            differ: differ.collect(),
        });
    }

    /// How many cells there are.
    pub fn cells(&self) -> usize {
        self.parts.iter().map(|p| p.cells).sum()
    }

    /// How many are not as they were.
    pub fn differ(&self) -> usize {
        self.parts.iter().map(|p| p.differ.len()).sum()
    }

    /// Whether there are cells, and each is as it was.
    pub fn holds(&self) -> bool {
        self.cells() > 0 && self.differ() == 0
    }

    /// As text: a line a section, then the cells that differ.
    pub fn text(&self) -> String {
        let mut text = format!("{:<48} {:>5}  differ\n", self.recording.name(), "cells");
        for part in &self.parts {
            let _ = writeln!(text, "{:<48} {:>5}  {:>6}", part.name, part.cells, part.differ.len());
        }
        let _ = writeln!(text, "{:<48} {:>5}  {:>6}", "in all", self.cells(), self.differ());
        for part in &self.parts {
            for cell in &part.differ {
                let _ = writeln!(
                    text,
                    "\n{}: {}\n  recorded {}\n  measured {}",
                    part.name, cell.key, cell.recorded, cell.measured
                );
            }
        }
        text
    }
}

fn name(section: &Section) -> String {
    let Stage { kind, node } = &section.stage;
    let stage = match kind {
        Kind::Announced => "announced by",
        Kind::Bound => "bound on",
        Kind::Limited => "limited, announced by",
    };
    format!("{stage} {node}, patience {} s", section.patience.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::service::Services;
    use crate::truth::{cell, topology};

    #[test]
    fn a_cell_that_differs_is_counted_and_shown() {
        let t = topology();
        let text = "== announced by node-a, patience 1.5 s\n\
                    - | c1 | 192.0.2.100:80 | tcp udp | a1 sees c1\n";
        let sections = cell::parse(text, &Services::parse("").unwrap(), &t).unwrap();
        let seen = |client| vec![Outcome::Seen { pod: "a1".to_owned(), client }; 2];
        let c1 = std::net::Ipv4Addr::new(198, 19, 3, 5);
        let places = Places::of(&t);

        let mut same = Report::new(Recording::Nftables);
        assert!(!same.holds(), "nothing was measured");
        same.add(&sections[0], &[seen(c1), seen(c1)], &places);
        assert!(same.holds());

        let mut other = Report::new(Recording::Nftables);
        other.add(&sections[0], &[seen(c1), seen(t.nodes[2].address)], &places);
        assert!(!other.holds());
        assert_eq!((other.cells(), other.differ()), (2, 1));
        let said = other.text();
        assert!(said.contains("- | c1 | 192.0.2.100:80 | udp\n  recorded a1 sees c1\n"), "{said}");
        assert!(said.contains("measured a1 sees node-c 2 of 2"), "{said}");
    }
}
