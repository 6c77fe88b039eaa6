//! The wire thread's sockets: the mesh's UDP socket and one AF_PACKET socket an interface.
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
use socket2::{Domain, Protocol, SockAddr, SockFilter, Socket, Type};

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

/// An AF_PACKET socket that sees the ARP of one interface, and nothing that we send.
pub(super) struct Arp {
    socket: Socket,
    link: LinkIndex,
    control: Vec<u8>,
}

/// Whether this process may open packet sockets at all (CAP_NET_RAW).
pub(crate) fn probe_raw() -> io::Result<()> {
    Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0))).map(drop)
}

impl Arp {
    pub(super) fn open(link: LinkIndex) -> io::Result<Self> {
        // Protocol 0 receives nothing until the filter stands and bind names the protocol.
        let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), Some(Protocol::from(0)))?;
        socket.set_cloexec(true)?;
        socket.attach_filter(&ARP_FILTER)?;
        ignore_outgoing(&socket)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        enlarge(&socket);
        socket.bind(&packet_address(link)?)?;
        Ok(Self { socket, link, control: nix::cmsg_space!(TimeSpec) })
    }

    pub(super) fn link(&self) -> LinkIndex {
        self.link
    }

    pub(super) fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.socket.send(frame).map(drop)
    }

    pub(super) fn receive(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Received> {
        let mut data = [IoSliceMut::new(buffer)];
        let fd = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        let m = recvmsg::<()>(fd, &mut data, Some(&mut self.control), flags).ok()?;
        let mut at = now;
        for c in m.cmsgs().ok()? {
            if let ControlMessageOwned::ScmTimestampns(t) = c {
                at = stamp(now, t);
            }
        }
        Some(Received { len: m.bytes, from: None, link: Some(self.link), multicast: false, at })
    }
}

impl AsFd for Arp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Classic BPF: an Ethernet frame of type ARP, a request or a reply (RFC 826), and nothing else.
const ARP_FILTER: [SockFilter; 7] = [
    SockFilter::new(0x28, 0, 0, 12),     // ldh [12]
    SockFilter::new(0x15, 0, 4, 0x0806), // jeq ETH_P_ARP, else drop
    SockFilter::new(0x28, 0, 0, 20),     // ldh [20]
    SockFilter::new(0x35, 0, 2, 1),      // jge ARPOP_REQUEST, else drop
    SockFilter::new(0x25, 1, 0, 2),      // jgt ARPOP_REPLY: drop
    SockFilter::new(0x06, 0, 0, 0xffff), // accept
    SockFilter::new(0x06, 0, 0, 0),      // drop
];

fn stamp(now: Instant, t: TimeSpec) -> Instant {
    clock::stamped(now, Duration::new(t.tv_sec() as u64, t.tv_nsec() as u32))
}

/// More room than `net.core.rmem_max` where we may, else what it allows.
fn enlarge(socket: &Socket) {
    if setsockopt(socket, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    }
}

fn packet_address(link: LinkIndex) -> io::Result<SockAddr> {
    let fill = |storage: *mut socket2::SockAddrStorage, len: *mut libc::socklen_t| {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ARP as u16).to_be(),
            sll_ifindex: link.0 as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: storage has room for every socket address, is aligned for them, and is ours
        // alone for the time of this call; so is len.
        unsafe {
            storage.cast::<libc::sockaddr_ll>().write(address);
            len.write(size_of::<libc::sockaddr_ll>() as libc::socklen_t);
        }
        Ok(())
    };
    // SAFETY: the closure writes a whole sockaddr_ll and its length.
    let ((), address) = unsafe { SockAddr::try_init(fill) }?;
    Ok(address)
}

/// `PACKET_IGNORE_OUTGOING` (Linux 4.20): our own announcements are no news to us.
fn ignore_outgoing(socket: &Socket) -> io::Result<()> {
    let one: libc::c_int = 1;
    // SAFETY: the option takes an int, and the pointer and length are those of `one`.
    let r = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            (&raw const one).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A descriptor that another process just passed to us.
pub(crate) fn adopt(fd: std::os::fd::RawFd) -> std::os::fd::OwnedFd {
    // SAFETY: the kernel made this descriptor for us in recvmsg; nobody else knows its number.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) }
}
