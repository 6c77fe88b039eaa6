//! Clusters that tests share: each takes a while to come up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use signpost_cluster::{Cluster, Components, Mode, Options, truth};
use signpost_lab::probe::{self, Target};
use signpost_lab::{Lab, LabName};

/// Controllers, kube-proxy and stand-ins do what they do within seconds; the machine may be busy.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// What is not answered by then is not.
pub(crate) const PATIENCE: Duration = Duration::from_millis(1500);

/// Clusters by their kube-proxy.
#[derive(Default)]
pub(crate) struct Bed {
    clusters: Mutex<BTreeMap<&'static str, Arc<Cluster>>>,
}

impl Bed {
    /// The cluster of this mode, made when it is first asked for.
    pub(crate) fn cluster(&self, mode: Mode) -> Arc<Cluster> {
        let mut clusters = self.clusters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let made = clusters.entry(mode.word()).or_insert_with(|| {
            Arc::new(Cluster::up(&name(mode.word()), options(mode, 3)).unwrap())
        });
        Arc::clone(made)
    }

    /// Ends them all.
    pub(crate) fn end(&self) {
        let mut clusters = self.clusters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for mode in std::mem::take(&mut *clusters).into_keys() {
            signpost_cluster::down(&name(mode)).unwrap();
        }
    }
}

/// A name that no other run has: tests of several checkouts may run at once.
pub(crate) fn name(word: &str) -> LabName {
    format!("k{}-{word}", std::process::id()).parse().unwrap()
}

pub(crate) fn options(mode: Mode, nodes: usize) -> Options {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // With a load balancer beside the nodes, for Services that have one.
    let mut topology = truth::topology();
    topology.nodes.truncate(nodes);
    Options {
        mode,
        topology,
        signpost: static_binary().unwrap_or_else(|| env!("CARGO_BIN_EXE_signpost").into()),
        components: Components::build(root, |_| {}).unwrap(),
        image: root.join("target/cluster/vm"),
    }
}

/// The binary that starts in an empty root, as Pods need it: the tier builds it and says where.
pub(crate) fn static_binary() -> Option<PathBuf> {
    std::env::var_os("SIGNPOST_STATIC").map(PathBuf::from)
}

/// How often a target is tried: of two pods each is missed once in 2^40.
const TRIES: usize = 40;

/// Waits until exactly these pods answer, and all tries are answered.
pub(crate) fn await_answers(lab: &Lab, from: &str, to: &str, pods: &[String]) {
    let target: Target = to.parse().unwrap();
    let ns = lab.namespace(from).unwrap();
    let mut seen = None;
    let answered = lab.wait_until(&format!("{from} reaches {pods:?} at {to}"), SOON, || {
        let summary = probe::summary(&probe::run(&ns, &vec![target; TRIES], PATIENCE).unwrap());
        let all = summary.verdict == probe::Verdict::Ok;
        let same = summary.pods.keys().eq(pods.iter());
        seen = Some(summary);
        all && same
    });
    assert!(answered.is_ok(), "{}: last {seen:?}", answered.unwrap_err());
}

/// Makes the client send what is for an address to a node, as if that answered ARP for it.
pub(crate) fn lead_to(lab: &Lab, address: &str, node: &str) {
    let mac = lab.node(node).unwrap().mac();
    let line = format!("neigh replace {address} lladdr {mac} dev eth0 nud permanent\n");
    lab.namespace("client").unwrap().ip(&line).unwrap();
}

/// The names of an application's Pods that are not ending, in order.
pub(crate) fn pods_of(cluster: &Cluster, app: &str) -> Vec<String> {
    let output = "go-template={{range .items}}{{if not .metadata.deletionTimestamp}}\
                  {{.metadata.name}} {{end}}{{end}}";
    let label = format!("app={app}");
    let text = cluster.kubectl(&["get", "pods", "-l", &label, "-o", output]).unwrap();
    let mut names: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    names.sort();
    names
}
