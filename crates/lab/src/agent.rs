//! The agents of a lab's nodes, and how one talks to them.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::error::At;
use crate::{Error, Lab, Namespace, process};

/// An agent answers from memory. A longer silence means that it hangs.
const ANSWER: Duration = Duration::from_secs(5);

/// An agent that did not answer by then will not.
const READY: Duration = Duration::from_secs(10);

/// How often the socket is tried while an agent starts.
const TRY: Duration = Duration::from_millis(2);

impl Lab {
    /// Starts the agents of these nodes, and waits until each answers. None starts if one of them
    /// runs already.
    pub fn start_agents(&mut self, nodes: &[String]) -> Result<(), Error> {
        for node in nodes {
            self.refuse_second(node)?;
        }
        let mut children = Vec::new();
        for node in nodes {
            let folder = self.directory().join(node);
            std::fs::create_dir_all(&folder).at(|| folder.display().to_string())?;
            let socket = self.socket(node);
            // What a killed agent leaves.
            let _ = std::fs::remove_file(&socket);
            let ns = Namespace::open(&self.name().namespace(node))?;
            let child =
                process::start(&ns, &self.program, &self.arguments(node), Some(&self.log(node)))?;
            self.agents.insert(node.clone(), child.id());
            children.push((node, child));
        }
        self.save()?;
        let deadline = Instant::now() + READY;
        for (node, mut child) in children {
            loop {
                // First: another's answer would be taken for this one's.
                if let Some(status) = child.try_wait().at(|| format!("the agent of {node}"))? {
                    return Err(self.agent_fault(node, format!("it ended with {status}")));
                }
                if self.status(node).is_ok() {
                    break;
                }
                if Instant::now() > deadline {
                    let message = format!("no answer within {} s", READY.as_secs());
                    return Err(self.agent_fault(node, message));
                }
                std::thread::sleep(TRY);
            }
            // Whoever started it reaps it; it is ended through its namespace, not as a child.
            std::thread::spawn(move || child.wait());
        }
        Ok(())
    }

    /// Ends the agent of a node as `systemctl restart` does, and starts it with more arguments.
    pub fn restart_agent(&mut self, node: &str, more: &[String]) -> Result<(), Error> {
        self.end_agent(node, Signal::SIGTERM)?;
        let usual = self.agent_args.len();
        self.agent_args.extend_from_slice(more);
        let started = self.start_agents(&[node.to_owned()]);
        self.agent_args.truncate(usual);
        started
    }

    /// Ends the agent of a node, and waits until it has ended.
    pub(crate) fn end_agent(&self, node: &str, signal: Signal) -> Result<(), Error> {
        self.signal(node, signal)?;
        let ended = || self.live_agent(node).is_none() && !self.listens(node);
        self.wait_until(&format!("the agent of {node} ends"), READY, ended).map(|_| ())
    }

    /// Whether a process has the agent's socket. The threads of one that was killed have it for a
    /// moment longer than `/proc` shows their namespace.
    fn listens(&self, node: &str) -> bool {
        UnixStream::connect(self.socket(node)).is_ok()
    }

    /// Refuses where an agent runs: one of ours, or whoever listens at its socket.
    fn refuse_second(&self, node: &str) -> Result<(), Error> {
        let message = match self.live_agent(node) {
            Some(process) => format!(
                "it runs already (process {process}): `signpost lab fault kill {node} --name {}` \
                 ends it",
                self.name()
            ),
            None if self.listens(node) => format!(
                "a process that this lab did not start listens at {}: end it first",
                self.socket(node).display()
            ),
            None => return Ok(()),
        };
        Err(Error::Agent { node: node.to_owned(), message, log: self.log(node) })
    }

    /// Asks the agent of a node one thing.
    pub fn ask(&self, node: &str, request: &Value) -> Result<Value, Error> {
        let fault = |m: String| self.agent_fault(node, m);
        let answer = exchange(&self.socket(node), request).map_err(|e| fault(e.to_string()))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(fault(error.to_owned())),
            None => Ok(answer),
        }
    }

    /// What the agent of a node says about itself.
    pub fn status(&self, node: &str) -> Result<Value, Error> {
        self.ask(node, &json!({"request": "status"}))
    }

    /// The agent's UNIX socket.
    pub fn socket(&self, node: &str) -> PathBuf {
        self.directory().join(node).join("agent.sock")
    }

    /// The agent's output.
    pub fn log(&self, node: &str) -> PathBuf {
        self.directory().join(node).join("agent.log")
    }

    fn arguments(&self, node: &str) -> Vec<String> {
        let shown = |p: PathBuf| p.display().to_string();
        let mut args = vec![
            "agent".to_owned(),
            "--source".to_owned(),
            format!("dir:{}", shown(self.manifests())),
            "--node".to_owned(),
            node.to_owned(),
            "--socket".to_owned(),
            shown(self.socket(node)),
            "--mesh-key".to_owned(),
            shown(self.mesh_key()),
            "--lab-faults".to_owned(),
        ];
        args.extend(self.agent_args.iter().cloned());
        args
    }

    fn agent_fault(&self, node: &str, message: String) -> Error {
        let log = self.log(node);
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let last = text.lines().rev().find(|l| !l.trim().is_empty());
        let message = last.map_or(message.clone(), |l| format!("{message}; it said: {l}"));
        Error::Agent { node: node.to_owned(), message, log }
    }
}

fn exchange(socket: &Path, request: &Value) -> std::io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}
