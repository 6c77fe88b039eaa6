//! Protocols as machines: bytes in, bytes out, time given.
//!
//! Every protocol here is a [`Machine`]. It owns no socket, reads no clock and starts no thread, so
//! a crowd of them runs in a simulation faster than in time, and the same run replays from a seed.
//! [`Speaker`] is the one that the agent drives: the control loop's lease, the mesh (who owns an
//! address) and the responder for ARP and neighbour discovery, composed so that no path leads around the gate.

mod config;
mod l2;
mod lease;
mod mesh;
mod outbox;
mod speaker;
mod time;

use std::net::IpAddr;
use std::time::Duration;

pub use config::Config;
pub use mesh::auth::{KEY_MAX, KEY_MIN, Key, KeyError};
pub use speaker::Speaker;

use signpost_plan::{LinkIndex, NodeName};

/// A point in time: since the driver's clock began. Never the operating system's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub Duration);

/// Where bytes come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// The mesh's UDP socket.
    Mesh,
    /// An AF_PACKET socket for ARP on an interface; bytes are whole Ethernet frames.
    Arp(LinkIndex),
    /// The same for neighbour discovery.
    Ndp(LinkIndex),
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// The mesh's multicast group, on an interface.
    Multicast(LinkIndex),
    /// One member's address (its mesh port is the same as ours).
    Unicast(IpAddr),
    /// Whoever the frame's destination address names.
    Link,
}

/// What a driver gives a machine.
#[derive(Clone, Debug)]
pub enum Input<'a, C> {
    /// A datagram or frame. `at` is the kernel's receive stamp, never later than `now`.
    Bytes {
        /// Where it came in.
        port: Port,
        /// Who sent it.
        from: Peer,
        /// When the kernel received it.
        at: Instant,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// An order.
    Command(C),
    /// `now` has reached the deadline; everything that had arrived by then was handed over before.
    Wake,
}

/// What a machine asks of its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<E> {
    /// Send this.
    Send {
        /// From where.
        port: Port,
        /// To whom.
        to: Peer,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Something that others should know.
    Event(E),
}

/// A protocol without I/O.
pub trait Machine {
    /// Orders.
    type Command;
    /// News.
    type Event;
    /// Takes an input.
    fn handle(&mut self, now: Instant, input: Input<'_, Self::Command>);
    /// The next output, until there is none.
    fn poll(&mut self) -> Option<Output<Self::Event>>;
    /// When to hand over a [`Input::Wake`] next.
    fn deadline(&self) -> Option<Instant>;
}

/// An interface as the speaker needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The kernel's number.
    pub index: LinkIndex,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Up, with a carrier.
    pub up: bool,
    /// Our own address there (sender of probes).
    pub address: Option<std::net::Ipv4Addr>,
    /// Our own IPv6 address there: without one, no IPv6 address is probed.
    pub address_v6: Option<std::net::Ipv6Addr>,
    /// The gateway there, if any: heard means that we are not cut off.
    pub gateway: Option<std::net::Ipv4Addr>,
}

/// What control allows for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// This node serves it: it may own and answer, on these interfaces.
    Open {
        /// Where.
        links: Vec<LinkIndex>,
        /// See `plan::Member::weight`.
        weight: u16,
    },
    /// As it stands, but shut at this time unless told otherwise: a repair is under way.
    ShutAt(Instant),
    /// It must not.
    Shut,
}

/// Orders of the control loop to the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The gate of one address.
    Gate(IpAddr, Gate),
    /// The interfaces, whole.
    Links(Vec<Link>),
    /// The other nodes that may be members, whole: unicast goes there beside multicast.
    Peers(Vec<(NodeName, IpAddr)>),
    /// Control lives; if this is not renewed by then, withdraw everything.
    Lease(Instant),
    /// This process ends: tell the members. `Some`: keep everything, back by then. `None`: for good.
    Leave(Option<Duration>),
}

/// News of the wire for the control loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An address's owner changed, in this member's eyes; `None`: nobody's.
    Owner(IpAddr, Option<NodeName>),
    /// A member came, went or changed its state.
    Member(NodeName, MemberState),
    /// Neither a member nor the gateway is heard (true), or one is again.
    CutOff(bool),
    /// The lease lapsed (true) or is held again.
    LeaseLapsed(bool),
    /// A datagram from there did not authenticate: another key, or an attack.
    WrongKey(IpAddr),
    /// Somebody else answers for an address that we own.
    Conflict {
        /// The address.
        address: IpAddr,
        /// The stranger.
        mac: [u8; 6],
    },
    /// This process was stopped for so long that it stood back and listened first.
    Stalled(Duration),
}

/// What this member knows of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberState {
    /// Named by the cluster, never heard.
    NeverHeard,
    /// Heard in time.
    Alive,
    /// Missed heartbeats; being probed.
    Suspect,
    /// Said that it restarts; keeps what it owns until then.
    Away,
    /// Gone.
    Dead,
}
