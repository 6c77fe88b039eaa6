//! ARP on the wire: who announces which address, as a client hears it.

use std::io::IoSliceMut;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, sendto, setsockopt, sockopt};
use signpost_packet::{Arp, EtherType, Mac, Operation};
use socket2::{Domain, Socket, Type};

use crate::error::At;
use crate::{Error, Namespace};

/// How often the sniffer looks whether it should end.
const LOOK: u16 = 20;

/// An ARP frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When the kernel received it.
    pub at: SystemTime,
    /// From whom the frame came.
    pub from: Mac,
    /// The packet.
    pub arp: Arp,
}

/// Hears every ARP frame that reaches a namespace's `eth0`.
#[derive(Debug)]
pub struct Sniffer {
    frames: Receiver<Frame>,
    heard: Vec<Frame>,
    _stop: Sender<()>,
}

impl Sniffer {
    /// Begins to listen; what comes after this call is heard.
    pub fn start(ns: &Namespace) -> Result<Self, Error> {
        let socket = open(ns)?;
        let (out, frames) = channel();
        let (stop, stopped) = channel();
        std::thread::spawn(move || {
            while matches!(stopped.try_recv(), Err(TryRecvError::Empty)) {
                if let Some(frame) = receive(&socket, LOOK)
                    && out.send(frame).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { frames, heard: Vec::new(), _stop: stop })
    }

    /// The frames up to now whose sender claims to have the address.
    pub fn claims(&mut self, address: Ipv4Addr) -> Vec<Frame> {
        self.heard.extend(self.frames.try_iter());
        self.heard.iter().filter(|f| f.arp.sender == address).copied().collect()
    }
}

/// Asks the segment who has an address, and returns the answers that came within `patience`.
pub fn who_has(
    ns: &Namespace,
    own: Ipv4Addr,
    address: Ipv4Addr,
    patience: Duration,
) -> Result<Vec<Mac>, Error> {
    let socket = open(ns)?;
    ns.run(|| ask(&socket, own, address))?.at(|| format!("an ARP request from {}", ns.name()))?;
    let deadline = Instant::now() + patience;
    let mut owners = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(owners);
        }
        if let Some(frame) = receive(&socket, u16::try_from(left.as_millis() + 1).unwrap_or(LOOK))
            && (frame.arp.operation, frame.arp.sender) == (Operation::Reply, address)
        {
            owners.push(frame.arp.sender_mac);
        }
    }
}

fn open(ns: &Namespace) -> Result<Socket, Error> {
    let protocol = socket2::Protocol::from(i32::from(EtherType::ARP.0.to_be()));
    let made = ns.run(|| -> std::io::Result<_> {
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        Ok(socket)
    })?;
    made.at(|| format!("a packet socket in {}", ns.name()))
}

fn ask(socket: &Socket, own: Ipv4Addr, address: Ipv4Addr) -> std::io::Result<()> {
    let mut links = nix::ifaddrs::getifaddrs()?.filter(|a| a.interface_name == "eth0");
    let link = links.find_map(|a| a.address?.as_link_addr().copied());
    let (Some(link), Some(mac)) = (link, link.and_then(|l| l.addr())) else {
        return Err(std::io::Error::new(std::io::ErrorKind::NotFound, "no eth0"));
    };
    let frame = Arp::request(Mac(mac), Some(own), address).frame(Mac::BROADCAST);
    sendto(socket.as_raw_fd(), &frame, &link, MsgFlags::empty())?;
    Ok(())
}

fn receive(socket: &Socket, patience_ms: u16) -> Option<Frame> {
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    if poll(&mut fds, PollTimeout::from(patience_ms)).ok()? == 0 {
        return None;
    }
    let mut bytes = [0; 128];
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags).ok()?;
    let at = message
        .cmsgs()
        .ok()?
        .find_map(|c| match c {
            ControlMessageOwned::ScmTimestampns(t) => Some(UNIX_EPOCH + Duration::from(t)),
            _ => None,
        })
        .unwrap_or_else(SystemTime::now);
    let length = message.bytes;
    let (header, arp) = Arp::parse_frame(&bytes[..length])?;
    Some(Frame { at, from: header.source, arp })
}
