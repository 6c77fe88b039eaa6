//! ARP on the wire: who announces which address, as a client hears it.

use std::io::IoSliceMut;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, sendto, setsockopt, sockopt};
use socket2::{Domain, Socket, Type};

use crate::error::At;
use crate::{Error, Namespace};

/// linux/if_ether.h.
const ETH_P_ARP: u16 = 0x0806;

/// An Ethernet header and an ARP packet for Ethernet and IPv4 (RFC 826).
const FRAME: usize = 14 + 28;

/// How often the sniffer looks whether it should end.
const LOOK: u16 = 20;

/// An ARP frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When the kernel received it.
    pub at: SystemTime,
    /// 1 is a request, 2 a reply.
    pub operation: u16,
    /// The sender's Ethernet address, as the packet says.
    pub mac: [u8; 6],
    /// The sender's address.
    pub sender: Ipv4Addr,
    /// The address asked for, or told.
    pub target: Ipv4Addr,
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
        self.heard.iter().filter(|f| f.sender == address).copied().collect()
    }
}

/// Asks the segment who has an address, and returns the answers that came within `patience`.
pub fn who_has(
    ns: &Namespace,
    own: Ipv4Addr,
    address: Ipv4Addr,
    patience: Duration,
) -> Result<Vec<[u8; 6]>, Error> {
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
            && (frame.operation, frame.sender) == (2, address)
        {
            owners.push(frame.mac);
        }
    }
}

fn open(ns: &Namespace) -> Result<Socket, Error> {
    let protocol = socket2::Protocol::from(i32::from(ETH_P_ARP.to_be()));
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
    let mut frame = Vec::with_capacity(FRAME);
    frame.extend_from_slice(&[0xff; 6]);
    frame.extend_from_slice(&mac);
    frame.extend_from_slice(&ETH_P_ARP.to_be_bytes());
    frame.extend_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend_from_slice(&mac);
    frame.extend_from_slice(&own.octets());
    frame.extend_from_slice(&[0; 6]);
    frame.extend_from_slice(&address.octets());
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
    parse(at, &bytes[..length])
}

fn parse(at: SystemTime, frame: &[u8]) -> Option<Frame> {
    let arp: &[u8; 28] = frame.get(14..FRAME)?.try_into().ok()?;
    if arp[..6] != [0, 1, 8, 0, 6, 4] {
        return None;
    }
    let address = |n: usize| Ipv4Addr::new(arp[n], arp[n + 1], arp[n + 2], arp[n + 3]);
    Some(Frame {
        at,
        operation: u16::from_be_bytes([arp[6], arp[7]]),
        mac: [arp[8], arp[9], arp[10], arp[11], arp[12], arp[13]],
        sender: address(14),
        target: address(24),
    })
}
