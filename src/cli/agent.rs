//! `signpost agent`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ipnet::IpNet;
use signpost_plan::NodeName;
use signpost_plan::world::{Forwarding, NodePortAddresses};

use crate::agent;

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("mesh").args(["mesh_key", "insecure_mesh", "cleanup"])))]
pub(super) struct Agent {
    /// Where the objects come from: `dir:PATH`, every YAML and JSON file below PATH
    #[arg(long, value_name = "dir:PATH", required_unless_present = "cleanup")]
    source: Option<Source>,
    /// This node's name, as its Node object bears it [default: the host's name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// A file with the members' common secret, the same on every node
    #[arg(long, value_name = "FILE")]
    mesh_key: Option<PathBuf>,
    /// Believe every datagram of the segment: for a network that nobody else can reach
    #[arg(long)]
    insecure_mesh: bool,
    /// The UDP port of the mesh, the same on every node
    #[arg(long, value_name = "PORT", default_value_t = 7948, value_parser = clap::value_parser!(u16).range(1..))]
    mesh_port: u16,
    /// How often members say that they live, the same on every node
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(10..=10_000))]
    mesh_interval_ms: u64,
    /// After so many silent intervals a member counts as dead
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=20))]
    mesh_multiplier: u8,
    /// How long a member must have been back before it takes addresses again
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(0..=3_600_000))]
    preempt_delay_ms: u64,
    /// Whether the kernel shall refuse other programs' edits of our table
    #[arg(long, value_enum, default_value_t = TableOwner::Auto)]
    table_owner: TableOwner,
    /// Further ranges of pod addresses, beside `Node.spec.podCIDRs` and the endpoints' own
    #[arg(long, value_name = "CIDR")]
    pod_cidr: Vec<IpNet>,
    /// What to forward: with `all` no other proxy may run on this node
    #[arg(long, value_enum, default_value_t = Forward::Vip)]
    forward: Forward,
    /// Where NodePorts answer, with `--forward all`: `primary` for the Node's own addresses, or
    /// networks [default: every address but loopback]
    #[arg(long, value_name = "primary|CIDR,...")]
    nodeport_addresses: Option<NodePorts>,
    #[command(flatten)]
    socket: super::AgentSocket,
    /// Take over from the agent that runs here, with its sockets and its lock
    #[arg(long)]
    takeover: bool,
    /// Remove everything that Signpost ever put into this kernel, and nothing else; then exit
    #[arg(long)]
    cleanup: bool,
    /// Obey `fault` requests on the socket
    #[arg(long, hide = true)]
    lab_faults: bool,
}

#[derive(Clone)]
struct Source(PathBuf);

impl std::str::FromStr for Source {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s.split_once(':') {
            Some(("dir", path)) if !path.is_empty() => Ok(Self(path.into())),
            Some(("dir", _)) => Err("`dir:` needs a path, as in `dir:/etc/signpost`".into()),
            _ => Err("a source is `dir:PATH`, as in `dir:/etc/signpost`".into()),
        }
    }
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Forward {
    /// Addresses of LoadBalancer Services and external IPs: beside kube-proxy
    Vip,
    /// ClusterIPs and NodePorts as well: instead of kube-proxy
    All,
}

#[derive(Clone)]
struct NodePorts(NodePortAddresses);

impl std::str::FromStr for NodePorts {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        if s == "primary" {
            return Ok(Self(NodePortAddresses::Primary));
        }
        let net = |text: &str| {
            text.trim().parse::<IpNet>().map_err(|_| {
                format!(
                    "{text:?} is not a network: write `primary`, or networks as 192.0.2.0/24,..."
                )
            })
        };
        s.split(',').map(net).collect::<Result<_, _>>().map(NodePortAddresses::Within).map(Self)
    }
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum TableOwner {
    /// Where the kernel has `flags owner, persist` (Linux 6.9)
    Auto,
    /// Never: edits are watched for and repaired
    Off,
}

pub(super) fn run(a: Agent) -> Result<ExitCode> {
    if a.cleanup {
        return agent::cleanup(&a.socket.socket);
    }
    let Some(Source(source)) = a.source else { bail!("--source is missing") };
    if a.mesh_key.is_none() && !a.insecure_mesh {
        bail!(
            "the members need a common secret: --mesh-key FILE (make one with \
             `head -c 32 /dev/urandom | base64 > FILE` and copy it to every node), or \
             --insecure-mesh on a network that nobody else can reach"
        );
    }
    let key = a.mesh_key.as_deref().map(agent::key::read).transpose()?;
    let node = match a.node {
        Some(n) => n,
        None => nix::unistd::gethostname()
            .context("the host has no name; say --node NAME")?
            .to_string_lossy()
            .into_owned(),
    };
    agent::run(agent::Options {
        source,
        node: NodeName::from(node.as_str()),
        key,
        mesh_port: a.mesh_port,
        mesh_interval: Duration::from_millis(a.mesh_interval_ms),
        mesh_multiplier: a.mesh_multiplier,
        preempt_delay: Duration::from_millis(a.preempt_delay_ms),
        table_owner: matches!(a.table_owner, TableOwner::Auto),
        pod_cidrs: a.pod_cidr,
        forwarding: match a.forward {
            Forward::Vip => Forwarding::Vip,
            Forward::All => Forwarding::All,
        },
        node_port_addresses: a.nodeport_addresses.map(|NodePorts(n)| n).unwrap_or_default(),
        socket: a.socket.socket,
        takeover: a.takeover,
        lab_faults: a.lab_faults,
    })
}
