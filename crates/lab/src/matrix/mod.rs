//! Every sender against every kind of Service: measured, beside what people expect.

mod expect;
mod judge;
mod measure;
mod owner;
mod pin;
mod plan;
mod report;
mod row;
mod scenario;
mod scope;
mod second;
mod services;
mod settle;

pub use expect::{Expectation, Expected, Seen, Served, Set, Spread};
pub use report::{Cell, Count, Report, Wanted};
pub use row::{Column, Kind, Row, When};
pub use scope::{Forward, Scope};

use crate::manifest::Service;
use crate::{Error, Lab};

/// Measures it with Services of its own, and takes them away again.
pub fn run(lab: &Lab, expected: &Expected, scope: &Scope) -> Result<Report, Error> {
    let scenarios = services::scenarios(lab.topology(), scope)?;
    for s in &scenarios {
        lab.write_manifest(&s.service.file(), &s.service.yaml(lab.topology()))?;
    }
    let cells = settle::settled(lab, &scenarios)
        .and_then(|()| measure::cells(lab, &scenarios, expected, scope));
    for s in &scenarios {
        lab.remove_manifest(&s.service.file())?;
    }
    Ok(Report::new(cells?, scope))
}

/// Measures one LoadBalancer that is served already, and pings its address, by whoever answers for
/// that.
pub fn of_service(
    lab: &Lab,
    service: Service<'_>,
    expected: &Expected,
) -> Result<Vec<Cell>, Error> {
    let scenario = scenario::Scenario { service, special: None, asks_more: true };
    let mut scope = Scope::of_balanced();
    scope.rows.retain(|row| row.when != When::ClosedPort);
    measure::one(lab, &scenario, expected, &scope)
}
