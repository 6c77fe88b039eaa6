//! The wire thread: moves bytes between sockets and the speaker, and keeps its time.
//!
//! Nothing here decides, waits for another thread or logs.

mod groups;
pub(crate) mod packet;
pub(crate) mod socket;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use signpost_plan::LinkIndex;
use signpost_speaker::{Command, Event, Input, Instant, Machine, Output, Peer, Port, Speaker};

use self::groups::Groups;
use self::packet::{Packets, Resolution};
use super::clock;
use super::inbox::{Inbox, Sender, inbox};
use super::process::{self, Urgency};

/// What control asks of the wire.
pub(crate) enum Order {
    /// For the speaker.
    Speak(Command),
    /// Say when everything before this has left.
    Barrier(u64),
}

/// Control's end.
pub(crate) struct Wire {
    orders: Sender<Order>,
    groups: Groups,
    passed: Arc<AtomicU64>,
    barrier: u64,
    waker: std::thread::Thread,
}

/// What the thread needs, made where errors can still be told.
pub(crate) struct Parts {
    pub(crate) speaker: Speaker,
    pub(crate) mesh: socket::Mesh,
}

/// A datagram may not be longer than what Ethernet carries unfragmented; a frame neither.
const BUFFER: usize = 2048;

/// So many datagrams of one socket a turn: a flood delays the others, it does not shut them out.
const DRAIN_MAX: usize = 8192;

/// How long a withdrawal may hold up the rules that follow it.
const BARRIER_PATIENCE: Duration = Duration::from_millis(20);

/// Starts the thread. Events go to `control` wrapped by `wrap`.
pub(crate) fn start<E: Send + 'static>(
    parts: Parts,
    control: Sender<E>,
    wrap: fn(Event) -> E,
) -> io::Result<Wire> {
    let (orders, inbox) = inbox()?;
    let passed = Arc::new(AtomicU64::new(0));
    let waker = std::thread::current();
    let thread = Loop {
        speaker: parts.speaker,
        mesh: parts.mesh,
        links: Vec::new(),
        packets: Vec::new(),
        inbox,
        passed: Arc::clone(&passed),
        control_thread: waker.clone(),
        news: move |e| control.send(wrap(e)),
    };
    std::thread::Builder::new().name("wire".into()).spawn(move || thread.run())?;
    Ok(Wire { orders, groups: Groups::default(), passed, barrier: 0, waker })
}

impl Wire {
    pub(crate) fn send(&mut self, command: Command) {
        self.groups.follow(&command);
        self.orders.send(Order::Speak(command));
    }

    /// Waits until everything sent so far has left, but not for ever: a wire thread that starves
    /// must not hold up the repair of rules.
    pub(crate) fn flush(&mut self) {
        debug_assert_eq!(self.waker.id(), std::thread::current().id());
        self.barrier += 1;
        self.orders.send(Order::Barrier(self.barrier));
        let until = clock::now().0 + BARRIER_PATIENCE;
        while self.passed.load(Ordering::Acquire) < self.barrier {
            let left = until.saturating_sub(clock::now().0);
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }
}

struct Loop<N> {
    speaker: Speaker,
    mesh: socket::Mesh,
    /// The interfaces that control named last.
    links: Vec<LinkIndex>,
    packets: Vec<Packets>,
    inbox: Inbox<Order>,
    passed: Arc<AtomicU64>,
    control_thread: std::thread::Thread,
    news: N,
}

impl<N: Fn(Event)> Loop<N> {
    fn run(mut self) {
        // Where we may not, the threads share the processors as others do.
        let _ = process::prefer(Urgency::First);
        let mut buffer = [0; BUFFER];
        loop {
            self.wait();
            // The clock is read before the sockets are drained: what arrived by now is seen before
            // anything expires against now, however late this turn runs.
            let now = clock::now();
            self.orders(now);
            self.drain(now, &mut buffer);
            if self.speaker.deadline().is_some_and(|d| d <= now) {
                self.speaker.handle(now, Input::Wake);
            }
            self.flush();
        }
    }

    fn wait(&self) {
        let left = self
            .speaker
            .deadline()
            .map(|d| TimeSpec::from_duration(d.0.saturating_sub(clock::now().0)));
        let mut fds = vec![
            PollFd::new(self.inbox.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.mesh.as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.packets.iter().map(|p| PollFd::new(p.as_fd(), PollFlags::POLLIN)));
        // EINTR and the like only make the turn come early.
        let _ = ppoll(&mut fds, left, None);
    }

    fn orders(&mut self, now: Instant) {
        self.inbox.silence();
        while let Some(order) = self.inbox.next() {
            match order {
                Order::Speak(command) => {
                    match &command {
                        Command::Links(links) => {
                            self.links = links.iter().map(|l| l.index).collect();
                            self.listen();
                        }
                        Command::Lease(_) => self.listen(),
                        Command::Gate(..) | Command::Peers(_) | Command::Leave(_) => {}
                    }
                    self.speaker.handle(now, Input::Command(command));
                }
                Order::Barrier(n) => {
                    self.flush();
                    self.passed.store(n, Ordering::Release);
                    self.control_thread.unpark();
                }
            }
        }
        self.flush();
    }

    /// Listens on the interfaces and on no others. What cannot be opened, since the interface has
    /// just come or memory is short, is tried again with each lease.
    fn listen(&mut self) {
        self.mesh.join(&self.links);
        self.packets.retain(|p| self.links.contains(&p.link()));
        for &link in &self.links {
            for resolution in Resolution::ALL {
                let port = resolution.port(link);
                if !self.packets.iter().any(|p| p.port() == port) {
                    self.packets.extend(Packets::open(resolution, link));
                }
            }
        }
    }

    fn drain(&mut self, now: Instant, buffer: &mut [u8]) {
        for _ in 0..DRAIN_MAX {
            let Some(r) = self.mesh.receive(now, buffer) else { break };
            let Some(from) = r.from else { continue };
            let from = Peer::Unicast(from.into());
            let bytes = &buffer[..r.len];
            self.speaker.handle(now, Input::Bytes { port: Port::Mesh, from, at: r.at, bytes });
        }
        for i in 0..self.packets.len() {
            let port = self.packets[i].port();
            for _ in 0..DRAIN_MAX {
                let Some(r) = self.packets[i].receive(now, buffer) else { break };
                let bytes = &buffer[..r.len];
                let from = Peer::Link;
                self.speaker.handle(now, Input::Bytes { port, from, at: r.at, bytes });
            }
        }
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(output) = self.speaker.poll() {
            match output {
                // What cannot be sent is lost, as on any wire: heartbeats and bursts repeat.
                Output::Send { port: Port::Mesh, to, bytes } => {
                    let _ = match to {
                        Peer::Multicast(link) => self.mesh.send_multicast(link, &bytes),
                        Peer::Unicast(ip) => self.mesh.send_unicast(ip, &bytes),
                        Peer::Link => Ok(()),
                    };
                }
                Output::Send { port: port @ (Port::Arp(_) | Port::Ndp(_)), bytes, .. } => {
                    if let Some(packets) = self.packets.iter().find(|p| p.port() == port) {
                        let _ = packets.send(&bytes);
                    }
                }
                Output::Event(e) => (self.news)(e),
            }
        }
    }
}
