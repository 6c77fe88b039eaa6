//! The outside thread: the source of objects, the UNIX socket for `status`, `drain` and the agent
//! that takes over, and health checks.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use super::control::Event;
use super::fault::Hang;
use super::health::{Health, Servers};
use super::inbox::{Inbox, Sender};
use super::request::{Fault, Request};
use crate::watch::SourceEvent;
use crate::watch::dir::Dir;

/// What control tells this thread.
pub(crate) enum Reply {
    /// The answer to a connection's request: one line.
    Line(Connection, String),
    /// The same, with descriptors for the agent that takes over; this process ends once they left.
    HandOver(Connection, String, Vec<OwnedFd>),
    /// How this node is, for health checks.
    Health(Health),
}

/// Which connection asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Connection(u64);

/// Whoever connected before a hand-over and has not asked by then asks the next agent.
const LAST_ORDERS: Duration = Duration::from_millis(100);

/// People and scripts. One more ends the oldest that we wait for; if all wait for us, itself.
const CONNECTIONS_MAX: usize = 64;

/// The status of thousands of addresses: worth giving its memory back.
const LARGE: usize = 1 << 20;

/// A request is one short line.
const REQUEST_MAX: usize = 4096;

pub(crate) struct Outside {
    pub(crate) dir: Dir,
    pub(crate) listener: UnixListener,
    pub(crate) inbox: Inbox<Reply>,
    pub(crate) control: Sender<Event>,
    pub(crate) hang: Arc<Hang>,
    pub(crate) health: Servers,
}

/// What the agent that takes over gets, once everybody before it was answered.
struct HandOver {
    to: Connection,
    line: String,
    fds: Vec<OwnedFd>,
    until: Instant,
}

struct Client {
    stream: UnixStream,
    request: Vec<u8>,
    reply: Vec<u8>,
    asked: bool,
}

impl Outside {
    /// Runs until the process ends.
    pub(crate) fn run(mut self) {
        let control = self.control.clone();
        let mut tell = |e| control.send(Event::Source(e));
        self.dir.scan(&mut tell);
        tell(SourceEvent::Diagnostics(self.dir.diagnostics()));
        match self.dir.emptiness() {
            Some(why) => tell(SourceEvent::Failed(why)),
            None => tell(SourceEvent::Complete),
        }
        super::process::give_back();
        let mut clients = BTreeMap::new();
        let mut next = 0;
        let mut leaving: Option<HandOver> = None;
        loop {
            let (dir, listener) = match self.wait(&clients, leaving.as_ref()) {
                Ok(ready) => ready,
                Err(e) => return tell(SourceEvent::Failed(format!("poll: {e}"))),
            };
            self.inbox.silence();
            while let Some(reply) = self.inbox.next() {
                match reply {
                    Reply::Line(to, line) => answer(&mut clients, to, line),
                    Reply::Health(health) => self.health.tell(health),
                    Reply::HandOver(to, line, fds) => {
                        let until = Instant::now() + LAST_ORDERS;
                        leaving.get_or_insert(HandOver { to, line, fds, until });
                    }
                }
            }
            let due = dir || self.dir.deadline().is_some_and(|d| d <= Instant::now());
            if due && self.dir.turn(&mut tell) {
                tell(SourceEvent::Diagnostics(self.dir.diagnostics()));
            }
            if listener && leaving.is_none() {
                self.accept(&mut clients, &mut next);
            }
            self.turn(&mut clients);
            self.health.turn();
            if let Some(order) = &leaving
                && (clients.keys().all(|c| *c == order.to) || order.until <= Instant::now())
            {
                order.obey(clients.get(&order.to));
            }
        }
    }

    /// Waits for something to do; says whether the directory and the listener are ready.
    fn wait(
        &self,
        clients: &BTreeMap<Connection, Client>,
        leaving: Option<&HandOver>,
    ) -> io::Result<(bool, bool)> {
        let own = self.dir.deadline().into_iter().chain(self.health.deadline());
        let deadline = own.chain(leaving.map(|l| l.until)).min();
        let timeout = deadline.map_or(PollTimeout::NONE, |d| {
            // Rounded up: an early turn would find nothing settled and turn again.
            let left = d.saturating_duration_since(Instant::now()).as_millis() + 1;
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        let mut fds = vec![
            PollFd::new(self.dir.as_fd(), PollFlags::POLLIN),
            // Who comes now is the next agent's.
            PollFd::new(
                self.listener.as_fd(),
                if leaving.is_none() { PollFlags::POLLIN } else { PollFlags::empty() },
            ),
            PollFd::new(self.inbox.as_fd(), PollFlags::POLLIN),
        ];
        let talking = clients.values().filter(|c| c.is_awaited());
        fds.extend(talking.map(|c| {
            let wanted = if c.reply.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLOUT };
            PollFd::new(c.stream.as_fd(), wanted)
        }));
        fds.extend(self.health.fds());
        match poll(&mut fds, timeout) {
            Ok(_) => Ok((fds[0].any().unwrap_or(true), fds[1].any().unwrap_or(true))),
            Err(nix::errno::Errno::EINTR) => Ok((false, false)),
            Err(e) => Err(e.into()),
        }
    }

    fn accept(&self, clients: &mut BTreeMap<Connection, Client>, next: &mut u64) {
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() || !self.make_room(clients) {
                continue;
            }
            *next += 1;
            let client = Client { stream, request: Vec::new(), reply: Vec::new(), asked: false };
            clients.insert(Connection(*next), client);
        }
    }

    /// Whether one more finds a place; if need be the oldest that we wait for loses its own.
    fn make_room(&self, clients: &mut BTreeMap<Connection, Client>) -> bool {
        if clients.len() >= CONNECTIONS_MAX {
            // Who has asked by now keeps its place.
            self.turn(clients);
        }
        if clients.len() >= CONNECTIONS_MAX
            && let Some(oldest) = clients.iter().find(|(_, c)| c.is_awaited()).map(|(id, _)| *id)
        {
            clients.remove(&oldest);
        }
        clients.len() < CONNECTIONS_MAX
    }

    fn turn(&self, clients: &mut BTreeMap<Connection, Client>) {
        clients.retain(|id, client| client.turn(*id, &self.control, &self.hang));
    }
}

impl Client {
    /// Whether its next move is the peer's: to ask, or to take its answer. Who waits for control's
    /// answer has nothing more to say.
    fn is_awaited(&self) -> bool {
        !self.asked || !self.reply.is_empty()
    }

    /// Moves bytes; `false` once the connection is over.
    fn turn(&mut self, id: Connection, control: &Sender<Event>, hang: &Hang) -> bool {
        if !self.reply.is_empty() {
            return match self.stream.write(&self.reply) {
                Ok(n) => {
                    self.reply.drain(..n);
                    if self.reply.is_empty() && self.reply.capacity() > LARGE {
                        self.reply = Vec::new();
                        super::process::give_back();
                    }
                    !self.reply.is_empty()
                }
                Err(e) => e.kind() == io::ErrorKind::WouldBlock,
            };
        }
        if self.asked {
            return true;
        }
        let mut buffer = [0; REQUEST_MAX];
        loop {
            match self.stream.read(&mut buffer) {
                // It may have asked before it closed its half.
                Ok(0) if self.request.contains(&b'\n') => break,
                Ok(0) => return false,
                Ok(n) => self.request.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
            if self.request.len() > REQUEST_MAX {
                return false;
            }
        }
        let Some(end) = self.request.iter().position(|b| *b == b'\n') else { return true };
        self.asked = true;
        match serde_json::from_slice::<Request>(&self.request[..end]) {
            Ok(request) => {
                if request == (Request::Fault { fault: Fault::ReleaseControl }) {
                    // Not by an event: the loop that should take it is the one that hangs.
                    hang.set(false);
                }
                control.send(Event::Request(id, request));
            }
            Err(e) => {
                let e = serde_json::json!({ "error": format!("no such request: {e}") });
                self.reply = format!("{e}\n").into_bytes();
            }
        }
        true
    }
}

impl HandOver {
    /// Hands over and ends this process.
    fn obey(&self, to: Option<&Client>) -> ! {
        if let Some(client) = to {
            let _ = client.stream.set_nonblocking(false);
            let raw: Vec<_> = self.fds.iter().map(AsRawFd::as_raw_fd).collect();
            let rights = [ControlMessage::ScmRights(&raw)];
            let line = format!("{}\n", self.line);
            let data = [IoSlice::new(line.as_bytes())];
            let fd = client.stream.as_raw_fd();
            if sendmsg::<()>(fd, &data, &rights, MsgFlags::MSG_NOSIGNAL, None).is_ok() {
                std::process::exit(0);
            }
        }
        // The wire has taken its leave: whoever watches over this process starts it anew.
        tracing::error!("the agent that asked to take over went away");
        std::process::exit(1)
    }
}

fn answer(clients: &mut BTreeMap<Connection, Client>, to: Connection, line: String) {
    if let Some(client) = clients.get_mut(&to) {
        client.reply = line.into_bytes();
        client.reply.push(b'\n');
    }
}
