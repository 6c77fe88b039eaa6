//! What was measured.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

use serde::{Serialize, Serializer};

use super::row::{Row, When};
use super::scope::Scope;
use crate::Family;
use crate::probe::Verdict;

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

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
    pub client_seen: BTreeSet<IpAddr>,
    /// How often each pod answered.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pods: BTreeMap<String, usize>,
    /// The Service.
    pub service: String,
    /// The row of the expected table.
    pub row: Row,
    /// The family of its addresses.
    pub family: Family,
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
    pub client_seen: Vec<IpAddr>,
}

/// A matrix.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// All cells.
    pub cells: Vec<Cell>,
    /// How many cells a row of the expected table has in a family, and how many of them differ.
    pub rows: Vec<Count>,
}

/// The cells of a row.
#[derive(Clone, Debug, Serialize)]
pub struct Count {
    /// The row.
    pub row: Row,
    /// The family.
    pub family: Family,
    /// How many cells were measured.
    pub cells: usize,
    /// How many of them differ.
    pub differ: usize,
}

impl Report {
    /// The cells, counted by the rows and families of the scope.
    pub(super) fn new(mut cells: Vec<Cell>, scope: &Scope) -> Self {
        compare_sticky(&mut cells);
        let count = |row: Row, family: Family| {
            let of_row = || cells.iter().filter(|c| (c.row, c.family) == (row, family));
            let differ = of_row().filter(|c| c.differs.is_some()).count();
            Count { row, family, cells: of_row().count(), differ }
        };
        let rows = scope.rows.iter();
        let rows = rows.flat_map(|row| scope.families.iter().map(|f| count(*row, *f))).collect();
        Self { cells, rows }
    }

    /// Whether every row has cells, and every cell is as expected.
    pub fn holds(&self) -> bool {
        self.rows.iter().all(|r| r.cells > 0 && r.differ == 0)
    }

    /// As text: a line a row of the expected table, then the cells that differ.
    pub fn text(&self) -> String {
        let head = "row of the expected table";
        let mut text = format!("{head:<58} family {:>5}  as expected\n", "cells");
        for row in &self.rows {
            let said = match (row.cells, row.differ) {
                (0, _) => "nothing measured".to_owned(),
                (_, 0) => "all".to_owned(),
                (cells, differ) => format!("{}, {differ} differ", cells - differ),
            };
            let _ = writeln!(text, "{:<58} {:<6} {:>5}  {said}", row.row, row.family, row.cells);
        }
        let _ = writeln!(text, "{:<65} {:>5}", "in all", self.cells.len());
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

/// With affinity a sender gets the same pod by every node.
fn compare_sticky(cells: &mut [Cell]) {
    let mut first: BTreeMap<(Row, Family, String, String), String> = BTreeMap::new();
    for cell in cells.iter_mut().filter(|c| c.row.when == When::Sticky) {
        let (Some((_, port)), Some(pod)) = (cell.to.rsplit_once(':'), cell.pods.keys().next())
        else {
            continue;
        };
        let key = (cell.row, cell.family, cell.from.clone(), port.to_owned());
        let before = first.entry(key).or_insert_with(|| pod.clone());
        if before != pod && cell.differs.is_none() {
            cell.differs = Some(format!("{pod} answers it here, and {before} by another node"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::row::Kind;

    fn cell(when: When, node: &str, pod: &str) -> Cell {
        Cell {
            from: "external 192.0.2.200".to_owned(),
            to: "192.0.2.149:80/tcp".to_owned(),
            node: Some(node.to_owned()),
            result: Verdict::Ok,
            forks: [].into(),
            client_seen: [].into(),
            pods: [(pod.to_owned(), 12)].into(),
            service: "sticky".to_owned(),
            row: Row { kind: Kind::LoadBalancer, when },
            family: Family::Ipv4,
            column: "outsider, N has an endpoint",
            expected: Wanted { result: "ONE".to_owned(), pods: vec![], client_seen: vec![] },
            differs: None,
        }
    }

    fn report(cells: Vec<Cell>) -> Report {
        let scope = Scope::of_balanced();
        let rows = cells.iter().map(|c| c.row).collect();
        Report::new(cells, &Scope { rows, ..scope })
    }

    #[test]
    fn affinity_holds_across_nodes() {
        let both = |when, pod| report(vec![cell(when, "node-a", "a1"), cell(when, "node-b", pod)]);
        assert!(both(When::Sticky, "a1").holds());
        assert!(!both(When::Sticky, "b1").holds());
        assert!(both(When::Cluster, "b1").holds());
    }

    #[test]
    fn a_row_without_cells_does_not_hold() {
        let report = Report::new(Vec::new(), &Scope::of_balanced());
        assert!(!report.holds() && report.text().contains("nothing measured"));
    }
}
