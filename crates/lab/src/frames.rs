//! Frames of one kind, sent and heard on a namespace's `eth0`.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    ControlMessageOwned, LinkAddr, MsgFlags, recvmsg, sendto, setsockopt, sockopt,
};
use signpost_packet::{EtherType, Mac};
use socket2::{Domain, Socket, Type};

use crate::error::At;
use crate::{Error, Namespace};

/// How often a sniffer looks whether it should end.
const LOOK: u16 = 20;

/// A packet socket for frames of one type.
#[derive(Debug)]
pub(crate) struct Line {
    socket: Socket,
    link: LinkAddr,
    mac: Mac,
    place: String,
}

impl Line {
    /// Opens it; what comes after this call is heard.
    pub(crate) fn open(ns: &Namespace, ether_type: EtherType) -> Result<Self, Error> {
        let protocol = socket2::Protocol::from(i32::from(ether_type.0.to_be()));
        let made = ns.run(|| -> std::io::Result<_> {
            let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
            setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
            let mut links = nix::ifaddrs::getifaddrs()?.filter(|a| a.interface_name == "eth0");
            let link = links.find_map(|a| a.address?.as_link_addr().copied());
            let (Some(link), Some(mac)) = (link, link.and_then(|l| l.addr())) else {
                return Err(std::io::Error::new(std::io::ErrorKind::NotFound, "no eth0"));
            };
            Ok((socket, link, Mac(mac)))
        })?;
        let (socket, link, mac) = made.at(|| format!("a packet socket in {}", ns.name()))?;
        Ok(Self { socket, link, mac, place: ns.name().to_owned() })
    }

    /// Sends a frame, made with the link's own address.
    pub(crate) fn send(&self, frame: impl FnOnce(Mac) -> Vec<u8>) -> Result<(), Error> {
        sendto(self.socket.as_raw_fd(), &frame(self.mac), &self.link, MsgFlags::empty())
            .map(|_| ())
            .at(|| format!("a frame from {}", self.place))
    }

    /// What `read` finds in the frames of so long a time.
    pub(crate) fn all_within<T>(
        &self,
        patience: Duration,
        read: impl Fn(SystemTime, &[u8]) -> Option<T>,
    ) -> Vec<T> {
        let deadline = Instant::now() + patience;
        let mut found = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return found;
            }
            let wait = u16::try_from(left.as_millis() + 1).unwrap_or(LOOK);
            found.extend(self.receive(wait, &read).flatten());
        }
    }

    /// The next frame, if one comes.
    fn receive<T>(&self, patience_ms: u16, read: impl Fn(SystemTime, &[u8]) -> T) -> Option<T> {
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(patience_ms)).ok()? == 0 {
            return None;
        }
        let mut bytes = [0; 256];
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec);
        let flags = MsgFlags::MSG_DONTWAIT;
        let fd = self.socket.as_raw_fd();
        let message = recvmsg::<()>(fd, &mut parts, Some(&mut space), flags).ok()?;
        let at = message
            .cmsgs()
            .ok()?
            .find_map(|c| match c {
                ControlMessageOwned::ScmTimestampns(t) => Some(UNIX_EPOCH + Duration::from(t)),
                _ => None,
            })
            .unwrap_or_else(SystemTime::now);
        let length = message.bytes;
        Some(read(at, &bytes[..length]))
    }
}

/// What a thread finds in every frame, until this goes.
#[derive(Debug)]
pub(crate) struct Frames<T> {
    found: Receiver<T>,
    heard: Vec<T>,
    _stop: Sender<()>,
}

impl<T: Send + 'static> Frames<T> {
    /// Begins.
    pub(crate) fn start(line: Line, read: fn(SystemTime, &[u8]) -> Option<T>) -> Self {
        let (out, found) = channel();
        let (stop, stopped) = channel();
        std::thread::spawn(move || {
            while matches!(stopped.try_recv(), Err(TryRecvError::Empty)) {
                if let Some(frame) = line.receive(LOOK, read).flatten()
                    && out.send(frame).is_err()
                {
                    return;
                }
            }
        });
        Self { found, heard: Vec::new(), _stop: stop }
    }

    /// All up to now.
    pub(crate) fn heard(&mut self) -> &[T] {
        self.heard.extend(self.found.try_iter());
        &self.heard
    }
}
