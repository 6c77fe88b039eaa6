//! What is served: made in the cluster, awaited on the nodes, taken away again.

use std::net::Ipv4Addr;
use std::time::Duration;

use signpost_lab::probe::{self, Protocol, Target};
use signpost_lab::{Lab, Namespace};

use super::{Error, Kubectl, Recording};

/// The namespace of all of them.
const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: demo}\n---\n";

/// A Service that is made after all others.
const LAST: &str = include_str!("../../data/truth/last.yaml");

/// What it is reached by from any node.
const LAST_TARGET: Target =
    Target { address: Ipv4Addr::new(10, 233, 0, 9), port: 80, protocol: Protocol::Tcp };

/// Where it is not served yet, nobody answers.
const LAST_PATIENCE: Duration = Duration::from_millis(300);

/// Makes them. A status is not taken with the rest of an object, and belongs to a subresource.
pub(super) fn make(kubectl: &Kubectl<'_>, recording: Recording) -> Result<(), Error> {
    let apply = ["apply", "--server-side", "--filename", "-"];
    let status = ["apply", "--server-side", "--subresource=status", "--filename", "-"];
    run(kubectl, &apply, &[NAMESPACE, &of(recording)].concat())?;
    run(kubectl, &status, recording.services())?;
    run(kubectl, &apply, LAST)
}

/// Waits until every node serves them: a node takes over what it knows all at once, and learns of
/// the last one last.
pub(super) fn settled(lab: &Lab, recording: Recording) -> Result<(), Error> {
    let nodes = lab.topology().nodes.iter().map(|n| lab.namespace(&n.name));
    let nodes = nodes.collect::<Result<Vec<Namespace>, _>>()?;
    lab.wait_until("kube-proxy serves the recording's Services", recording.settles(), || {
        nodes.iter().all(|ns| {
            let tried = probe::run(ns, &[LAST_TARGET], LAST_PATIENCE);
            matches!(tried.as_deref(), Ok([probe::Outcome::Answered { .. }]))
        })
    })?;
    Ok(())
}

/// Takes them away, but the namespace: nobody may be there to empty it.
pub(super) fn remove(kubectl: &Kubectl<'_>, recording: Recording) -> Result<(), Error> {
    let delete = ["delete", "--ignore-not-found", "--wait=false", "--filename", "-"];
    run(kubectl, &delete, &[&of(recording), "---\n", LAST].concat())
}

fn of(recording: Recording) -> String {
    let slices = recording.endpoint_slices().map(|s| format!("---\n{s}"));
    [recording.services(), &slices.unwrap_or_default()].concat()
}

fn run(kubectl: &Kubectl<'_>, args: &[&str], stdin: &str) -> Result<(), Error> {
    let done = kubectl(args, stdin);
    done.map(|_| ()).map_err(|source| Error::Kubectl { command: args.join(" "), source })
}
