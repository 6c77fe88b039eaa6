//! The mesh's UDP socket.
//!
//! Unsafe only where no safe crate wraps a call.
#![allow(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, sendmsg, setsockopt,
    sockopt,
};
use nix::sys::time::TimeSpec;
use signpost_plan::LinkIndex;
use signpost_speaker::Instant;
use socket2::{Domain, Protocol, Socket, Type};

use crate::agent::clock;

/// Where heartbeats meet on a segment: organisation-local scope (RFC 2365 section 6.2).
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 192, 121, 48);

/// Class selector 6, network control (RFC 4594 section 3.1).
const TOS_NETWORK_CONTROL: u32 = 0xc0;

/// The priority that the kernel gives CS6 in its queues.
const PRIORITY: u32 = 6;

/// Room for the bursts of a thousand members and for the queue of a paused process.
const RECEIVE_BUFFER: usize = 4 << 20;

/// A received datagram or frame: its length in the buffer given, its sender and its stamp.
pub(super) struct Received {
    pub(super) len: usize,
    pub(super) from: Option<Ipv4Addr>,
    pub(super) link: Option<LinkIndex>,
    pub(super) multicast: bool,
    pub(super) at: Instant,
}

/// The mesh's socket.
pub(crate) struct Mesh {
    socket: Socket,
    port: u16,
    joined: Vec<LinkIndex>,
    control: Vec<u8>,
}

impl Mesh {
    pub(crate) fn open(port: u16) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        socket.set_cloexec(true)?;
        // Members of one machine (containers without namespaces of their own) do not exist: the
        // port is ours alone, and a second process is told so.
        socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
        Self::over(socket, port)
    }

    /// Goes on with the socket of the agent before us; `None`: it has another port.
    pub(crate) fn inherit(socket: OwnedFd, port: u16) -> Option<io::Result<Self>> {
        let socket = Socket::from(socket);
        let bound = socket.local_addr().ok()?.as_socket_ipv4()?;
        (bound.port() == port).then(|| Self::over(socket, port))
    }

    fn over(socket: Socket, port: u16) -> io::Result<Self> {
        socket.set_multicast_loop_v4(false)?;
        socket.set_multicast_ttl_v4(1)?;
        socket.set_multicast_all_v4(false)?;
        socket.set_tos_v4(TOS_NETWORK_CONTROL)?;
        let _ = setsockopt(&socket, sockopt::Priority, &(PRIORITY as i32));
        enlarge(&socket);
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
        let control = nix::cmsg_space!(TimeSpec, libc::in_pktinfo);
        Ok(Self { socket, port, joined: Vec::new(), control })
    }

    /// Joins the group on these interfaces and leaves it on others.
    pub(super) fn join(&mut self, links: &[LinkIndex]) {
        use socket2::InterfaceIndexOrAddress::Index;
        let socket = &self.socket;
        self.joined.retain(|l| {
            let stays = links.contains(l);
            if !stays {
                // An interface that vanished took the membership with it.
                let _ = socket.leave_multicast_v4_n(&GROUP, &Index(l.0));
            }
            stays
        });
        for l in links {
            if self.joined.contains(l) {
                continue;
            }
            match socket.join_multicast_v4_n(&GROUP, &Index(l.0)) {
                Ok(()) => self.joined.push(*l),
                // The agent before us had joined already.
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => self.joined.push(*l),
                // Tried again with the next change of the interfaces.
                Err(_) => {}
            }
        }
    }

    pub(super) fn send_multicast(&self, link: LinkIndex, bytes: &[u8]) -> io::Result<()> {
        let info = libc::in_pktinfo {
            ipi_ifindex: link.0 as i32,
            ipi_spec_dst: libc::in_addr { s_addr: 0 },
            ipi_addr: libc::in_addr { s_addr: 0 },
        };
        self.send(GROUP, bytes, &[ControlMessage::Ipv4PacketInfo(&info)])
    }

    pub(super) fn send_unicast(&self, to: IpAddr, bytes: &[u8]) -> io::Result<()> {
        match to {
            IpAddr::V4(to) => self.send(to, bytes, &[]),
            IpAddr::V6(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn send(&self, to: Ipv4Addr, bytes: &[u8], control: &[ControlMessage<'_>]) -> io::Result<()> {
        let to = SockaddrIn::from(SocketAddrV4::new(to, self.port));
        let data = [IoSlice::new(bytes)];
        let fd = self.socket.as_raw_fd();
        sendmsg(fd, &data, control, MsgFlags::MSG_DONTWAIT, Some(&to))?;
        Ok(())
    }

    /// The next datagram, if one waits. Longer ones than the buffer are cut, and then refused by
    /// their authentication.
    pub(super) fn receive(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Received> {
        let mut data = [IoSliceMut::new(buffer)];
        let fd = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        let m = recvmsg::<SockaddrIn>(fd, &mut data, Some(&mut self.control), flags).ok()?;
        let mut r = Received {
            len: m.bytes,
            from: m.address.map(|a| a.ip()),
            link: None,
            multicast: false,
            at: now,
        };
        for c in m.cmsgs().ok()? {
            match c {
                ControlMessageOwned::ScmTimestampns(t) => r.at = stamp(now, t),
                ControlMessageOwned::Ipv4PacketInfo(i) => {
                    r.link = u32::try_from(i.ipi_ifindex).ok().map(LinkIndex);
                    r.multicast = i.ipi_addr.s_addr == u32::from(GROUP).to_be();
                }
                _ => {}
            }
        }
        Some(r)
    }
}

impl AsFd for Mesh {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

pub(super) fn stamp(now: Instant, t: TimeSpec) -> Instant {
    clock::stamped(now, Duration::new(t.tv_sec() as u64, t.tv_nsec() as u32))
}

/// More room than `net.core.rmem_max` where we may, else what it allows.
pub(super) fn enlarge(socket: &Socket) {
    if setsockopt(socket, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    }
}

/// A descriptor that another process just passed to us.
pub(crate) fn adopt(fd: std::os::fd::RawFd) -> std::os::fd::OwnedFd {
    // SAFETY: the kernel made this descriptor for us in recvmsg; nobody else knows its number.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) }
}
