//! What happens to one table, by whom.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::socket::SockProtocol;
use signpost_nft::{Element, Family};

use super::{constants as nf, decode};
use crate::message::{Malformed, Message, Messages, be32, string};
use crate::socket::{DATAGRAM, Socket, lost_events};

/// NFNLGRP_NFTABLES
const GROUP: u8 = 7;
/// The load of 100,000 elements overruns the default buffer.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;
/// Others' loads are told of in many datagrams: the caller gets to do something else in between.
const DATAGRAMS_PER_DRAIN: usize = 4096;

/// Listens to the changes of one table, and to all transactions.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    family: Family,
    table: Box<str>,
    ignored_port: Option<u32>,
    buffer: Box<[u8]>,
}

/// What the kernel tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The table changed.
    Change {
        /// The port id of the session that did it, see [`super::Session::portid`].
        port: u32,
        /// The transaction's number, its lower 16 bits.
        generation: u16,
        /// What changed.
        kind: ChangeKind,
    },
    /// A transaction is through, on whatever table; its changes came before.
    Generation {
        /// The port id of the session that did it.
        port: u32,
        /// The transaction's number.
        id: u32,
        /// The name of the process.
        process: Box<str>,
    },
    /// Events were lost, or could not be read: read the table.
    Overrun,
}

/// What changed in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was made, or its flags changed.
    NewTable,
    /// It was deleted.
    DeleteTable,
    /// A chain was made or changed.
    NewChain(Box<str>),
    /// A chain was deleted.
    DeleteChain(Box<str>),
    /// The chain got a rule.
    NewRule(Box<str>),
    /// The chain lost a rule.
    DeleteRule(Box<str>),
    /// A set or map was made.
    NewSet(Box<str>),
    /// A set or map was deleted.
    DeleteSet(Box<str>),
    /// The set or map got elements.
    NewElements(Box<str>, Vec<Element>),
    /// The set or map lost elements.
    DeleteElements(Box<str>, Vec<Element>),
}

impl Monitor {
    /// Listens in this thread's network namespace.
    pub fn open(family: Family, table: &str) -> io::Result<Self> {
        let socket = Socket::open(SockProtocol::NetlinkNetFilter, 0)?;
        socket.join(GROUP)?;
        socket.set_receive_buffer(RECEIVE_BUFFER_BYTES)?;
        let buffer = vec![0; DATAGRAM].into();
        Ok(Self { socket, family, table: table.into(), ignored_port: None, buffer })
    }

    /// Leaves out the changes of the session with this port id; its [`Event::Generation`]s stay.
    pub fn ignore(&mut self, port: u32) {
        self.ignored_port = Some(port);
    }

    /// Hears nothing until [`Self::resume`]. For a large load of one's own: the kernel writes an
    /// event for each element as long as anybody listens, which makes 110,000 take twice as long.
    /// That [`super::Session::generation`] then went up by one for each own transaction says that
    /// nobody else wrote meanwhile.
    pub fn pause(&mut self) -> io::Result<()> {
        self.socket.leave(GROUP)
    }

    /// Listens again.
    pub fn resume(&mut self) -> io::Result<()> {
        self.socket.join(GROUP)
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
                let filter = (self.family, &*self.table, self.ignored_port);
                match message.and_then(|message| event(&message, filter)) {
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

/// `None`: of another table, or of a kind that says nothing about rules.
pub(crate) fn event(
    message: &Message<'_>,
    (of_family, of_table, ignored_port): (Family, &str, Option<u32>),
) -> Result<Option<Event>, Malformed> {
    if message.kind >> 8 != nf::SUBSYSTEM {
        return Ok(None);
    }
    let kind = message.kind & 0xff;
    let (family, attributes) = decode::split(message.payload)?;
    let port = message.port;
    if kind == nf::NEW_GENERATION {
        let [_, id, _, process] = attributes.by_type()?;
        let id = be32(id.ok_or(Malformed("a generation without number"))?)?;
        let process = process.map_or(Ok(""), string)?.into();
        return Ok(Some(Event::Generation { port, id, process }));
    }
    if family != nf::family(of_family) || ignored_port == Some(port) {
        return Ok(None);
    }
    // Every kind of object names its table first, under the same number.
    let [_, table] = attributes.clone().by_type()?;
    if table.map(string).transpose()? != Some(of_table) {
        return Ok(None);
    }
    let change = match kind {
        nf::NEW_TABLE => ChangeKind::NewTable,
        nf::DEL_TABLE => ChangeKind::DeleteTable,
        nf::NEW_CHAIN => ChangeKind::NewChain(decode::chain(attributes)?.name.into()),
        nf::DEL_CHAIN => ChangeKind::DeleteChain(decode::chain(attributes)?.name.into()),
        nf::NEW_RULE => ChangeKind::NewRule(decode::rule(attributes)?.chain.into()),
        nf::DEL_RULE => ChangeKind::DeleteRule(decode::rule(attributes)?.chain.into()),
        nf::NEW_SET => ChangeKind::NewSet(decode::set(attributes)?.name.into()),
        nf::DEL_SET => ChangeKind::DeleteSet(decode::set(attributes)?.name.into()),
        nf::NEW_ELEMENTS => {
            let list = decode::elements(attributes)?;
            ChangeKind::NewElements(list.set.into(), list.elements)
        }
        nf::DEL_ELEMENTS => {
            let list = decode::elements(attributes)?;
            ChangeKind::DeleteElements(list.set.into(), list.elements)
        }
        _ => return Ok(None),
    };
    let generation = match message.payload {
        [_, _, high, low, ..] => u16::from_be_bytes([*high, *low]),
        _ => return Err(Malformed("fixed part is missing")),
    };
    Ok(Some(Event::Change { port, generation, kind: change }))
}
