//! What the real kube-proxy does, cell by cell: recorded, and measured again.
//!
//! A recording is a text of cells (`data/truth`): who sends what to which address of which Service,
//! and what came of it. [`run`] makes the same Services in a cluster, sends the same with real
//! packets, and compares.

mod cell;
mod error;
mod health;
mod measure;
mod objects;
mod outcome;
mod place;
mod recording;
mod report;
mod service;
mod stage;

use std::collections::BTreeSet;

use signpost_lab::{Lab, POD_PORT, Server, probe};

pub use error::Error;
pub use recording::{Recording, topology};
pub use report::Report;

use cell::Section;
use outcome::Outcome;
use place::Places;
use stage::Addresses;

/// Runs kubectl with arguments and a standard input, and returns what it printed.
pub type Kubectl<'a> =
    dyn Fn(&[&str], &str) -> Result<String, Box<dyn std::error::Error + Send + Sync>> + 'a;

/// Servers that are no pods: what they answer as, the member where they are, their port. One is an
/// endpoint with `hostNetwork`, one a load balancer that is no node.
const SERVERS: [(&str, &str, u16); 2] =
    [("host-b", "node-b", POD_PORT), ("balancer", "balancer", 80)];

/// Measures a recording again, in a lab of that [`topology`] whose nodes have a kube-proxy of that
/// mode. What is served is made with `kubectl` in the namespace `demo`, and taken away.
///
/// Some cells are about how many ICMP errors a kernel still sends: a lab that is measured again and
/// again without 20 s of rest between may tell one refusal where there was none.
pub fn run(lab: &Lab, kubectl: &Kubectl<'_>, recording: Recording) -> Result<Report, Error> {
    probe::lift_limits()?;
    let sections = recording.sections(lab.topology())?;
    let addresses = Addresses::of(lab, &sections);
    let _servers = servers(lab, &sections)?;
    let measured = measured(lab, kubectl, recording, &sections, &addresses);
    let removed = objects::remove(kubectl, recording);
    let cleared = addresses.clear(lab, &sections);
    let report = measured?;
    removed.and(cleared).map(|()| report)
}

fn measured(
    lab: &Lab,
    kubectl: &Kubectl<'_>,
    recording: Recording,
    sections: &[Section],
    addresses: &Addresses,
) -> Result<Report, Error> {
    let places = Places::of(lab.topology());
    let mut report = Report::new(recording);
    for (n, section) in sections.iter().enumerate() {
        addresses.enter(lab, sections, n)?;
        // Before the first, and under its circumstances: in ipvs mode a node looks at its addresses
        // when there is news of Services.
        let served = if n == 0 { objects::serve(lab, kubectl, recording) } else { Ok(()) };
        let outcomes = served.and_then(|()| measure::section(lab, section));
        addresses.leave(lab, section)?;
        report.add(section, &outcomes?, &places);
    }
    Ok(report)
}

/// Starts those of [`SERVERS`] that the recording has.
fn servers(lab: &Lab, sections: &[Section]) -> Result<Vec<Server>, Error> {
    let outcomes = sections.iter().flat_map(|s| &s.cells).flat_map(|cell| &cell.expected.outcomes);
    let answering: BTreeSet<&str> = outcomes
        .filter_map(|outcome| match outcome {
            Outcome::Seen { pod, .. } => Some(pod.as_str()),
            _ => None,
        })
        .collect();
    let wanted = SERVERS.iter().filter(|(says, ..)| answering.contains(says));
    wanted.map(|(says, member, port)| Ok(lab.serve(member, says, *port)?)).collect()
}
