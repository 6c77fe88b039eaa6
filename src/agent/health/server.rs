//! The listeners and connections of health checks, driven by the outside thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use socket2::{Domain, Socket, Type};

use super::answer::{Asked, answer};
use super::{HEALTHZ_PORT, Health};

/// A check asks a line or two, with a few headers.
const REQUEST_MAX: usize = 8192;

/// Every load balancer keeps a handful; one more ends the oldest.
const CONNECTIONS_MAX: usize = 256;

/// Who has not asked by then never will.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks come one by one.
const BACKLOG: i32 = 64;

#[derive(Default)]
pub(crate) struct Servers {
    health: Option<Health>,
    listeners: BTreeMap<u16, TcpListener>,
    /// Ports that could not be had, each complained of once.
    refused: BTreeSet<u16>,
    connections: Vec<Connection>,
}

struct Connection {
    stream: TcpStream,
    asked: Asked,
    since: Instant,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Servers {
    /// What control tells. Ports that somebody else has are tried again each time.
    pub(crate) fn tell(&mut self, health: Health) {
        let wanted: BTreeSet<u16> =
            health.checks.iter().map(|c| c.port).chain([HEALTHZ_PORT]).collect();
        self.listeners.retain(|port, _| wanted.contains(port));
        self.refused.retain(|port| wanted.contains(port));
        for port in wanted {
            if self.listeners.contains_key(&port) {
                continue;
            }
            match listen(port) {
                Ok(listener) => {
                    self.refused.remove(&port);
                    self.listeners.insert(port, listener);
                }
                Err(e) if self.refused.insert(port) => tracing::error!(
                    "health checks on TCP port {port}: {e}: stop who listens there \
                     (`ss -ltnp sport = :{port}` shows it)"
                ),
                Err(_) => {}
            }
        }
        self.health = Some(health);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.connections.iter().map(|c| c.since + PATIENCE).min()
    }

    pub(crate) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listeners = self.listeners.values().map(|l| PollFd::new(l.as_fd(), PollFlags::POLLIN));
        let connections = self.connections.iter().map(|c| {
            let wanted = if c.reply.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLOUT };
            PollFd::new(c.stream.as_fd(), wanted)
        });
        listeners.chain(connections)
    }

    /// Moves bytes.
    pub(crate) fn turn(&mut self) {
        let Some(health) = &self.health else { return };
        let now = Instant::now();
        for (port, listener) in &self.listeners {
            let asked = if *port == HEALTHZ_PORT { Asked::Proxy } else { Asked::Service(*port) };
            while let Ok((stream, _)) = listener.accept() {
                if stream.set_nonblocking(true).is_err() {
                    continue;
                }
                if self.connections.len() >= CONNECTIONS_MAX {
                    self.connections.remove(0);
                }
                let (request, reply) = (Vec::new(), Vec::new());
                self.connections.push(Connection { stream, asked, since: now, request, reply });
            }
        }
        self.connections.retain_mut(|c| now < c.since + PATIENCE && c.turn(health, now));
    }
}

/// On every address of both families, or of IPv4 where the kernel has no other.
fn listen(port: u16) -> io::Result<TcpListener> {
    let open = |address: SocketAddr| -> io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        // Connections of the agent before this one do not keep the port.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    match open((Ipv6Addr::UNSPECIFIED, port).into()) {
        Err(e) if e.raw_os_error() == Some(libc::EAFNOSUPPORT) => open(([0, 0, 0, 0], port).into()),
        opened => opened,
    }
}

impl Connection {
    /// `false` once it is over.
    fn turn(&mut self, health: &Health, now: Instant) -> bool {
        if self.reply.is_empty() && !self.read() {
            return false;
        }
        let whole = |end: &[u8]| self.request.windows(end.len()).any(|w| w == end);
        if self.reply.is_empty() && (whole(b"\r\n\r\n") || whole(b"\n\n")) {
            let request = String::from_utf8_lossy(&self.request).into_owned();
            let time = jiff::Timestamp::now();
            self.reply = answer(self.asked, &request, health, now, time).into_bytes();
        }
        while !self.reply.is_empty() {
            match self.stream.write(&self.reply) {
                Ok(n) => drop(self.reply.drain(..n)),
                Err(e) => return e.kind() == io::ErrorKind::WouldBlock,
            }
            if self.reply.is_empty() {
                return false;
            }
        }
        true
    }

    fn read(&mut self) -> bool {
        let mut buffer = [0; REQUEST_MAX];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(n) => self.request.extend_from_slice(&buffer[..n]),
                Err(e) => return e.kind() == io::ErrorKind::WouldBlock,
            }
            if self.request.len() > REQUEST_MAX {
                return false;
            }
        }
    }
}
