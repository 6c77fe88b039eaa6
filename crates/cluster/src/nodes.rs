//! What runs for each node: a kube-proxy, and a stand-in for the kubelet.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use signpost_lab::{Lab, Namespace};

use crate::control::{Files, READY, await_ready, is_healthy, reap};
use crate::error::At;
use crate::{Components, Error};

/// In an emulated machine its first sync takes 75 to 150 s.
const READY_IPVS: Duration = Duration::from_secs(600);

/// kube-proxy's port for its health.
const PROXY_HEALTH: u16 = 10256;

/// Which kube-proxy the nodes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// `--proxy-mode=nftables`.
    Nftables,
    /// `--proxy-mode=iptables`.
    Iptables,
    /// `--proxy-mode=ipvs`, in a guest whose kernel has it.
    Ipvs,
    /// None at all.
    None,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Nftables, Self::Iptables, Self::Ipvs, Self::None];

    /// As kube-proxy writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
            Self::Ipvs => "ipvs",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let words = Self::ALL.map(Self::word).join(", ");
        Self::ALL
            .into_iter()
            .find(|m| m.word() == s)
            .ok_or_else(|| format!("{s:?} is no --mode: there are {words}"))
    }
}

/// Starts a stand-in for each node. `at` is where the API server is.
pub(crate) fn start_stand_ins(
    lab: &Lab,
    components: &Components,
    signpost: &Path,
    from: &Namespace,
    at: &str,
) -> Result<(), Error> {
    let files = Files::of(lab);
    for node in &lab.topology().nodes {
        let log = format!("node-{}", node.name);
        let args = [
            "node",
            "--name",
            &node.name,
            "--lab",
            &lab.name().to_string(),
            "--signpost",
            &signpost.display().to_string(),
            "--kubeconfig",
            &files.kubeconfig(&format!("node-{}", node.name)).display().to_string(),
            "--pod-cidr",
            &node.pod_cidr.to_string(),
            "--address",
            &node.address.to_string(),
            "--directory",
            &files.folder().display().to_string(),
            "--api",
            at,
        ]
        .map(str::to_owned);
        reap(from.start(components.program(), &args, &files.log(&log))?);
    }
    Ok(())
}

/// Starts a kube-proxy for each node, and waits until each has programmed its node once. The nodes
/// must be known to the API server: without its node, kube-proxy waits for half a minute.
pub(crate) fn start_proxies(lab: &Lab, components: &Components, mode: Mode) -> Result<(), Error> {
    if mode == Mode::None {
        return Ok(());
    }
    let files = Files::of(lab);
    let mut started = Vec::new();
    for node in &lab.topology().nodes {
        let ns = lab.namespace(&node.name)?;
        let log = files.log(&format!("kube-proxy-{}", node.name));
        let config = files.kubeconfig("kube-proxy").display().to_string();
        let cluster = cluster_cidr(lab).to_string();
        let mut args = vec![
            "kube-proxy".to_owned(),
            format!("--kubeconfig={config}"),
            format!("--proxy-mode={mode}"),
            format!("--hostname-override={}", node.name),
            format!("--cluster-cidr={cluster}"),
            // Machine-wide, and not a namespace's to set.
            "--conntrack-max-per-core=0".to_owned(),
            "--conntrack-min=0".to_owned(),
            "--conntrack-tcp-timeout-established=0s".to_owned(),
            "--conntrack-tcp-timeout-close-wait=0s".to_owned(),
            // Its own choice would make it the last process to be killed.
            "--oom-score-adj=0".to_owned(),
        ];
        if mode == Mode::Ipvs {
            args.push("--ipvs-strict-arp".to_owned());
            // A sync takes most of a minute in an emulated machine; changes cause their own.
            args.push("--ipvs-sync-period=15m".to_owned());
        }
        let child = match mode {
            Mode::Ipvs => {
                // Of two families each sync would take twice as long.
                let path = without_ip6tables(&files)?;
                args.insert(0, components.program().display().to_string());
                args.insert(0, format!("PATH={path}"));
                ns.start(Path::new("env"), &args, &log)?
            }
            Mode::Nftables | Mode::Iptables | Mode::None => {
                ns.start(components.program(), &args, &log)?
            }
        };
        started.push((node.name.clone(), child));
    }
    for (node, child) in started {
        let ns = lab.namespace(&node)?;
        let component = format!("kube-proxy-{node}");
        let mut child = [(component.as_str(), child)];
        let patience = if mode == Mode::Ipvs { READY_IPVS } else { READY };
        await_ready(&files, &component, patience, &mut child, || {
            is_healthy(&ns, PROXY_HEALTH, "/healthz")
        })?;
        let [(_, child)] = child;
        reap(child);
    }
    Ok(())
}

/// A PATH on which kube-proxy finds an ip6tables that does not work, and so leaves IPv6 alone.
fn without_ip6tables(files: &Files) -> Result<String, Error> {
    let folder = files.folder().join("bin");
    std::fs::create_dir_all(&folder).at(|| folder.display().to_string())?;
    let file = folder.join("ip6tables");
    if !file.exists() {
        std::os::unix::fs::symlink("/bin/false", &file).at(|| file.display().to_string())?;
    }
    let path = std::env::var("PATH").unwrap_or_default();
    Ok(format!("{}:{path}:/usr/sbin:/sbin", folder.display()))
}

/// The smallest net that holds the pods of all nodes.
fn cluster_cidr(lab: &Lab) -> String {
    let nets = lab.topology().nodes.iter().map(|n| n.pod_cidr);
    let (low, high) = nets.fold((u32::MAX, 0), |(low, high), net| {
        (low.min(net.network().into()), high.max(net.broadcast().into()))
    });
    // Not narrower than a /16, so that nodes may be added.
    let length = (low ^ high).leading_zeros().min(16);
    let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
    format!("{}/{length}", std::net::Ipv4Addr::from(low & mask))
}
