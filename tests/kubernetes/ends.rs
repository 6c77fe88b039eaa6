//! What is left of a cluster that was ended: nothing.

use signpost_cluster::{Cluster, Mode};

use crate::bed::{Bed, name, options};

pub(crate) fn a_cluster_ends_without_a_trace(_: &Bed) {
    let name = name("ends");
    let cluster = Cluster::up(&name, options(Mode::Nftables, 1)).unwrap();
    cluster.kubectl(&["create", "deployment", "web", "--image=web"]).unwrap();
    cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).unwrap();
    let directory = name.directory().display().to_string();
    assert!(mentioning(&directory).len() >= 6, "etcd, four components, a stand-in");
    assert!(Cluster::up(&name, options(Mode::Nftables, 1)).is_err(), "it is up already");
    cluster.down().unwrap();
    assert_eq!(mentioning(&directory), Vec::<String>::new());
    assert!(!name.directory().exists());
    let left = std::fs::read_dir("/run/netns").unwrap().flatten();
    let left: Vec<_> =
        left.filter(|e| e.file_name().to_string_lossy().starts_with(&name.prefix())).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(Cluster::attach(&name).unwrap_err().to_string().contains("there is no cluster"));
}

/// The command lines of processes that have this in them.
fn mentioning(directory: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|p| std::fs::read(p.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(directory))
        .collect()
}
