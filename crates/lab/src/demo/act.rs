//! One act of the demo: what happens, and a table of what was measured.

use std::fmt::Write;

use serde::Serialize;

use crate::probe::Report;

/// An act, played.
#[derive(Clone, Debug, Serialize)]
pub struct Act {
    /// Its number.
    pub act: u8,
    /// What it shows.
    pub title: String,
    /// What is done, for somebody who sees it for the first time.
    pub story: Vec<String>,
    /// The table's head.
    pub columns: Vec<&'static str>,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// A row of an act's table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The cells, in the order of [`Act::columns`].
    pub cells: Vec<String>,
    /// Whether it came out as it should.
    pub holds: bool,
}

impl Act {
    /// An act whose table is empty yet.
    pub fn new(act: u8, title: &str, columns: &[&'static str]) -> Self {
        let columns = columns.to_vec();
        Self { act, title: title.to_owned(), story: Vec::new(), columns, rows: Vec::new() }
    }

    /// Adds a paragraph before the table.
    pub fn tell(&mut self, line: impl Into<String>) {
        self.story.push(line.into());
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N], holds: bool) {
        assert_eq!(N, self.columns.len(), "a row has a cell a column");
        self.rows.push(Row { cells: cells.to_vec(), holds });
    }

    /// Whether every row came out as it should.
    pub fn holds(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|r| r.holds)
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = format!("\n== {}. {}\n\n", self.act, self.title);
        for line in &self.story {
            let _ = writeln!(text, "{line}");
        }
        text.push('\n');
        let head: Vec<String> = self.columns.iter().map(|c| (*c).to_owned()).collect();
        let all = || std::iter::once(&head).chain(self.rows.iter().map(|r| &r.cells));
        let widths: Vec<usize> = (0..head.len())
            .map(|c| all().map(|r| r[c].chars().count()).max().unwrap_or(0))
            .collect();
        let line = |text: &mut String, cells: &[String], mark: &str| {
            let mut row = String::from(" ");
            for (cell, width) in cells.iter().zip(&widths) {
                let _ = write!(row, " {cell:<width$} ");
            }
            row.push_str(mark);
            let _ = writeln!(text, "{}", row.trim_end());
        };
        line(&mut text, &head, "");
        let rules: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
        line(&mut text, &rules, "");
        for row in &self.rows {
            line(&mut text, &row.cells, if row.holds { "" } else { " <- not as it should be" });
        }
        text
    }
}

/// Rows for what the probes lost. With `none`, nothing may be lost.
pub(super) fn losses(act: &mut Act, udp: &Report, tcp: &Report, none: bool) {
    let wish = if none { "0" } else { "only in the gap" };
    for (what, report) in [("datagrams lost (1 kHz)", udp), ("new connections lost (200/s)", tcp)] {
        act.row(
            [what.to_owned(), format!("{} of {}", report.lost, report.sent), wish.to_owned()],
            !none || report.lost == 0,
        );
    }
    if tcp.cut > 0 {
        let what = "connections established at that instant, and reset".to_owned();
        act.row([what, format!("{} of {}", tcp.cut, tcp.sent), "counted".to_owned()], true);
    }
}
