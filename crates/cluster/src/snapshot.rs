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
    ("iptables-legacy-save.txt", &["iptables-legacy-save"]),
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

/// kube-proxy's path for its configuration.
const CONFIG: &str = "/configz";

/// What kube-proxy says of itself: files, its ports and paths.
const OF_PROXY: &[(&str, u16, &str)] =
    &[("kube-proxy-configz.json", 10249, CONFIG), ("kube-proxy-healthz.txt", 10256, "/healthz")];

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

/// Writes the state into a folder that is not there yet, and says how many files it has. On failure
/// the folder is gone again.
pub fn write(cluster: &Cluster, folder: &Path) -> Result<usize, Error> {
    std::fs::create_dir(folder).map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Error::Data(format!("{} is there: name a new folder", folder.display()))
        }
        _ => Error::Io { what: folder.display().to_string(), cause: e },
    })?;
    let written = write_all(cluster, folder);
    if written.is_err() {
        // What failed is told; half a state would only mislead.
        let _ = std::fs::remove_dir_all(folder);
    }
    written
}

fn write_all(cluster: &Cluster, folder: &Path) -> Result<usize, Error> {
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
    files.write("source.txt", &source(cluster)?)?;
    Ok(files.count)
}

/// Where it is from.
fn source(cluster: &Cluster) -> Result<String, Error> {
    let said = |command: &[&str]| cluster.output(ROUTER, command).trim().to_owned();
    let versions = [said(&["nft", "--version"]), said(&["iptables", "--version"])].join(", ");
    Ok(format!(
        "A cluster of network namespaces with the real components, kube-proxy in mode {}, on {}, \
         {versions}. Every file is the output of the command that its name says, but for the logs. \
         mgmt0, where there is one, is the way to the API server.\n{}",
        cluster.mode(),
        said(&["uname", "-sr"]),
        cluster.kubectl(&["version"])?
    ))
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
        let said = cluster.output(node, &["curl", "-sS", &url]);
        files.write(&format!("nodes/{node}/{file}"), &said)?;
        if *path == CONFIG
            && let Some(yaml) = configuration(&said)
        {
            files.write("cluster/kube-proxy.yaml", &yaml)?;
        }
    }
    let own = format!("--hostname-override={node}");
    let line = cluster.output(node, &["pgrep", "--full", "--list-full", "--", &own]);
    files.write(&format!("nodes/{node}/kube-proxy-cmdline.txt"), &line)?;
    let log = cluster.log(&format!("kube-proxy-{node}"))?;
    files.write(&format!("nodes/{node}/kube-proxy-log.txt"), &log)
}

/// kube-proxy's configuration, which it tells under the name of its group, as YAML.
fn configuration(said: &str) -> Option<String> {
    let all: serde_json::Value = serde_json::from_str(said).ok()?;
    serde_saphyr::to_string(all.get("kubeproxy.config.k8s.io")?).ok()
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

#[cfg(test)]
mod tests {
    use super::configuration;

    #[test]
    fn a_configuration_is_told_without_its_wrapping() {
        let said = r#"{"kubeproxy.config.k8s.io": {"mode": "ipvs", "ipvs": {"strictARP": true}}}"#;
        let yaml = configuration(said).unwrap_or_default();
        assert!(yaml.contains("mode: ipvs\n") && yaml.contains("strictARP: true"), "{yaml}");
        assert_eq!(configuration("connection refused"), None);
    }
}
