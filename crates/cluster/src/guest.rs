//! The nodes of a cluster in IPVS mode: a lab in a guest, whose kernel has it. The API server stays
//! outside.
//!
//! The program that made the cluster runs in the guest too, by verbs of its own: its `main` asks
//! [`run`] first.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde::{Deserialize, Serialize};
use signpost_lab::{Lab, LabName, Namespace, Topology};

use crate::control::{API_PORT, Files, reap};
use crate::error::At;
use crate::truth::{self, Recording};
use crate::vm::{self, Output, Vm};
use crate::{Components, Error, Mode, nodes};

/// The host's loopback, as the guest sees it.
const HOST: &str = "10.0.2.2";

/// The name of the guest's own network namespace.
const ROOT: &str = "guest";

/// More than the usual guest's: three kube-proxies, and programs of 170 MB.
const MEMORY_MIB: u32 = 3072;

const SERVE: &str = "guest-commands";
const NODES: &str = "guest-nodes";
const PROXIES: &str = "guest-proxies";
const MATRIX: &str = "guest-matrix";

/// What the guest's part of a cluster is made of.
#[derive(Serialize, Deserialize)]
struct Nodes {
    lab: String,
    topology: Topology,
    signpost: PathBuf,
    components: PathBuf,
    /// By whom they are for.
    kubeconfigs: BTreeMap<String, String>,
}

/// Where a guest is, and what of it is outside.
pub(crate) struct Place<'a> {
    pub(crate) outer: &'a Lab,
    /// Its network.
    pub(crate) control: &'a Namespace,
    /// Where its kernel is kept.
    pub(crate) image: &'a Path,
    /// Where its own files are.
    pub(crate) directory: &'a Path,
}

/// Boots a guest and makes a cluster's nodes in it, but no kube-proxy yet.
pub(crate) fn boot(
    place: &Place<'_>,
    topology: &Topology,
    signpost: &Path,
    components: &Components,
) -> Result<Vm, Error> {
    let files = Files::of(place.outer);
    let server = vm::Server::this_program(SERVE)?;
    let mut options = vm::Options::new(place.directory.to_owned(), server);
    options.memory_mib = MEMORY_MIB;
    options.namespace = Some(Namespace::open(place.control.name())?);
    let image = vm::Image::prepare(place.image)?;
    let guest = Vm::boot(&image, options)?;
    let names = topology.nodes.iter().map(|n| format!("node-{}", n.name));
    let mut kubeconfigs = BTreeMap::new();
    for of in names.chain(["admin".to_owned(), "kube-proxy".to_owned()]) {
        let file = files.kubeconfig(&of);
        let text = std::fs::read_to_string(&file).at(|| file.display().to_string())?;
        // A second address of a node would be one more for NodePorts: its kube-proxy has a relay.
        let host = if of == "kube-proxy" { "127.0.0.1" } else { HOST };
        kubeconfigs.insert(of, redirected(&text, host));
    }
    let nodes = Nodes {
        lab: place.outer.name().to_string(),
        topology: topology.clone(),
        signpost: signpost.to_owned(),
        components: components.program().to_owned(),
        kubeconfigs,
    };
    let spec = serde_json::to_vec(&nodes).expect("names, numbers and paths are JSON");
    ask(&guest, &[NODES], &spec)?;
    Ok(guest)
}

/// Starts the kube-proxies of the guest's nodes.
pub(crate) fn start_proxies(
    guest: &Vm,
    lab: &LabName,
    components: &Components,
) -> Result<(), Error> {
    let program = components.program().display().to_string();
    ask(guest, &[PROXIES, &lab.to_string(), &program], &[]).map(|_| ())
}

/// Measures a recording there: the report, and whether it holds.
pub(crate) fn matrix(
    guest: &Vm,
    lab: &LabName,
    components: &Path,
    recording: Recording,
) -> Result<(String, bool), Error> {
    let components = components.display().to_string();
    let output = command(guest, &[MATRIX, &lab.to_string(), &components, recording.name()], &[])?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.code {
        0 => Ok((text, true)),
        _ if !text.is_empty() => Ok((text, false)),
        _ => Err(failed(MATRIX, &output)),
    }
}

/// What a program prints there, or why it failed.
pub(crate) fn output(guest: &Vm, argv: &[&str]) -> String {
    match guest.run(argv, &[]) {
        Ok(Output { code: 0, stdout, .. }) => String::from_utf8_lossy(&stdout).into_owned(),
        Ok(Output { stderr, .. }) => String::from_utf8_lossy(&stderr).into_owned(),
        Err(error) => format!("{error}\n"),
    }
}

fn ask(guest: &Vm, arguments: &[&str], stdin: &[u8]) -> Result<Output, Error> {
    let output = command(guest, arguments, stdin)?;
    if output.code == 0 { Ok(output) } else { Err(failed(arguments[0], &output)) }
}

fn command(guest: &Vm, arguments: &[&str], stdin: &[u8]) -> Result<Output, Error> {
    let program = std::env::current_exe().at(|| "the path of this program".to_owned())?;
    let program = program.display().to_string();
    let argv: Vec<&str> = [program.as_str()].into_iter().chain(arguments.iter().copied()).collect();
    Ok(guest.run(&argv, stdin)?)
}

fn failed(verb: &str, output: &Output) -> Error {
    Error::Command {
        command: format!("{verb}, in the guest"),
        message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    }
}

/// A kubeconfig for another address of the API server.
fn redirected(kubeconfig: &str, host: &str) -> String {
    let line = |line: &str| match line.split_once("server: ") {
        Some((before, _)) => format!("{before}server: https://{host}:{API_PORT}\n"),
        None => format!("{line}\n"),
    };
    kubeconfig.lines().map(line).collect()
}

/// What the program is asked to do in a guest; nothing if its arguments are for itself.
pub fn run(arguments: &[OsString]) -> Option<Result<ExitCode, Error>> {
    let (verb, rest) = arguments.split_first()?;
    let words: Vec<&str> = rest.iter().filter_map(|word| word.to_str()).collect();
    let done = |()| ExitCode::SUCCESS;
    Some(match (verb.to_str()?, &words[..]) {
        (SERVE, _) => vm::serve(rest).map(done).map_err(Error::from),
        (NODES, []) => make_nodes().map(done),
        (PROXIES, [lab, components]) => make_proxies(lab, Path::new(components)).map(done),
        (MATRIX, [lab, components, recording]) => measure(lab, Path::new(components), recording),
        _ => return None,
    })
}

fn make_nodes() -> Result<(), Error> {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).at(|| "standard input".to_owned())?;
    let spec: Nodes = serde_json::from_slice(&text).map_err(|e| Error::Data(e.to_string()))?;
    let root = root_namespace()?;
    let options = signpost_lab::Options {
        program: spec.signpost.clone(),
        agents: false,
        agent_args: Vec::new(),
    };
    let lab = Lab::up(&spec.lab.parse()?, spec.topology, options)?;
    let files = Files::of(&lab);
    files.make()?;
    for (of, text) in &spec.kubeconfigs {
        let file = files.kubeconfig(of);
        std::fs::write(&file, text).at(|| file.display().to_string())?;
    }
    let components = Components::at(spec.components);
    for node in &lab.topology().nodes {
        let netns = format!("/run/netns/{}", lab.name().namespace(&node.name));
        let (listen, to) = (format!("127.0.0.1:{API_PORT}"), format!("{HOST}:{API_PORT}"));
        let args = ["relay", "--listen", &listen, "--netns", &netns, "--to", &to];
        let log = files.log(&format!("relay-{}", node.name));
        reap(root.start(components.program(), &args.map(str::to_owned), &log)?);
    }
    nodes::start_stand_ins(&lab, &components, &spec.signpost, &root, &format!("{HOST}:{API_PORT}"))
}

fn make_proxies(lab: &str, components: &Path) -> Result<(), Error> {
    let lab = Lab::attach(&lab.parse()?)?;
    nodes::start_proxies(&lab, &Components::at(components.to_owned()), Mode::Ipvs)
}

fn measure(lab: &str, components: &Path, recording: &str) -> Result<ExitCode, Error> {
    let known = || Recording::ALL.into_iter().find(|r| r.name() == recording);
    let recording = known().ok_or_else(|| Error::Data(format!("no recording {recording}")))?;
    let lab = Lab::attach(&lab.parse()?)?;
    let config = Files::of(&lab).kubeconfig("admin").display().to_string();
    let program = components.display().to_string();
    let root = root_namespace()?;
    let kubectl = |args: &[&str], stdin: &str| {
        let all: Vec<&str> =
            ["kubectl", "--kubeconfig", &config].into_iter().chain(args.iter().copied()).collect();
        Ok(root.command(&program, &all, stdin)?)
    };
    let report = truth::run(&lab, &kubectl, recording)?;
    let mut out = std::io::stdout().lock();
    std::io::Write::write_all(&mut out, report.text().as_bytes())
        .at(|| "standard output".to_owned())?;
    Ok(if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The guest's own network namespace, by a name.
fn root_namespace() -> Result<Namespace, Error> {
    if let Ok(known) = Namespace::open(ROOT) {
        return Ok(known);
    }
    let fault =
        |message: String| Error::Command { command: format!("ip netns attach {ROOT} 1"), message };
    let output = Command::new("ip")
        .args(["netns", "attach", ROOT, "1"])
        .output()
        .map_err(|e| fault(e.to_string()))?;
    if !output.status.success() {
        return Err(fault(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(Namespace::open(ROOT)?)
}

#[cfg(test)]
mod tests {
    use super::redirected;

    #[test]
    fn a_kubeconfig_keeps_all_but_the_server() {
        let text = "clusters:\n- cluster:\n    server: https://198.18.255.1:6443\n  name: x\n";
        let to = redirected(text, "10.0.2.2");
        assert_eq!(to, text.replace("198.18.255.1", "10.0.2.2"));
    }
}
