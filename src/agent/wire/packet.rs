//! AF_PACKET sockets: on each interface one for each protocol of address resolution.
//!
//! Unsafe only where no safe crate wraps a call.
#![allow(unsafe_code)]

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use signpost_plan::LinkIndex;
use signpost_speaker::{Instant, Port};
use socket2::{Domain, SockAddr, SockFilter, Socket, Type};

use super::socket::{Received, enlarge, stamp};

/// How hosts learn which Ethernet address an address has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    Arp,
    Ndp,
}

impl Resolution {
    pub(super) const ALL: [Self; 2] = [Self::Arp, Self::Ndp];

    /// The speaker's name for it on an interface.
    pub(super) fn port(self, link: LinkIndex) -> Port {
        match self {
            Self::Arp => Port::Arp(link),
            Self::Ndp => Port::Ndp(link),
        }
    }

    fn ether_type(self) -> u16 {
        match self {
            Self::Arp => libc::ETH_P_ARP as u16,
            Self::Ndp => libc::ETH_P_IPV6 as u16,
        }
    }

    fn filter(self) -> &'static [SockFilter] {
        match self {
            Self::Arp => &ARP_FILTER,
            Self::Ndp => &NDP_FILTER,
        }
    }
}

/// A socket that sees one protocol on one interface, and nothing that we send.
pub(super) struct Packets {
    socket: Socket,
    resolution: Resolution,
    link: LinkIndex,
    control: Vec<u8>,
}

/// Whether this process may open packet sockets at all (CAP_NET_RAW).
pub(crate) fn probe_raw() -> io::Result<()> {
    open_raw().map(drop)
}

/// Protocol 0 receives nothing until the filter stands and bind names the protocol.
fn open_raw() -> io::Result<Socket> {
    let none = socket2::Protocol::from(0);
    Socket::new(Domain::PACKET, Type::RAW.nonblocking(), Some(none))
}

impl Packets {
    pub(super) fn open(resolution: Resolution, link: LinkIndex) -> io::Result<Self> {
        let socket = open_raw()?;
        socket.set_cloexec(true)?;
        socket.attach_filter(resolution.filter())?;
        ignore_outgoing(&socket)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        enlarge(&socket);
        socket.bind(&packet_address(resolution, link)?)?;
        Ok(Self { socket, resolution, link, control: nix::cmsg_space!(TimeSpec) })
    }

    pub(super) fn link(&self) -> LinkIndex {
        self.link
    }

    pub(super) fn port(&self) -> Port {
        self.resolution.port(self.link)
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

impl AsFd for Packets {
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

/// Classic BPF: IPv6, followed by an ICMPv6 neighbour solicitation or advertisement (RFC 4861, 4.3
/// and 4.4) without an extension header between, and nothing else: this socket sees all IPv6 that
/// the node receives.
const NDP_FILTER: [SockFilter; 9] = [
    SockFilter::new(0x28, 0, 0, 12),     // ldh [12]
    SockFilter::new(0x15, 0, 6, 0x86dd), // jeq ETH_P_IPV6, else drop
    SockFilter::new(0x30, 0, 0, 20),     // ldb [20]
    SockFilter::new(0x15, 0, 4, 58),     // jeq ICMPv6, else drop
    SockFilter::new(0x30, 0, 0, 54),     // ldb [54]
    SockFilter::new(0x35, 0, 2, 135),    // jge solicitation, else drop
    SockFilter::new(0x25, 1, 0, 136),    // jgt advertisement: drop
    SockFilter::new(0x06, 0, 0, 0xffff), // accept
    SockFilter::new(0x06, 0, 0, 0),      // drop
];

fn packet_address(resolution: Resolution, link: LinkIndex) -> io::Result<SockAddr> {
    let fill = |storage: *mut socket2::SockAddrStorage, len: *mut libc::socklen_t| {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: resolution.ether_type().to_be(),
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
