//! A netlink socket: opened, sized, sent to and read with a time limit.

#![allow(unsafe_code)]

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{self, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, sockopt};

/// The largest datagram that the kernel sends: dumps are built in 32 KiB (netlink_dump()), events
/// in a page or two.
pub(crate) const DATAGRAM: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    port: u32,
}

impl Socket {
    /// Opens a socket with a port id that the kernel chooses, in the groups of the mask.
    pub(crate) fn open(protocol: SockProtocol, groups: u32) -> io::Result<Self> {
        let fd = socket::socket(
            socket::AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            protocol,
        )?;
        socket::bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Self::from_fd(fd)
    }

    /// Takes over a bound socket.
    pub(crate) fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let address: NetlinkAddr = socket::getsockname(fd.as_raw_fd())?;
        Ok(Self { fd, port: address.pid() })
    }

    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    /// SO_SNDBUFFORCE; in a user namespace, where that is refused, what wmem_max allows.
    pub(crate) fn set_send_buffer(&self, bytes: usize) -> io::Result<()> {
        socket::setsockopt(&self.fd, sockopt::SndBufForce, &bytes)
            .or_else(|_| socket::setsockopt(&self.fd, sockopt::SndBuf, &bytes))
            .map_err(io::Error::from)
    }

    /// SO_RCVBUFFORCE; in a user namespace, where that is refused, what rmem_max allows.
    pub(crate) fn set_receive_buffer(&self, bytes: usize) -> io::Result<()> {
        socket::setsockopt(&self.fd, sockopt::RcvBufForce, &bytes)
            .or_else(|_| socket::setsockopt(&self.fd, sockopt::RcvBuf, &bytes))
            .map_err(io::Error::from)
    }

    /// Errors without a copy of the request (NETLINK_CAP_ACK), but with the offset of the attribute
    /// that was refused (NETLINK_EXT_ACK).
    pub(crate) fn set_short_errors(&self) -> io::Result<()> {
        self.set_netlink_option(libc::NETLINK_CAP_ACK, 1)?;
        self.set_netlink_option(libc::NETLINK_EXT_ACK, 1)
    }

    pub(crate) fn join(&self, group: u8) -> io::Result<()> {
        self.set_netlink_option(libc::NETLINK_ADD_MEMBERSHIP, group.into())
    }

    pub(crate) fn leave(&self, group: u8) -> io::Result<()> {
        self.set_netlink_option(libc::NETLINK_DROP_MEMBERSHIP, group.into())
    }

    /// Sends to the kernel, as one datagram.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let kernel = NetlinkAddr::new(0, 0);
        loop {
            match socket::sendto(self.fd.as_raw_fd(), bytes, &kernel, MsgFlags::empty()) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Reads a datagram of the kernel; `None`: there is none.
    pub(crate) fn receive<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        loop {
            let mut parts = [IoSliceMut::new(buffer)];
            let received = socket::recvmsg::<NetlinkAddr>(
                self.fd.as_raw_fd(),
                &mut parts,
                None,
                MsgFlags::MSG_DONTWAIT,
            );
            let (len, from_kernel, truncated) = match received {
                Ok(m) => (
                    m.bytes,
                    m.address.is_some_and(|from| from.pid() == 0),
                    m.flags.contains(MsgFlags::MSG_TRUNC),
                ),
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            };
            if truncated {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "datagram over 64 KiB"));
            }
            if from_kernel {
                return Ok(Some(&buffer[..len]));
            }
        }
    }

    /// Waits until there is something to read; false: the time is over.
    pub(crate) fn wait(&self, limit: Duration) -> io::Result<bool> {
        let timeout = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        loop {
            let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, timeout) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn set_netlink_option(&self, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        // SAFETY: the pointer and the length are those of `value`, which outlives the call.
        let result = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_NETLINK,
                option,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        Errno::result(result).map(drop).map_err(io::Error::from)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// ENOBUFS, or a datagram larger than the kernel sends.
pub(crate) fn lost_events(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS) || error.kind() == io::ErrorKind::InvalidData
}
