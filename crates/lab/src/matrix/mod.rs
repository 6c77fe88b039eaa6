//! Every sender against every kind of Service: measured, beside what people expect.

mod expect;
mod judge;
mod measure;
mod plan;
mod scenario;
mod settle;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::Ipv4Addr;

use serde::Serialize;

pub use expect::{Column, Expectation, Expected, Row};

use crate::manifest::Service;
use crate::probe::Verdict;
use crate::{Error, Lab};

/// One cell, measured.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Who sent: `external ADDRESS`, `node NAME` or `pod@NODE/NAME`.
    pub from: String,
    /// `ADDRESS:PORT/PROTOCOL`.
    pub to: String,
    /// The node that translated.
    pub node: Option<String>,
    /// What the sender saw.
    pub result: Verdict,
    /// How often it saw what, where that differs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub forks: BTreeMap<Verdict, usize>,
    /// Whom the pods saw.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub client_seen: BTreeSet<Ipv4Addr>,
    /// How often each pod answered.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pods: BTreeMap<String, usize>,
    /// The Service.
    pub service: String,
    /// The row of the expected table.
    pub row: &'static str,
    /// Its column.
    pub column: &'static str,
    /// What people expect.
    pub expected: Wanted,
    /// What differs from it.
    pub differs: Option<String>,
}

/// What people expect of a cell.
#[derive(Clone, Debug, Serialize)]
pub struct Wanted {
    /// What the sender must see.
    pub result: String,
    /// The pods that must answer, each of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// Whom they may see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_seen: Vec<Ipv4Addr>,
}

/// A matrix.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// All cells.
    pub cells: Vec<Cell>,
    /// How many cells a row of the expected table has, and how many of them differ.
    pub rows: Vec<Count>,
}

/// The cells of a row.
#[derive(Clone, Debug, Serialize)]
pub struct Count {
    /// The row.
    pub row: &'static str,
    /// How many cells were measured.
    pub cells: usize,
    /// How many of them differ.
    pub differ: usize,
}

/// Measures it with Services of its own, and takes them away again.
pub fn run(lab: &Lab, expected: &Expected) -> Result<Report, Error> {
    let scenarios = scenario::scenarios(lab.topology())?;
    for s in &scenarios {
        lab.write_manifest(&s.service.file(), &s.service.yaml(lab.topology()))?;
    }
    let cells =
        settle::settled(lab, &scenarios).and_then(|()| measure::cells(lab, &scenarios, expected));
    for s in &scenarios {
        lab.remove_manifest(&s.service.file())?;
    }
    let cells = cells?;
    let count = |row: Row| {
        let of_row = || cells.iter().filter(|c| c.row == row.label());
        let differ = of_row().filter(|c| c.differs.is_some()).count();
        Count { row: row.label(), cells: of_row().count(), differ }
    };
    let rows = Row::ALL.map(count).to_vec();
    Ok(Report { cells, rows })
}

/// Measures one Service that is served already, by whoever answers ARP for its address.
pub fn of_service(
    lab: &Lab,
    service: Service<'_>,
    row: Row,
    expected: &Expected,
) -> Result<Vec<Cell>, Error> {
    measure::one(lab, &scenario::Scenario::new(service, row), expected)
}

impl Report {
    /// Whether every row has cells, and every cell is as expected.
    pub fn holds(&self) -> bool {
        self.rows.iter().all(|r| r.cells > 0 && r.differ == 0)
    }

    /// As text: a line a row of the expected table, then the cells that differ.
    pub fn text(&self) -> String {
        let mut text = format!("{:<48} {:>5}  as expected\n", "row of the expected table", "cells");
        for row in &self.rows {
            let said = match (row.cells, row.differ) {
                (0, _) => "nothing measured".to_owned(),
                (_, 0) => "all".to_owned(),
                (cells, differ) => format!("{}, {differ} differ", cells - differ),
            };
            let _ = writeln!(text, "{:<48} {:>5}  {said}", row.row, row.cells);
        }
        let _ = writeln!(text, "{:<48} {:>5}", "in all", self.cells.len());
        for cell in self.cells.iter().filter(|c| c.differs.is_some()) {
            let _ = writeln!(
                text,
                "\n{} -> {} ({}, {} by {}):\n  expected {} {:?} seen as {:?}\n  measured {} {:?} \
                 seen as {:?}: {}",
                cell.from,
                cell.to,
                cell.service,
                cell.column,
                cell.node.as_deref().unwrap_or("nobody"),
                cell.expected.result,
                cell.expected.pods,
                cell.expected.client_seen,
                cell.result,
                cell.pods,
                cell.client_seen,
                cell.differs.as_deref().unwrap_or_default()
            );
        }
        text
    }
}
