//! A pod's servers: TCP, UDP and SCTP on each port, which answer who they are and whom they saw.
//!
//! One line of JSON answers one line over TCP, one datagram over UDP, and the first message of SCTP. A line that begins with
//! `GET ` is answered as HTTP, so that `curl` works too.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use crate::error::At;
use crate::{Error, Family, sctp};

/// A client's line; longer ones end the connection.
const LINE_MAX: usize = 1024;

/// Many clients connect at once when a failover is measured.
const BACKLOG: i32 = 4096;

/// What a pod answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The pod.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// Whom it saw.
    pub client: SocketAddr,
    /// What the client sent, as far as it is a word.
    pub echo: String,
}

/// Serves in the calling thread's namespace until the process ends. `ready` runs once all sockets
/// listen.
pub fn serve(pod: &str, node: &str, ports: &[u16], ready: impl FnOnce()) -> Result<(), Error> {
    let mut listening: Vec<(_, UdpSocket, _)> = Vec::new();
    for port in ports {
        let udp = bound(Type::DGRAM, *port).at(|| format!("UDP port {port}"))?;
        listening.push((port, udp.into(), listen(*port).at(|| format!("TCP port {port}"))?));
    }
    let mut associations = Vec::new();
    for family in Family::ALL {
        let socket = sctp::listen(family).at(|| format!("SCTP over {family}"))?;
        associations.extend(socket.map(|s| (family, s)));
    }
    ready();
    std::thread::scope(|s| {
        for (family, socket) in &associations {
            let says = |client| answer(pod, node, client, b"");
            s.spawn(move || sctp::serve(*family, socket, ports, says));
        }
        let mut serving = Vec::new();
        for (port, udp, tcp) in &listening {
            s.spawn(|| datagrams(pod, node, udp));
            serving.push(
                s.spawn(move || connections(pod, node, tcp).at(|| format!("TCP port {port}"))),
            );
        }
        serving
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn listen(port: u16) -> std::io::Result<TcpListener> {
    let socket = bound(Type::STREAM.nonblocking(), port)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A socket for both families; where the machine has no IPv6, for the other.
fn bound(kind: Type, port: u16) -> std::io::Result<Socket> {
    let (socket, any) = match Socket::new(Domain::IPV6, kind, None) {
        Ok(socket) => {
            socket.set_only_v6(false)?;
            (socket, SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
        }
        Err(e) if e.raw_os_error() == Some(Errno::EAFNOSUPPORT as i32) => {
            let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
            (Socket::new(Domain::IPV4, kind, None)?, any)
        }
        Err(e) => return Err(e),
    };
    if kind == Type::STREAM.nonblocking() {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&any.into())?;
    Ok(socket)
}

fn answer(pod: &str, node: &str, client: SocketAddr, asked: &[u8]) -> String {
    let echo = String::from_utf8_lossy(asked).trim().chars().take(64).collect();
    let client = SocketAddr::new(client.ip().to_canonical(), client.port());
    let answer = Answer { pod: pod.to_owned(), node: node.to_owned(), client, echo };
    let mut line = serde_json::to_string(&answer).expect("strings and an address are JSON");
    line.push('\n');
    line
}

fn datagrams(pod: &str, node: &str, socket: &UdpSocket) {
    let mut asked = [0; LINE_MAX];
    loop {
        // An ICMP error of an earlier answer comes out here; the next datagram is as good.
        let Ok((length, client)) = socket.recv_from(&mut asked) else { continue };
        let _ = socket.send_to(answer(pod, node, client, &asked[..length]).as_bytes(), client);
    }
}

struct Connection {
    stream: TcpStream,
    client: SocketAddr,
    line: Vec<u8>,
}

fn connections(pod: &str, node: &str, listener: &TcpListener) -> std::io::Result<()> {
    const LISTENER: u64 = u64::MAX;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.add(listener.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
    let mut open: HashMap<u64, Connection> = HashMap::new();
    let mut next = 0;
    let mut events = [EpollEvent::empty(); 64];
    loop {
        let count = match epoll.wait(&mut events, EpollTimeout::NONE) {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => continue,
            Err(e) => return Err(e.into()),
        };
        for event in &events[..count] {
            let id = event.data();
            if id == LISTENER {
                while let Ok((stream, client)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    epoll.add(stream.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, next))?;
                    open.insert(next, Connection { stream, client, line: Vec::new() });
                    next += 1;
                }
            } else if let Some(connection) = open.get_mut(&id)
                && !serve_one(pod, node, connection)
            {
                open.remove(&id);
            }
        }
    }
}

/// Whether the connection stays open.
fn serve_one(pod: &str, node: &str, c: &mut Connection) -> bool {
    let mut bytes = [0; LINE_MAX];
    match c.stream.read(&mut bytes) {
        Ok(0) => return false,
        Ok(length) => c.line.extend_from_slice(&bytes[..length]),
        Err(e) => return matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
    while let Some(end) = c.line.iter().position(|b| *b == b'\n') {
        let line: Vec<u8> = c.line.drain(..=end).collect();
        let body = answer(pod, node, c.client, &line);
        if line.starts_with(b"GET ") {
            let head = "HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n";
            let _ = c.stream.write_all(format!("{head}{body}").as_bytes());
            return false;
        }
        if c.stream.write_all(body.as_bytes()).is_err() {
            return false;
        }
    }
    c.line.len() <= LINE_MAX
}
