//! What can be done to a node, and undone.

use std::fmt;
use std::str::FromStr;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::topology::SWITCH;
use crate::wiring::port;
use crate::{Error, Lab};

/// A fault of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The cable is pulled: the node sees that its carrier is gone.
    Link,
    /// The switch forwards nothing on the node's port: the node keeps its carrier.
    SwitchPort,
    /// The agent is killed.
    Kill,
    /// The agent is stopped (SIGSTOP); undone by SIGCONT.
    Stop,
    /// Somebody flushes all rules of the node's kernel.
    Flush,
    /// The agent's writer to the kernel is held.
    HoldWrites,
    /// The agent's control loop hangs.
    HangControl,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Link,
        Self::SwitchPort,
        Self::Kill,
        Self::Stop,
        Self::Flush,
        Self::HoldWrites,
        Self::HangControl,
    ];

    /// What one calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::SwitchPort => "switch-port",
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Flush => "flush",
            Self::HoldWrites => "hold-writes",
            Self::HangControl => "hang-control",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|f| f.word() == s)
            .ok_or_else(|| format!("{s:?} is none of {}", Self::ALL.map(Self::word).join(", ")))
    }
}

impl Lab {
    /// Does it.
    pub fn fault(&mut self, fault: Fault, node: &str) -> Result<(), Error> {
        self.node(node)?;
        match fault {
            Fault::Link => self.switch(&format!("link set {} down\n", port(node)))?,
            Fault::SwitchPort => self.switch(&format!("link set {} nomaster\n", port(node)))?,
            Fault::Kill => self.end_agent(node, Signal::SIGKILL)?,
            Fault::Stop => self.signal(node, Signal::SIGSTOP)?,
            Fault::Flush => {
                return self.namespace(node)?.command("nft", &["flush", "ruleset"], "").map(|_| ());
            }
            Fault::HoldWrites => self.tell(node, "hold-writes")?,
            Fault::HangControl => self.tell(node, "hang-control")?,
        }
        self.faults.insert(format!("{fault} {node}"));
        self.save()
    }

    /// Undoes it.
    pub fn mend(&mut self, fault: Fault, node: &str) -> Result<(), Error> {
        self.node(node)?;
        match fault {
            Fault::Link => self.switch(&format!("link set {} up\n", port(node)))?,
            Fault::SwitchPort => {
                self.switch(&format!("link set {} master br0\n", port(node)))?;
            }
            Fault::Kill => self.start_agents(&[node.to_owned()])?,
            Fault::Stop => self.signal(node, Signal::SIGCONT)?,
            // The agent mends it itself.
            Fault::Flush => {}
            Fault::HoldWrites => self.tell(node, "release-writes")?,
            Fault::HangControl => self.tell(node, "release-control")?,
        }
        self.faults.remove(&format!("{fault} {node}"));
        self.save()
    }

    /// The faults in force, as `KIND NODE`.
    pub fn faults(&self) -> impl Iterator<Item = &str> {
        self.faults.iter().map(String::as_str)
    }

    /// Sends a signal to the agent of a node.
    pub fn signal(&self, node: &str, signal: Signal) -> Result<(), Error> {
        let process = self.live_agent(node).ok_or_else(|| Error::Agent {
            node: node.to_owned(),
            message: "it does not run: `signpost lab fault kill --undo` starts it".to_owned(),
            log: self.log(node),
        })?;
        kill(process, signal).map_err(|e| Error::Io {
            what: format!("{signal} to process {process}"),
            cause: e.into(),
        })
    }

    fn switch(&self, lines: &str) -> Result<(), Error> {
        self.namespace(SWITCH)?.ip(lines)
    }

    fn tell(&self, node: &str, fault: &str) -> Result<(), Error> {
        self.ask(node, &json!({"request": "fault", "fault": fault})).map(|_| ())
    }

    /// Only a process inside the node's namespace is its agent: numbers are used again.
    pub(crate) fn live_agent(&self, node: &str) -> Option<Pid> {
        let pid = Pid::from_raw(i32::try_from(self.agent_process(node)?).ok()?);
        let inode = self.namespace(node).ok()?.inode().ok()?;
        crate::process::inside(&[inode].into()).contains(&pid).then_some(pid)
    }
}
