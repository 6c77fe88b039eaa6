//! When a lab's agents have done what its manifests say.

use std::time::Duration;

use serde_json::Value;

use super::scenario::Scenario;
use crate::{Error, Lab};

/// Agents that follow a directory need milliseconds; an owner is settled within a second.
const SETTLED: Duration = Duration::from_secs(15);

/// Waits until every agent's kernel acknowledged every announced address, and each that can be
/// served has one owner. The Services that have none were written before those that do.
pub(super) fn settled(lab: &Lab, scenarios: &[Scenario<'_>]) -> Result<(), Error> {
    let mut missing = String::new();
    let waited = lab.wait_until("the agents serve the matrix's Services", SETTLED, || {
        let found = first_missing(lab, scenarios);
        missing = found.clone().unwrap_or_default();
        found.is_none()
    });
    waited.map(|_| ()).map_err(|_| Error::Deadline { what: missing, seconds: SETTLED.as_secs() })
}

fn first_missing(lab: &Lab, scenarios: &[Scenario<'_>]) -> Option<String> {
    let mut statuses = Vec::new();
    for node in &lab.topology().nodes {
        match lab.status(&node.name) {
            Ok(status) => statuses.push((&node.name, status)),
            Err(e) => return Some(e.to_string()),
        }
    }
    for s in scenarios {
        for address in s.announced() {
            let address = address.to_string();
            let mut owners = 0;
            for (node, status) in &statuses {
                let entry = status["addresses"]
                    .as_array()
                    .and_then(|list| list.iter().find(|a| a["address"] == address.as_str()));
                if entry.is_none_or(|e| e["acknowledged"] != true) {
                    return Some(format!("the kernel of {node} acknowledges {address}"));
                }
                owners += usize::from(entry.is_some_and(|e: &Value| e["verdict"] == "own"));
            }
            if owners != usize::from(!s.cluster().is_empty()) {
                return Some(format!("{address} has its owner, and not {owners} of them"));
            }
        }
    }
    None
}
