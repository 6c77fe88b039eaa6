//! `signpost lab`: a whole cluster of network namespaces on this machine.

mod bench;
mod demo;
mod matrix;
mod topology;

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use signpost_lab::probe::{self, Target};
use signpost_lab::{Added, Fault, Lab as Running, LabName, Namespace, Options, POD_PORT};

/// A connection that needs longer has lost its first packet and the second one too.
const PATIENCE: Duration = Duration::from_millis(1500);

#[derive(Args)]
pub(super) struct Lab {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Builds it: nodes with an agent each, pods, a router, clients
    Up(Up),
    /// Ends it, also what a crash left of it
    Down(Named),
    /// What is up, and where
    Status(Named),
    /// Runs a command in a node, a pod, a client, the router or the switch
    Exec(Exec),
    /// Measures what every sender gets from every kind of Service, beside what it must get
    Matrix(matrix::Matrix),
    /// Breaks something at a node, or undoes it
    Fault(Break),
    /// Shows in six acts what Signpost is for, on a lab of its own
    Demo(demo::Demo),
    /// Sends probes from one place and says what came of them
    Probe(Probe),
    /// Measures figures: an absolute, and its ratio to a baseline of the same run
    #[command(hide = true)]
    Bench(bench::Bench),
    /// Adds a pod to a node, with a server on each of its ports
    AddPod(AddPod),
    /// Ends a pod that was added
    RemovePod(RemovePod),
    /// A pod's servers, in the namespace that this runs in
    #[command(hide = true)]
    Pod(Pod),
}

#[derive(Args)]
struct Named {
    /// Which lab
    #[arg(long, default_value = "lab", value_parser = lab_name)]
    name: LabName,
}

#[derive(Args)]
struct Up {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    topology: topology::Which,
    /// Leave the nodes without an agent
    #[arg(long)]
    no_agents: bool,
    /// More arguments for the agents
    #[arg(last = true, value_name = "AGENT ARGUMENTS")]
    agent_args: Vec<String>,
}

#[derive(Args)]
struct Exec {
    #[command(flatten)]
    named: Named,
    /// A node, pod or client, `router` or `switch`
    member: String,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

#[derive(Args)]
struct Break {
    #[command(flatten)]
    named: Named,
    /// link, switch-port, kill, stop, flush, hold-writes or hang-control
    fault: Fault,
    /// The node
    node: String,
    /// Undo it
    #[arg(long)]
    undo: bool,
}

#[derive(Args)]
struct Probe {
    #[command(flatten)]
    named: Named,
    /// A node, pod or client
    from: String,
    /// ADDRESS:PORT/tcp, /udp or /sctp, or ADDRESS/icmp
    to: Target,
    /// How many, all at once
    #[arg(long, default_value_t = 12)]
    tries: usize,
}

#[derive(Args)]
struct Pod {
    /// What it says that it is
    pod: String,
    /// Where it says that it is
    #[arg(long)]
    node: String,
    /// Its TCP, UDP and SCTP ports
    #[arg(long = "port", required = true)]
    ports: Vec<u16>,
}

#[derive(Args)]
struct AddPod {
    #[command(flatten)]
    named: Named,
    /// Its name
    pod: String,
    /// Its node
    #[arg(long)]
    node: String,
    /// Its address, in the node's subnet for pods
    #[arg(long)]
    address: Ipv4Addr,
    /// Its address in IPv6, in the node's subnet for pods of that family
    #[arg(long)]
    ipv6: Option<Ipv6Addr>,
    /// Its TCP, UDP and SCTP ports
    #[arg(long = "port", default_values_t = [POD_PORT])]
    ports: Vec<u16>,
    /// What it says that it is, if not its name
    #[arg(long, value_name = "NAME")]
    answers: Option<String>,
}

#[derive(Args)]
struct RemovePod {
    #[command(flatten)]
    named: Named,
    /// Its name
    pod: String,
}

pub(super) fn run(lab: Lab) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match lab.verb {
        Verb::Up(up) => bring_up(up, &mut out),
        Verb::Down(n) => {
            let was = signpost_lab::down(&n.name)?;
            let word = if was { "is down" } else { "was not up" };
            writeln!(out, "lab {} {word}", n.name)?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Status(n) => status(&n.name, &mut out),
        Verb::Exec(exec) => execute(&exec),
        Verb::Fault(f) => {
            let mut lab = Running::attach(&f.named.name)?;
            if f.undo {
                lab.mend(f.fault, &f.node)?
            } else {
                lab.fault(f.fault, &f.node)?
            }
            Ok(ExitCode::SUCCESS)
        }
        Verb::Matrix(m) => matrix::run(&m, &mut out),
        Verb::Bench(b) => bench::run(&b, &mut out),
        Verb::Demo(d) => demo::run(&d, &mut out),
        Verb::Probe(p) => send(&p, &mut out),
        Verb::AddPod(p) => {
            Running::attach(&p.named.name)?.add_pod(&Added {
                name: &p.pod,
                node: &p.node,
                address: p.address,
                ipv6: p.ipv6,
                ports: &p.ports,
                says: p.answers.as_deref().unwrap_or(&p.pod),
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::RemovePod(p) => {
            Running::attach(&p.named.name)?.remove_pod(&p.pod)?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Pod(p) => {
            signpost_lab::pod::serve(&p.pod, &p.node, &p.ports, || {
                // Whoever started it waits for this.
                let _ = writeln!(out, "ready").and_then(|()| out.flush());
            })?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn lab_name(s: &str) -> Result<LabName, String> {
    s.parse().map_err(|e: signpost_lab::Error| e.to_string())
}

fn options(agents: bool, agent_args: Vec<String>) -> Result<Options> {
    let program = std::env::current_exe().context("finding this program itself")?;
    Ok(Options { program, agents, agent_args })
}

fn bring_up(up: Up, out: &mut impl Write) -> Result<ExitCode> {
    let topology = up.topology.read()?;
    let start = Instant::now();
    let lab = Running::up(&up.named.name, topology, options(!up.no_agents, up.agent_args)?)?;
    let t = lab.topology();
    writeln!(
        out,
        "lab {} is up after {} ms: {} nodes, {} pods, {} clients outside",
        lab.name(),
        start.elapsed().as_millis(),
        t.nodes.len(),
        lab.pods().count(),
        t.outsiders().count()
    )?;
    writeln!(out, "manifests: {}", lab.manifests().display())?;
    writeln!(out, "try: signpost lab exec --name {} {} ip neigh", lab.name(), t.clients[0].name)?;
    Ok(ExitCode::SUCCESS)
}

fn status(name: &LabName, out: &mut impl Write) -> Result<ExitCode> {
    let lab = Running::attach(name)?;
    writeln!(out, "lab {name} in {}", lab.directory().display())?;
    let row = |out: &mut dyn Write,
               kind: &str,
               member: &str,
               at: Ipv4Addr,
               v6: Option<Ipv6Addr>,
               more: &str| {
        let v6 = v6.map_or(String::new(), |a| format!("{a:<20} "));
        writeln!(out, "{kind:<7} {member:<12} {at:<15} {v6}{more}").map_err(anyhow::Error::from)
    };
    let t = lab.topology();
    row(out, "router", "router", t.router, t.ipv6.as_ref().map(|v6| v6.router), "")?;
    for node in &t.nodes {
        row(out, "node", &node.name, node.address, node.ipv6, &agent_line(&lab, &node.name))?;
        for pod in &node.pods {
            row(out, "pod", &pod.name, pod.address, pod.ipv6, &format!("on {}", node.name))?;
        }
    }
    for pod in lab.added_pods() {
        writeln!(out, "pod     {pod:<12} added")?;
    }
    for client in t.outsiders() {
        row(out, "client", &client.name, client.address, client.ipv6, "")?;
    }
    for fault in lab.faults() {
        writeln!(out, "in force: fault {fault}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn agent_line(lab: &Running, node: &str) -> String {
    let Some(pid) = lab.agent_process(node) else { return "no agent".to_owned() };
    match lab.status(node) {
        Err(e) => format!("agent {pid} does not answer: {e}"),
        Ok(status) => {
            let owned: Vec<&str> = status["addresses"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|a| a["verdict"] == "own")
                .filter_map(|a| a["address"].as_str())
                .collect();
            format!(
                "agent {pid} owns {}",
                if owned.is_empty() { "nothing".to_owned() } else { owned.join(" ") }
            )
        }
    }
}

fn execute(exec: &Exec) -> Result<ExitCode> {
    let lab = Running::attach(&exec.named.name)?;
    let ns = lab.namespace(&exec.member)?;
    let (program, args) = exec.command.split_first().expect("clap asks for one word at least");
    let status = ns
        .run(|| Command::new(program).args(args).status())?
        .with_context(|| format!("running {program}"))?;
    let code = status.code().and_then(|c| u8::try_from(c).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn send(p: &Probe, out: &mut impl Write) -> Result<ExitCode> {
    let lab = Running::attach(&p.named.name)?;
    let ns: Namespace = lab.namespace(&p.from)?;
    probe::lift_limits()?;
    let outcomes = probe::run(&ns, &vec![p.to; p.tries], PATIENCE)?;
    let s = probe::summary(&outcomes);
    write!(out, "{} from {}: {}", p.to, p.from, s.verdict)?;
    for cause in &s.causes {
        write!(out, " {cause}")?;
    }
    for (pod, count) in &s.pods {
        write!(out, " {pod}:{count}")?;
    }
    for seen in &s.seen {
        write!(out, " seen as {seen}")?;
    }
    writeln!(out)?;
    let fine = s.verdict == probe::Verdict::Ok;
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
