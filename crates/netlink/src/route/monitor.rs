//! What happens to links, addresses, routes and forwarding.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::socket::SockProtocol;

use super::decode;
use crate::message::{Malformed, Message, Messages};
use crate::socket::{DATAGRAM, Socket, lost_events};

/// RTNLGRP_LINK, _IPV4_IFADDR, _IPV4_ROUTE, _IPV6_IFADDR, _IPV6_ROUTE, _IPV4_NETCONF and
/// _IPV6_NETCONF.
const GROUPS: [u32; 7] = [1, 5, 7, 9, 11, 24, 25];
/// A node's pods and routes come in bursts.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
/// The caller gets to do something else in between.
const DATAGRAMS_PER_DRAIN: usize = 4096;

/// Listens to a network namespace.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    buffer: Box<[u8]>,
}

/// What the kernel tells. For more than what it says, read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A link is new or changed.
    Link {
        /// Its index.
        index: u32,
        /// See [`super::Link::up`].
        up: bool,
        /// See [`super::Link::mac`].
        mac: Option<[u8; 6]>,
    },
    /// The link with this index is gone.
    LinkGone(u32),
    /// The link with this index got, lost or changed an address.
    Address(u32),
    /// A default route came, went or changed.
    DefaultRoute,
    /// The link with this index started or stopped forwarding.
    Forwarding(u32),
    /// Events were lost, or could not be read.
    Overrun,
}

impl Monitor {
    /// Listens in this thread's network namespace.
    pub fn open() -> io::Result<Self> {
        let groups = GROUPS.iter().fold(0, |all, group| all | 1 << (group - 1));
        let socket = Socket::open(SockProtocol::NetlinkRoute, groups)?;
        socket.set_receive_buffer(RECEIVE_BUFFER_BYTES)?;
        Ok(Self { socket, buffer: vec![0; DATAGRAM].into() })
    }

    /// What came since, without waiting. There can be more: it ends early after a lot.
    pub fn drain(&mut self) -> io::Result<Vec<Event>> {
        let mut events = Vec::new();
        for _ in 0..DATAGRAMS_PER_DRAIN {
            let datagram = match self.socket.receive(&mut self.buffer) {
                Ok(Some(datagram)) => datagram,
                Ok(None) => break,
                Err(error) if lost_events(&error) => {
                    events.push(Event::Overrun);
                    continue;
                }
                Err(error) => return Err(error),
            };
            for message in Messages::new(datagram) {
                match message.and_then(|message| event(&message)) {
                    Ok(event) => events.extend(event),
                    Err(Malformed(_)) => events.push(Event::Overrun),
                }
            }
        }
        Ok(events)
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

pub(super) fn event(message: &Message<'_>) -> Result<Option<Event>, Malformed> {
    Ok(match message.kind {
        decode::NEW_LINK => {
            let link = decode::link(message.payload)?;
            Some(Event::Link { index: link.index, up: link.up, mac: link.mac })
        }
        // A port that leaves its bridge is told of in the same way, for the family of bridges.
        decode::DEL_LINK if message.payload.first() == Some(&0) => {
            Some(Event::LinkGone(decode::link(message.payload)?.index))
        }
        decode::NEW_ADDRESS | decode::DEL_ADDRESS => {
            Some(Event::Address(decode::address(message.payload)?.0))
        }
        decode::NEW_ROUTE | decode::DEL_ROUTE => {
            let mut routes = Vec::new();
            decode::default_routes(message.payload, &mut routes)?;
            (!routes.is_empty()).then_some(Event::DefaultRoute)
        }
        decode::NEW_NETCONF | decode::DEL_NETCONF => {
            decode::forwarding(message.payload)?.map(|(_, index, _)| Event::Forwarding(index))
        }
        _ => None,
    })
}
