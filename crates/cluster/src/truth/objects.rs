//! What is served: made in the cluster, awaited on the nodes, taken away again.

use std::net::SocketAddrV4;
use std::time::Duration;

use signpost_lab::{Lab, Namespace};

use super::outcome::Outcome;
use super::{Error, Kubectl, Recording, health};

/// The namespace of all of them.
const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: demo}\n---\n";

/// A Service that is made after all others.
const LAST: &str = include_str!("../../data/truth/last.yaml");

/// The port of its health check.
const LAST_HEALTH: u16 = 31999;

/// A health check answers at once, or is not there yet.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// How often it is asked: an emulated machine has better things to do.
const LOOK: Duration = Duration::from_millis(50);

/// Makes them, and waits until every node serves them: until each has ended a sync that knew of the
/// last one. Another recording's last one has to go before.
pub(super) fn serve(lab: &Lab, kubectl: &Kubectl<'_>, recording: Recording) -> Result<(), Error> {
    let gone = "kube-proxy serves another recording's Services no more";
    await_health(lab, gone, recording, |said| matches!(said, Outcome::Strange(_)))?;
    make(kubectl, recording)?;
    let there = "kube-proxy serves the recording's Services";
    await_health(lab, there, recording, |said| *said == Outcome::Http(200))
}

/// Takes them away, but the namespace: nobody may be there to empty it.
pub(super) fn remove(kubectl: &Kubectl<'_>, recording: Recording) -> Result<(), Error> {
    let delete = ["delete", "--ignore-not-found", "--wait=false", "--filename", "-"];
    run(kubectl, &delete, &[recording.manifests(), "---\n", LAST].concat())
}

/// A status is not taken with the rest of an object: it belongs to a subresource.
fn make(kubectl: &Kubectl<'_>, recording: Recording) -> Result<(), Error> {
    let apply = ["apply", "--server-side", "--filename", "-"];
    let status = ["apply", "--server-side", "--subresource=status", "--filename", "-"];
    run(kubectl, &apply, &[NAMESPACE, recording.manifests()].concat())?;
    let documents = recording.manifests().split("---\n");
    let with_status: Vec<&str> = documents.filter(|d| d.contains("\nstatus:\n")).collect();
    if !with_status.is_empty() {
        run(kubectl, &status, &with_status.join("---\n"))?;
    }
    run(kubectl, &apply, LAST)
}

/// Waits until the health check of the last one says so on each node.
fn await_health(
    lab: &Lab,
    what: &str,
    recording: Recording,
    says: impl Fn(&Outcome) -> bool,
) -> Result<(), Error> {
    let nodes = lab.topology().nodes.iter().map(|n| {
        let ns = lab.namespace(&n.name)?;
        Ok((ns, SocketAddrV4::new(n.address, LAST_HEALTH)))
    });
    let nodes = nodes.collect::<Result<Vec<(Namespace, SocketAddrV4)>, Error>>()?;
    lab.wait_until(what, recording.settles(), || {
        let all = nodes.iter().all(|(ns, to)| {
            let said = ns.run(|| health::ask(*to, LAST_PATIENCE));
            said.is_ok_and(|said| says(&said))
        });
        if !all {
            std::thread::sleep(LOOK);
        }
        all
    })?;
    Ok(())
}

fn run(kubectl: &Kubectl<'_>, args: &[&str], stdin: &str) -> Result<(), Error> {
    let done = kubectl(args, stdin);
    done.map(|_| ()).map_err(|source| Error::Kubectl { command: args.join(" "), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::service::Services;
    use crate::truth::topology;

    #[test]
    fn the_last_service_has_a_health_check_and_each_node_an_endpoint() {
        let services = Services::parse(LAST).unwrap();
        let port = services.get("last").unwrap().port("healthCheckNodePort");
        assert_eq!(port, Some(LAST_HEALTH));
        for node in topology().nodes {
            let endpoint =
                format!("- addresses: [{}]\n  nodeName: {}", node.pods[0].address, node.name);
            assert!(LAST.contains(&endpoint), "{endpoint}");
        }
    }
}
