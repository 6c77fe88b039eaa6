//! A lab that is up: built, found again, ended.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::At;
use crate::{Error, LabName, Namespace, Topology, manifest, namespace, process, wiring};

/// The port that every pod serves.
pub const POD_PORT: u16 = 8080;

/// How often [`Lab::wait_until`] looks.
const LOOK: Duration = Duration::from_millis(2);

/// What runs in a lab besides the pods.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `signpost` binary: its pods and agents are run from it.
    pub program: PathBuf,
    /// Whether each node gets an agent.
    pub agents: bool,
    /// More arguments for the agents.
    pub agent_args: Vec<String>,
}

/// A lab that is up.
#[derive(Debug, Serialize, Deserialize)]
pub struct Lab {
    name: String,
    topology: Topology,
    pub(crate) program: PathBuf,
    pub(crate) agent_args: Vec<String>,
    /// The process of each node's agent.
    pub(crate) agents: BTreeMap<String, u32>,
    /// Faults that are in force, as `KIND NODE`.
    pub(crate) faults: BTreeSet<String>,
}

impl Lab {
    /// Builds one and starts its pods and agents. On failure nothing is left.
    pub fn up(name: &LabName, topology: Topology, options: Options) -> Result<Self, Error> {
        root()?;
        if name.directory().exists() || !namespace::with_prefix(&name.prefix()).is_empty() {
            return Err(Error::Exists(name.to_string()));
        }
        let lab = Self::build(name, topology, options);
        if lab.is_err() {
            down(name)?;
        }
        lab
    }

    fn build(name: &LabName, topology: Topology, options: Options) -> Result<Self, Error> {
        let topology = topology.checked()?;
        let mut lab = Self {
            name: name.to_string(),
            topology,
            program: options.program,
            agent_args: options.agent_args,
            agents: BTreeMap::new(),
            faults: BTreeSet::new(),
        };
        let folder = lab.manifests();
        std::fs::create_dir_all(&folder).at(|| folder.display().to_string())?;
        write_key(&lab.mesh_key())?;
        lab.save()?;
        for (file, yaml) in manifest::of_topology(&lab.topology) {
            lab.write_manifest(&file, &yaml)?;
        }
        wiring::wire(name, &lab.topology)?;
        let pods: Vec<String> = lab.pods().map(|(_, p)| p.to_owned()).collect();
        lab.start_pods(&pods)?;
        if options.agents {
            let nodes: Vec<String> = lab.topology.nodes.iter().map(|n| n.name.clone()).collect();
            lab.start_agents(&nodes)?;
        }
        Ok(lab)
    }

    /// Finds one that is up.
    pub fn attach(name: &LabName) -> Result<Self, Error> {
        root()?;
        let file = state_file(name);
        let text = std::fs::read_to_string(&file).map_err(|_| Error::Missing(name.to_string()))?;
        serde_json::from_str(&text)
            .map_err(|e| Error::Data(format!("{}: {e}: end the lab", file.display())))
    }

    /// Ends it.
    pub fn down(self) -> Result<(), Error> {
        down(&self.name()).map(|_| ())
    }

    /// Its name.
    pub fn name(&self) -> LabName {
        self.name.parse().expect("checked when it was built")
    }

    /// What it consists of.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Where its state, logs, sockets and manifests are.
    pub fn directory(&self) -> PathBuf {
        self.name().directory()
    }

    /// The directory that all its agents follow.
    pub fn manifests(&self) -> PathBuf {
        self.directory().join("manifests")
    }

    /// The key file of its agents' mesh.
    pub fn mesh_key(&self) -> PathBuf {
        self.directory().join("mesh.key")
    }

    /// A node by its name.
    pub fn node(&self, name: &str) -> Result<&crate::topology::Node, Error> {
        self.topology.node(name).ok_or_else(|| {
            let known = self.topology.nodes.iter().map(|n| n.name.as_str());
            self.unknown(&format!("node {name}"), known)
        })
    }

    /// The namespace of a node, pod, client, of the router, the switch or the control plane.
    pub fn namespace(&self, member: &str) -> Result<Namespace, Error> {
        let members = self.topology.members();
        let added = self.added_pods();
        if !members.contains(&member) && !added.iter().any(|pod| pod == member) {
            let known = members.into_iter().chain(added.iter().map(String::as_str));
            return Err(self.unknown(&format!("member {member}"), known));
        }
        Namespace::open(&self.name().namespace(member))
    }

    /// The process of a node's agent.
    pub fn agent_process(&self, node: &str) -> Option<u32> {
        self.agents.get(node).copied()
    }

    /// Writes a manifest as an editor does: a new file, renamed over the old one.
    pub fn write_manifest(&self, file: &str, yaml: &str) -> Result<(), Error> {
        let target = self.manifests().join(file);
        let fresh = self.manifests().join(format!(".{file}.new"));
        std::fs::write(&fresh, yaml).at(|| fresh.display().to_string())?;
        std::fs::rename(&fresh, &target).at(|| target.display().to_string())
    }

    /// Removes a manifest.
    pub fn remove_manifest(&self, file: &str) -> Result<(), Error> {
        let target = self.manifests().join(file);
        std::fs::remove_file(&target).at(|| target.display().to_string())
    }

    /// Looks until `seen` is true, and says how long it took.
    pub fn wait_until(
        &self,
        what: &str,
        deadline: Duration,
        mut seen: impl FnMut() -> bool,
    ) -> Result<Duration, Error> {
        let start = Instant::now();
        while !seen() {
            if start.elapsed() > deadline {
                return Err(Error::Deadline { what: what.to_owned(), seconds: deadline.as_secs() });
            }
            std::thread::sleep(LOOK);
        }
        Ok(start.elapsed())
    }

    /// Starts the servers of these pods and waits until they listen.
    pub fn start_pods(&self, pods: &[String]) -> Result<(), Error> {
        let mut started: Vec<(&String, Child)> = Vec::new();
        for pod in pods {
            let Some((node, _)) = self.topology.pod(pod) else {
                let known = self.pods().map(|(_, p)| p);
                return Err(self.unknown(&format!("pod {pod}"), known));
            };
            started.push((pod, self.spawn_server(pod, &node.name, pod, &[POD_PORT])?));
        }
        started.into_iter().try_for_each(|(pod, child)| await_server(pod, child))
    }

    /// Starts a server in the namespace of a member, which answers as `says`.
    pub(crate) fn spawn_server(
        &self,
        member: &str,
        node: &str,
        says: &str,
        ports: &[u16],
    ) -> Result<Child, Error> {
        let mut args = ["lab", "pod", says, "--node", node].map(str::to_owned).to_vec();
        args.extend(ports.iter().flat_map(|p| ["--port".to_owned(), p.to_string()]));
        process::start(&self.namespace(member)?, &self.program, &args, None)
    }

    /// Ends the servers of a pod.
    pub fn stop_pod(&self, pod: &str) -> Result<(), Error> {
        process::end(&BTreeSet::from([self.namespace(pod)?.inode()?]))
    }

    /// Every pod, after its node.
    pub fn pods(&self) -> impl Iterator<Item = (&str, &str)> {
        self.topology
            .nodes
            .iter()
            .flat_map(|n| n.pods.iter().map(|p| (n.name.as_str(), p.name.as_str())))
    }

    pub(crate) fn save(&self) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).expect("names and numbers are JSON");
        let file = state_file(&self.name());
        std::fs::write(&file, text).at(|| file.display().to_string())
    }

    pub(crate) fn unknown<'a>(&self, what: &str, known: impl Iterator<Item = &'a str>) -> Error {
        Error::Unknown {
            lab: self.name.clone(),
            what: what.to_owned(),
            known: known.collect::<Vec<_>>().join(", "),
        }
    }
}

/// Waits until a server listens.
pub(crate) fn await_server(pod: &str, mut child: Child) -> Result<(), Error> {
    listens(pod, &mut child)?;
    std::thread::spawn(move || child.wait());
    Ok(())
}

/// The same, for a server that its caller ends.
pub(crate) fn listens(pod: &str, child: &mut Child) -> Result<(), Error> {
    let mut word = [0; 1];
    let pipe = child.stdout.as_mut().expect("started with a pipe");
    std::io::Read::read_exact(pipe, &mut word).at(|| format!("pod {pod} ended before it served"))
}

/// Ends a lab by its name, also what a crash left of it. True if there was anything.
pub fn down(name: &LabName) -> Result<bool, Error> {
    root()?;
    let names = namespace::with_prefix(&name.prefix());
    let mut inodes = BTreeSet::new();
    for ns in &names {
        // A name without a namespace behind it is left by a crash while it was made.
        if let Ok(inode) = Namespace::open(ns).and_then(|n| n.inode()) {
            inodes.insert(inode);
        }
    }
    process::end(&inodes)?;
    if !names.is_empty() {
        namespace::change("del", &names)?;
    }
    let folder = name.directory();
    let there = folder.exists();
    if there {
        std::fs::remove_dir_all(&folder).at(|| folder.display().to_string())?;
    }
    Ok(there || !names.is_empty())
}

/// Whether this process may make namespaces.
pub fn root() -> Result<(), Error> {
    if nix::unistd::geteuid().is_root() { Ok(()) } else { Err(Error::NotRoot) }
}

fn state_file(name: &LabName) -> PathBuf {
    name.directory().join("state.json")
}

/// A fresh key, readable by root only.
fn write_key(file: &Path) -> Result<(), Error> {
    use std::fmt::Write as _;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut random = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut f| f.read_exact(&mut random))
        .at(|| "/dev/urandom".to_owned())?;
    let mut text = String::new();
    for byte in random {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    std::fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .and_then(|mut f| f.write_all(text.as_bytes()))
        .at(|| file.display().to_string())
}
