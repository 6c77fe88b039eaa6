//! A lab without agents, and agents that are started by hand in it.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use signpost_lab::manifest::{Policy, Service, State};
use signpost_lab::{LabName, Options, Scoped, Topology};

/// Longer than this nothing takes that works.
pub(crate) const SOON: Duration = Duration::from_secs(10);

pub(crate) const VIP: &str = "192.0.2.100";

pub(crate) struct Bed(Scoped);

/// A process that ends with the test.
pub(crate) struct Running(Child);

impl Bed {
    /// A lab in which `web` is served at [`VIP`] from node-a and node-b.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name: LabName = format!("c{}-{count}", std::process::id()).parse().unwrap();
        let options = Options { program: program(), agents: false, agent_args: Vec::new() };
        let bed = Self(Scoped::up(&name, Topology::default(), options).unwrap());
        bed.serve("web", VIP);
        bed
    }

    pub(crate) fn serve(&self, name: &str, address: &str) {
        let endpoints = vec![("a1", State::Ready), ("b1", State::Ready)];
        let address = address.parse().unwrap();
        let service = Service::balanced(name, address, Policy::Cluster, endpoints);
        self.write_manifest(&service.file(), &service.yaml(self.topology())).unwrap();
    }

    /// Starts an agent by hand.
    pub(crate) fn agent(&self, node: &str, more: &[&str]) -> Running {
        let folder = self.directory().join(node);
        std::fs::create_dir_all(&folder).unwrap();
        let log = std::fs::File::options().create(true).append(true).open(self.log(node)).unwrap();
        let mut command = Command::new(program());
        command.args(self.arguments(node)).args(more).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Running(self.namespace(node).unwrap().run(|| command.spawn()).unwrap().unwrap())
    }

    /// The agent's usual arguments on a node.
    pub(crate) fn arguments(&self, node: &str) -> Vec<String> {
        let text = |p: PathBuf| p.display().to_string();
        let source = format!("dir:{}", text(self.manifests()));
        let (socket, key) = (text(self.socket(node)), text(self.mesh_key()));
        let words = ["agent", "--node", node, "--source", &source, "--socket", &socket];
        words.into_iter().chain(["--mesh-key", &key]).map(str::to_owned).collect()
    }

    /// Starts one and waits until it owns the address.
    pub(crate) fn owner(&self, node: &str, more: &[&str]) -> Running {
        let agent = self.agent(node, more);
        self.until(node, "it owns the address", |s| address(s, VIP)["verdict"] == "own");
        agent
    }

    /// Runs signpost to its end in a node.
    pub(crate) fn signpost(&self, node: &str, args: &[&str]) -> Said {
        self.run(node, Command::new(program()).args(args))
    }

    /// The same with its usual arguments before.
    pub(crate) fn refused(&self, node: &str, more: &[&str]) -> String {
        let said = self.run(node, Command::new(program()).args(self.arguments(node)).args(more));
        said.refusal()
    }

    /// Runs a command to its end in a node; one that does not end fails the test.
    pub(crate) fn run(&self, node: &str, command: &mut Command) -> Said {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.namespace(node).unwrap().run(|| command.spawn()).unwrap().unwrap();
        let ended = self.wait_until("the command ends", SOON, || {
            child.try_wait().is_ok_and(|status| status.is_some())
        });
        if ended.is_err() {
            let _ = child.kill();
        }
        let said = Said(child.wait_with_output().unwrap());
        ended.unwrap_or_else(|e| panic!("{e}: {}", said.err()));
        said
    }

    pub(crate) fn until(&self, node: &str, what: &str, seen: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let done = self.wait_until(what, SOON, || {
            last = self.status(node).unwrap_or_default();
            seen(&last)
        });
        let log = std::fs::read_to_string(self.log(node)).unwrap_or_default();
        done.unwrap_or_else(|e| panic!("{node}: {e}: {last:#}\n{log}"));
        last
    }

    /// `nft list ruleset` in a node.
    pub(crate) fn rules(&self, node: &str) -> String {
        self.namespace(node).unwrap().command("nft", &["list", "ruleset"], "").unwrap()
    }

    /// The number of the last change of any rules in a node.
    pub(crate) fn generation(&self, node: &str) -> u32 {
        let ask = || signpost_netlink::nf_tables::Session::open().unwrap().generation().unwrap();
        self.namespace(node).unwrap().run(ask).unwrap()
    }
}

impl Deref for Bed {
    type Target = signpost_lab::Lab;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Running {
    /// Sends a signal and waits for the end.
    pub(crate) fn end(mut self, signal: Signal) {
        kill(Pid::from_raw(self.pid() as i32), signal).unwrap();
        self.0.wait().unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a command said.
pub(crate) struct Said(pub(crate) Output);

impl Said {
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    /// The one line by which it was refused.
    pub(crate) fn refusal(self) -> String {
        let said = self.err();
        let errors: Vec<_> = said.lines().filter(|l| l.starts_with("error: ")).collect();
        assert!(!self.0.status.success() && errors.len() == 1, "{said}");
        assert_eq!(said.lines().last(), Some(errors[0]), "one sentence, and nothing after it");
        errors[0].to_owned()
    }
}

pub(crate) fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_signpost"))
}

pub(crate) fn address(status: &Value, address: &str) -> Value {
    let all = status["addresses"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|a| a["address"] == address).unwrap_or_default()
}

pub(crate) fn member(status: &Value, name: &str) -> Value {
    let all = status["members"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|m| m["name"] == name).unwrap_or_default()
}

/// Every diagnostic, one a line.
pub(crate) fn diagnostics(status: &Value) -> String {
    let all = status["diagnostics"].as_array().cloned().unwrap_or_default();
    all.iter().filter_map(|d| Some(format!("{}\n", d["text"].as_str()?))).collect()
}

/// A key file with these permissions.
pub(crate) fn key(path: &Path, text: &str, mode: u32) -> String {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    path.display().to_string()
}
