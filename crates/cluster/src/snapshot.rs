//! A cluster's state as files: what one would send to somebody who shall find a fault.
//!
//! `cluster/` has the objects as `kubectl get -o yaml` prints them, `nodes/NODE/` one file a
//! command, `probe/` what those outside see, `source.txt` where it is from.

use std::path::Path;

use signpost_lab::topology::ROUTER;

use crate::error::At;
use crate::{Cluster, Error, Mode};

/// Files of a node, and the commands that print them.
const OF_NODE: &[(&str, &[&str])] = &[
    ("conntrack.txt", &["conntrack", "-L"]),
    ("ip-addr.txt", &["ip", "addr"]),
    ("ip-neigh.txt", &["ip", "neigh"]),
    ("ip-route-all.txt", &["ip", "route", "show", "table", "all"]),
    ("ip-route-local.txt", &["ip", "route", "show", "table", "local"]),
    ("ip-route-main.txt", &["ip", "route"]),
    ("ip-rule.txt", &["ip", "rule"]),
    ("ipset-save.txt", &["ipset", "save"]),
    ("iptables-save.txt", &["iptables-save"]),
    ("lsmod.txt", &["lsmod"]),
    ("nft-list-ruleset.json", &["nft", "-j", "list", "ruleset"]),
    ("nft-list-ruleset.txt", &["nft", "list", "ruleset"]),
    ("nstat.txt", &["nstat", "-az"]),
    ("ss-lntu.txt", &["ss", "-lntu"]),
    ("sysctl.txt", &["sysctl", "-a"]),
];

/// The same, where kube-proxy is in IPVS mode.
const OF_IPVS_NODE: &[(&str, &[&str])] = &[
    ("ipvsadm-Ln.txt", &["ipvsadm", "-Ln"]),
    ("ipvsadm-Lnc.txt", &["ipvsadm", "-Lnc"]),
    ("ipvsadm-Sn.txt", &["ipvsadm", "-Sn"]),
];

/// What kube-proxy says of itself: files, its ports and paths.
const OF_PROXY: &[(&str, u16, &str)] = &[
    ("kube-proxy-configz.json", 10249, "/configz"),
    ("kube-proxy-healthz.txt", 10256, "/healthz"),
];

/// What those outside see.
const OF_OUTSIDER: &[(&str, &[&str])] =
    &[("ip-neigh.txt", &["ip", "neigh"]), ("ip-route.txt", &["ip", "route"])];

/// Kinds that any cluster has, and ones that it may have.
const KINDS: &[(&str, &str)] = &[
    ("services.yaml", "services"),
    ("endpointslices.yaml", "endpointslices.discovery.k8s.io"),
    ("nodes.yaml", "nodes"),
    ("pods.yaml", "pods"),
    ("ipaddresspools.yaml", "ipaddresspools.metallb.io"),
    ("l2advertisements.yaml", "l2advertisements.metallb.io"),
    ("bgpadvertisements.yaml", "bgpadvertisements.metallb.io"),
    ("bgppeers.yaml", "bgppeers.metallb.io"),
];

/// Writes the state into a folder that is not there yet, and says how many files it has.
pub fn write(cluster: &Cluster, folder: &Path) -> Result<usize, Error> {
    std::fs::create_dir(folder).at(|| format!("{}: a new folder is needed", folder.display()))?;
    let mut files = Files { folder, count: 0 };
    let served = cluster.kubectl(&["api-resources", "-o", "name"])?;
    for (file, kind) in KINDS {
        let plural = kind.split('.').next().unwrap_or(kind);
        if served.lines().any(|name| name == *kind || name == plural) {
            let objects = cluster.kubectl(&["get", kind, "-A", "-o", "yaml"])?;
            files.write(&format!("cluster/{file}"), &objects)?;
        }
    }
    for node in &cluster.topology().nodes {
        of_node(cluster, &node.name, &mut files)?;
    }
    let outsiders = cluster.topology().outsiders().map(|c| c.name.as_str());
    for member in outsiders.chain([ROUTER]) {
        for (file, command) in OF_OUTSIDER {
            files.write(&format!("probe/{member}-{file}"), &cluster.output(member, command))?;
        }
    }
    let version = cluster.kubectl(&["version"])?;
    let kernel = cluster.output(ROUTER, &["uname", "-sr"]);
    let mode = cluster.mode();
    files.write(
        "source.txt",
        &format!(
            "A cluster of network namespaces with the real components, kube-proxy in mode {mode}, \
             on {}. Every file is the output of the command that its name says.\n{version}",
            kernel.trim()
        ),
    )?;
    Ok(files.count)
}

fn of_node(cluster: &Cluster, node: &str, files: &mut Files<'_>) -> Result<(), Error> {
    let ipvs = if cluster.mode() == Mode::Ipvs { OF_IPVS_NODE } else { &[] };
    for (file, command) in OF_NODE.iter().chain(ipvs) {
        files.write(&format!("nodes/{node}/{file}"), &cluster.output(node, command))?;
    }
    if cluster.mode() == Mode::None {
        return Ok(());
    }
    for (file, port, path) in OF_PROXY {
        let url = format!("http://127.0.0.1:{port}{path}");
        let said = cluster.output(node, &["curl", "-s", &url]);
        files.write(&format!("nodes/{node}/{file}"), &said)?;
    }
    let log = cluster.log(&format!("kube-proxy-{node}"))?;
    files.write(&format!("nodes/{node}/kube-proxy-log.txt"), &log)
}

struct Files<'a> {
    folder: &'a Path,
    count: usize,
}

impl Files<'_> {
    fn write(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let file = self.folder.join(name);
        let folder = file.parent().expect("a name in a folder");
        std::fs::create_dir_all(folder).at(|| folder.display().to_string())?;
        std::fs::write(&file, text).at(|| file.display().to_string())?;
        self.count += 1;
        Ok(())
    }
}
