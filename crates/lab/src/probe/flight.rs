//! Many tries at once, from one namespace.

use std::io::{ErrorKind, IoSliceMut, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use socket2::{Domain, Socket, Type};

use super::{Cause, Outcome, Protocol, Target};
use crate::error::At;
use crate::pod::Answer;
use crate::{Error, Namespace};

/// What a probe sends. The pod answers a line with a line.
const REQUEST: &[u8] = b"hello\n";

/// An ICMP echo request; the kernel fills in checksum and identifier of an echo socket.
const ECHO: [u8; 16] = [8, 0, 0, 0, 0, 0, 0, 1, b's', b'i', b'g', b'n', b'p', b'o', b's', b't'];

/// Lets this process have as many sockets as the system allows it: a matrix has thousands.
pub fn lift_limits() -> Result<(), Error> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).at(|| "RLIMIT_NOFILE".to_owned())?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).at(|| "RLIMIT_NOFILE".to_owned())
}

/// Tries every target at the same time from a namespace; the outcomes are in the targets' order.
pub fn run(ns: &Namespace, targets: &[Target], patience: Duration) -> Result<Vec<Outcome>, Error> {
    ns.run(|| fly(targets, patience))?.at(|| format!("probes from {}", ns.name()))
}

fn fly(targets: &[Target], patience: Duration) -> std::io::Result<Vec<Outcome>> {
    let mut flights = Vec::with_capacity(targets.len());
    for target in targets {
        flights.push(Flight::start(*target)?);
    }
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let flying: Vec<usize> =
            (0..flights.len()).filter(|i| flights[*i].outcome.is_none()).collect();
        if flying.is_empty() || left.is_zero() {
            break;
        }
        let mut fds: Vec<PollFd<'_>> = flying
            .iter()
            .map(|i| PollFd::new(flights[*i].socket.as_fd(), flights[*i].awaits()))
            .collect();
        // Up to the next millisecond, so that the last wait is not a busy one.
        let wait = PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, wait) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        let woken: Vec<usize> = flying
            .iter()
            .zip(&fds)
            .filter(|(_, fd)| fd.revents().is_some_and(|r| !r.is_empty()))
            .map(|(i, _)| *i)
            .collect();
        for i in woken {
            flights[i].go_on();
        }
    }
    Ok(flights.into_iter().map(|f| f.outcome.unwrap_or(Outcome::Timeout)).collect())
}

pub(super) struct Flight {
    pub(super) socket: Socket,
    target: Target,
    connected: bool,
    /// The handshake was done, and a reset came after it.
    pub(super) cut: bool,
    bytes: Vec<u8>,
    pub(super) outcome: Option<Outcome>,
}

impl Flight {
    pub(super) fn start(target: Target) -> std::io::Result<Self> {
        let (kind, protocol) = match target.protocol {
            Protocol::Tcp => (Type::STREAM, None),
            Protocol::Udp => (Type::DGRAM, None),
            Protocol::Ping => (Type::DGRAM, Some(socket2::Protocol::ICMPV4)),
        };
        let socket = Socket::new(Domain::IPV4, kind.nonblocking(), protocol)?;
        setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
        let mut flight =
            Self { socket, target, connected: false, cut: false, bytes: Vec::new(), outcome: None };
        let to = SocketAddr::from((target.address, target.port));
        match flight.socket.connect(&to.into()) {
            Err(e) if e.raw_os_error() == Some(Errno::EINPROGRESS as i32) => {}
            Err(e) => flight.fail(&e),
            Ok(()) => flight.request(),
        }
        Ok(flight)
    }

    pub(super) fn awaits(&self) -> PollFlags {
        if self.connected { PollFlags::POLLIN } else { PollFlags::POLLOUT }
    }

    pub(super) fn go_on(&mut self) {
        if self.connected {
            return self.receive();
        }
        match self.socket.take_error() {
            Ok(None) => self.request(),
            Ok(Some(e)) | Err(e) => self.fail(&e),
        }
    }

    fn request(&mut self) {
        self.connected = true;
        let bytes = if self.target.protocol == Protocol::Ping { &ECHO[..] } else { REQUEST };
        if let Err(e) = (&self.socket).write_all(bytes) {
            self.fail(&e);
        }
    }

    fn receive(&mut self) {
        let mut bytes = [0; 2048];
        match (&self.socket).read(&mut bytes) {
            Ok(0) if self.target.protocol == Protocol::Tcp => {
                self.outcome = Some(Outcome::Strange("closed without an answer".to_owned()));
            }
            Ok(length) => {
                self.bytes.extend_from_slice(&bytes[..length]);
                self.outcome = self.read();
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                // Woken by the error queue alone.
                if let Some(cause) = icmp(&self.socket) {
                    self.outcome = Some(Outcome::Unreachable(cause));
                }
            }
            Err(e) => self.fail(&e),
        }
    }

    fn read(&self) -> Option<Outcome> {
        if self.target.protocol == Protocol::Ping {
            return Some(match self.bytes.first() {
                Some(0) => Outcome::Echo,
                other => Outcome::Strange(format!("ICMP type {other:?}")),
            });
        }
        if self.target.protocol == Protocol::Tcp && !self.bytes.ends_with(b"\n") {
            return None;
        }
        Some(match serde_json::from_slice::<Answer>(&self.bytes) {
            Ok(Answer { pod, client: SocketAddr::V4(client), .. }) => {
                Outcome::Answered { pod, seen: *client.ip() }
            }
            Ok(Answer { client: SocketAddr::V6(client), .. }) => {
                Outcome::Strange(format!("seen as {client}"))
            }
            Err(_) => Outcome::Strange(String::from_utf8_lossy(&self.bytes).into_owned()),
        })
    }

    fn fail(&mut self, e: &std::io::Error) {
        let cause = icmp(&self.socket);
        let errno = Errno::from_raw(e.raw_os_error().unwrap_or(0));
        self.outcome = Some(match errno {
            Errno::EPERM => Outcome::Refused(match cause {
                Some(Cause::Icmp(from)) => Cause::Denied(from),
                _ => Cause::Local,
            }),
            Errno::ECONNREFUSED if self.target.protocol == Protocol::Tcp => {
                Outcome::Refused(cause.unwrap_or(Cause::Reset))
            }
            Errno::ECONNREFUSED => Outcome::Refused(cause.unwrap_or(Cause::Local)),
            Errno::ECONNRESET => {
                self.cut = true;
                Outcome::Refused(Cause::Reset)
            }
            Errno::EHOSTUNREACH | Errno::ENETUNREACH => {
                Outcome::Unreachable(cause.unwrap_or(Cause::Local))
            }
            Errno::ETIMEDOUT => Outcome::Timeout,
            _ => Outcome::Strange(e.to_string()),
        });
    }
}

/// The ICMP error in a socket's error queue.
fn icmp(socket: &Socket) -> Option<Cause> {
    /// linux/errqueue.h.
    const SO_EE_ORIGIN_ICMP: u8 = 2;
    /// linux/icmp.h.
    const ICMP_TIME_EXCEEDED: u8 = 11;
    let mut bytes = [0; 512];
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let mut space = nix::cmsg_space!([u8; 256]);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags).ok()?;
    message.cmsgs().ok()?.find_map(|c| match c {
        ControlMessageOwned::Ipv4RecvErr(e, Some(from)) if e.ee_origin == SO_EE_ORIGIN_ICMP => {
            let from = Ipv4Addr::from(u32::from_be(from.sin_addr.s_addr));
            let expired = e.ee_type == ICMP_TIME_EXCEEDED;
            Some(if expired { Cause::Expired(from) } else { Cause::Icmp(from) })
        }
        _ => None,
    })
}
