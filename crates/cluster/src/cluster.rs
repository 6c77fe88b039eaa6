//! A cluster that is up: built, found again, ended.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use signpost_lab::{Lab, LabName, Topology, topology};

use crate::control::{self, API_PORT, Files};
use crate::error::At;
use crate::truth::{self, Recording};
use crate::vm::Vm;
use crate::{Components, Error, Mode, guest, nodes};

/// A stand-in writes its Node within a second, in a busy guest within a minute.
const NODES: Duration = Duration::from_secs(120);

/// What a cluster consists of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kube-proxy.
    pub mode: Mode,
    /// Nodes, clients, router.
    pub topology: Topology,
    /// The `signpost` binary: servers of pods, and Pods of ours, run it.
    pub signpost: PathBuf,
    /// Everything else.
    pub components: Components,
    /// Where the kernel for IPVS mode is kept.
    pub image: PathBuf,
}

/// A cluster that is up.
#[derive(Debug)]
pub struct Cluster {
    /// In IPVS mode only the control plane.
    lab: Lab,
    /// Where the nodes are in IPVS mode.
    guest: Option<Vm>,
    state: State,
}

/// What another process needs to find it again.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    mode: Mode,
    program: PathBuf,
    topology: Topology,
    /// The guest's directory: where it can be seen from the guest, as the lab's cannot.
    guest: PathBuf,
}

impl Cluster {
    /// Builds one. On failure nothing is left but what the error names.
    pub fn up(name: &LabName, options: Options) -> Result<Self, Error> {
        let outside = match options.mode {
            Mode::Ipvs => options.topology.clone().emptied(),
            Mode::Nftables | Mode::Iptables | Mode::None => options.topology.clone(),
        };
        let taken = |e| match e {
            signpost_lab::Error::Exists(name) => Error::Exists(name),
            other => other.into(),
        };
        let lab = Lab::up(
            name,
            outside.with_control(),
            signpost_lab::Options {
                program: options.signpost.clone(),
                agents: false,
                agent_args: Vec::new(),
            },
        )
        .map_err(taken)?;
        let cluster = Self::build(lab, &options);
        if let Err(error) = cluster {
            let error = keep_log(name, &options.image, error);
            down(name)?;
            return Err(error);
        }
        cluster
    }

    fn build(lab: Lab, options: &Options) -> Result<Self, Error> {
        let Options { mode, topology, signpost, components, image } = options;
        let control = lab.topology().control.clone().expect("asked for by `up`");
        let nodes: Vec<String> = topology.nodes.iter().map(|n| n.name.clone()).collect();
        let directory = image.join(lab.name().to_string());
        // First of all: whoever ends what a crash leaves has to know of it.
        let state = State {
            mode: *mode,
            program: components.program().to_owned(),
            topology: topology.clone(),
            guest: directory,
        };
        state.save(&lab)?;
        control::start(&lab, components, control.address, &nodes)?;
        let from = lab.namespace(topology::CONTROL)?;
        let guest = if *mode == Mode::Ipvs {
            let place =
                guest::Place { outer: &lab, control: &from, image, directory: &state.guest };
            Some(guest::boot(&place, topology, signpost, components)?)
        } else {
            let at = format!("{}:{API_PORT}", control.address);
            nodes::start_stand_ins(&lab, components, signpost, &from, &at)?;
            None
        };
        let cluster = Self { lab, guest, state };
        cluster.lab.wait_until("every Node is registered", NODES, || {
            cluster
                .kubectl(&["get", "nodes", "-o", "name"])
                .is_ok_and(|names| names.lines().count() == nodes.len())
        })?;
        match &cluster.guest {
            Some(guest) => guest::start_proxies(guest, &cluster.lab.name(), components)?,
            None => nodes::start_proxies(&cluster.lab, components, *mode)?,
        }
        Ok(cluster)
    }

    /// Finds one that is up.
    pub fn attach(name: &LabName) -> Result<Self, Error> {
        let lab = Lab::attach(name).map_err(|e| match e {
            signpost_lab::Error::Missing(name) => Error::Missing(name),
            other => other.into(),
        })?;
        let state = State::of(&lab)?;
        let guest = match state.mode {
            Mode::Ipvs => Some(Vm::attach(&state.guest)?),
            Mode::Nftables | Mode::Iptables | Mode::None => None,
        };
        Ok(Self { lab, guest, state })
    }

    /// Ends it: every process, namespace and file.
    pub fn down(self) -> Result<(), Error> {
        down(&self.lab.name()).map(|_| ())
    }

    /// Its namespaces on this machine: all, or in IPVS mode the control plane's.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Its nodes, clients and router, wherever they are.
    pub fn topology(&self) -> &Topology {
        &self.state.topology
    }

    /// Its kube-proxy.
    pub fn mode(&self) -> Mode {
        self.state.mode
    }

    /// The administrator's kubeconfig, for programs in the control plane's namespace or a node's.
    pub fn kubeconfig(&self) -> PathBuf {
        Files::of(&self.lab).kubeconfig("admin")
    }

    /// Who has a log: the components, and Pods of ours as `NODE/NAMESPACE_POD_CONTAINER`. In order.
    pub fn logs(&self) -> Result<Vec<String>, Error> {
        let files = Files::of(&self.lab);
        let mut names = logs_in(&files.logs());
        for node in &self.state.topology.nodes {
            let of_node = logs_in(&files.pod_logs(&node.name));
            names.extend(of_node.iter().map(|log| format!("{}/{log}", node.name)));
        }
        if let Some(guest) = &self.guest {
            let listed = guest::output(guest, &["ls", &files.logs().display().to_string()]);
            names.extend(listed.lines().filter_map(of_log));
        }
        names.sort();
        Ok(names)
    }

    /// What one of them wrote.
    pub fn log(&self, of: &str) -> Result<String, Error> {
        let files = Files::of(&self.lab);
        let file = match of.split_once('/') {
            Some((node, pod)) => files.pod_logs(node).join(format!("{pod}.log")),
            None => files.log(of),
        };
        match &self.guest {
            Some(guest) if !file.exists() => {
                Ok(guest::output(guest, &["cat", &file.display().to_string()]))
            }
            Some(_) | None => std::fs::read_to_string(&file).at(|| file.display().to_string()),
        }
    }

    /// Runs kubectl as the administrator and returns what it printed.
    pub fn kubectl(&self, args: &[&str]) -> Result<String, Error> {
        self.kubectl_with(args, "")
    }

    /// The same, with something to read.
    pub fn kubectl_with(&self, args: &[&str], stdin: &str) -> Result<String, Error> {
        let config = self.kubeconfig().display().to_string();
        let all: Vec<&str> =
            ["kubectl", "--kubeconfig", &config].into_iter().chain(args.iter().copied()).collect();
        let program = self.state.program.display().to_string();
        Ok(self.lab.namespace(topology::CONTROL)?.command(&program, &all, stdin)?)
    }

    /// Measures what every sender gets, beside what a recording of this mode has: the report, and
    /// whether they agree.
    pub fn matrix(&self, recording: Recording) -> Result<(String, bool), Error> {
        if let Some(guest) = &self.guest {
            return guest::matrix(guest, &self.lab.name(), &self.state.program, recording);
        }
        let kubectl = |args: &[&str], stdin: &str| Ok(self.kubectl_with(args, stdin)?);
        let report = truth::run(&self.lab, &kubectl, recording)?;
        Ok((report.text(), report.holds()))
    }

    /// What a command prints in the namespace of a member: its output, or why it failed.
    pub(crate) fn output(&self, member: &str, command: &[&str]) -> String {
        // `ip` names the namespace at a cable's other end, which no node of a person has.
        let alone = "mount -t tmpfs none /run/netns && exec \"$@\"";
        let all: Vec<&str> = ["--mount", "sh", "-c", alone, "sh"]
            .into_iter()
            .chain(command.iter().copied())
            .collect();
        if let Some(guest) = self.guest_of(member) {
            let netns = self.lab.name().namespace(member);
            let there = ["ip", "netns", "exec", &netns, "unshare"];
            return guest::output(guest, &[&there[..], &all].concat());
        }
        let run = |ns: signpost_lab::Namespace| ns.command("unshare", &all, "");
        match self.lab.namespace(member).and_then(run) {
            Ok(text) => text,
            Err(signpost_lab::Error::Command { message, .. }) => message + "\n",
            Err(error) => format!("{error}\n"),
        }
    }

    /// The guest, if the member is there.
    fn guest_of(&self, member: &str) -> Option<&Vm> {
        self.guest.as_ref().filter(|_| member != topology::CONTROL)
    }

    /// Runs a command in the namespace of a member with this program's own input and output.
    pub fn run_here(&self, words: &[String]) -> Result<ExitStatus, Error> {
        let [member, program, args @ ..] = words else {
            return Err(Error::Data("a member and a command are needed".to_owned()));
        };
        if self.guest_of(member).is_some() {
            let message = "in IPVS mode the nodes are in a guest, where no terminal is; \
                           `snapshot` shows their state";
            return Err(Error::Command { command: words.join(" "), message: message.to_owned() });
        }
        let mut command = Command::new(program);
        command.args(args);
        self.lab.namespace(member)?.run(|| command.status())?.at(|| program.clone())
    }

    /// Runs kubectl as the administrator with this program's own input and output.
    pub fn kubectl_here(&self, args: &[String]) -> Result<ExitStatus, Error> {
        let mut command = Command::new(&self.state.program);
        command.arg("kubectl").arg("--kubeconfig").arg(self.kubeconfig()).args(args);
        let ns = self.lab.namespace(topology::CONTROL)?;
        ns.run(|| command.status())?.at(|| "kubectl".to_owned())
    }
}

/// The logs in a folder, if it is there.
fn logs_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| of_log(e.file_name().to_str()?)).collect()
}

fn of_log(file: &str) -> Option<String> {
    Some(file.strip_suffix(".log")?.to_owned())
}

impl State {
    fn of(lab: &Lab) -> Result<Self, Error> {
        let file = Self::file(lab);
        let text = std::fs::read_to_string(&file).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Error::Plain(lab.name().to_string()),
            _ => Error::Io { what: file.display().to_string(), cause: e },
        })?;
        serde_json::from_str(&text)
            .map_err(|e| Error::Data(format!("{}: {e}: end the cluster", file.display())))
    }

    fn save(&self, lab: &Lab) -> Result<(), Error> {
        let files = Files::of(lab);
        files.make()?;
        let file = Self::file(lab);
        let text = serde_json::to_string(self).expect("words and paths are JSON");
        std::fs::write(&file, text).at(|| file.display().to_string())
    }

    fn file(lab: &Lab) -> PathBuf {
        Files::of(lab).folder().join("state.json")
    }
}

/// Ends a cluster by its name, also what a crash left of it. True if there was anything.
pub fn down(name: &LabName) -> Result<bool, Error> {
    let guest = match Lab::attach(name).map_err(Error::from).and_then(|lab| State::of(&lab)) {
        Ok(state) => Some(state.guest),
        // Somebody's lab is not for us to end.
        Err(plain @ Error::Plain(_)) => return Err(plain),
        // What runs is in its namespaces, also when its files are not whole.
        Err(_) => None,
    };
    let was = signpost_lab::down(name)?;
    // The guest went with the namespace that it was in.
    if let Some(directory) = guest.filter(|d| d.exists()) {
        std::fs::remove_dir_all(&directory).at(|| directory.display().to_string())?;
    }
    Ok(was)
}

/// The directory goes; the log that tells why it failed stays, beside what is kept for clusters.
fn keep_log(name: &LabName, image: &Path, error: Error) -> Error {
    let Error::Component { component, message, log } = error else { return error };
    let kept = image.with_file_name(format!("failed-{name}-{component}.log"));
    let log = if std::fs::copy(&log, &kept).is_ok() { kept } else { log };
    Error::Component { component, message, log }
}
