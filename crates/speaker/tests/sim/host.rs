//! A node: its kernel, which answers for its own address, and its process, which may stand still.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;

use signpost_packet::Mac;
use signpost_plan::NodeName;
use signpost_speaker::{
    Command, Config, Event, Gate, Input, Instant, Link, Machine, Output, Peer, Port, Speaker,
};

use super::{Deadline, ETH0, GATEWAY, Random, Time, instant};

/// Datagrams that a socket holds for a process that does not read.
const SOCKET_MAX: usize = 500;
/// How long a lease of the control loop lasts.
const LEASE: Time = 2_000_000;

pub(super) struct Packet {
    pub(super) port: Port,
    pub(super) from: Peer,
    pub(super) at: Time,
    pub(super) bytes: Rc<[u8]>,
}

pub(super) struct Host {
    pub(super) name: NodeName,
    pub(super) address: Ipv4Addr,
    index: usize,
    offset: Time,
    pub(super) speaker: Option<Speaker>,
    /// Counts its processes.
    pub(super) life: u64,
    pub(super) started_at: Time,
    /// The part of the segment that it is plugged into; the gateway is in 0.
    pub(super) island: usize,
    pub(super) carrier: bool,
    pub(super) mesh_group: usize,
    pub(super) powered_off: bool,
    pub(super) paused_until: Option<Time>,
    pub(super) control_hangs: bool,
    pub(super) leased_until: Time,
    /// Wakes come late by at most that.
    pub(super) late: Time,
    /// The kernel's stamps are older than they ought to be by at most that.
    pub(super) skew: Time,
    pub(super) drained: bool,
    /// It said that it would be back by then, and what it answered for when it did.
    pub(super) away_until: Time,
    pub(super) kept: Vec<usize>,
    /// Addresses that this node serves, and whether the gate is open, since when.
    pub(super) serves: Vec<Option<Gated>>,
    pub(super) gates_open: bool,
    /// Something changed that its control loop has not told.
    pub(super) behind: bool,
    socket: VecDeque<Packet>,
    pub(super) alarm: u64,
    pub(super) armed: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Gated {
    pub(super) open: bool,
    pub(super) since: Time,
}

pub(super) fn index_of(a: Ipv4Addr) -> usize {
    (u32::from(a) - u32::from(Ipv4Addr::new(10, 0, 1, 0))) as usize
}

const FIRST: Ipv4Addr = Ipv4Addr::new(10, 0, 64, 0);
const FIRST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0);

/// Every other one is of IPv6.
pub(super) fn address(index: usize) -> IpAddr {
    if index.is_multiple_of(2) {
        Ipv4Addr::from(u32::from(FIRST) + index as u32).into()
    } else {
        Ipv6Addr::from(u128::from(FIRST_V6) + index as u128).into()
    }
}

pub(super) fn address_index(a: IpAddr) -> usize {
    match a {
        IpAddr::V4(a) => (u32::from(a) - u32::from(FIRST)) as usize,
        IpAddr::V6(a) => (u128::from(a) - u128::from(FIRST_V6)) as usize,
    }
}

impl Host {
    pub(super) fn new(index: usize, random: &mut Random, addresses: usize) -> Self {
        // Some addresses are served everywhere, some (externalTrafficPolicy: Local) by a part.
        let serves = (0..addresses)
            .map(|a| {
                let everywhere = a % 3 != 0 || a % 7 == index % 7;
                (everywhere || random.chance(50)).then_some(Gated { open: true, since: 0 })
            })
            .collect();
        Self {
            name: NodeName(format!("n{index}").into()),
            address: Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 1, 0)) + index as u32),
            index,
            offset: random.below(1_000_000_000),
            speaker: None,
            life: 0,
            started_at: 0,
            island: 0,
            carrier: true,
            mesh_group: 0,
            powered_off: false,
            paused_until: None,
            control_hangs: false,
            leased_until: 0,
            late: 0,
            skew: 0,
            drained: false,
            away_until: 0,
            kept: Vec::new(),
            serves,
            gates_open: false,
            behind: false,
            socket: VecDeque::new(),
            alarm: 0,
            armed: None,
        }
    }

    pub(super) fn mac(&self) -> Mac {
        Mac([2, 0, 0, 0, (self.index >> 8) as u8, self.index as u8])
    }

    /// The island that its cable leads to.
    pub(super) fn cable(&self) -> Option<usize> {
        (self.carrier && !self.powered_off).then_some(self.island)
    }

    pub(super) fn linked(&self, other: &Self) -> bool {
        self.cable().is_some() && self.cable() == other.cable()
    }

    pub(super) fn runs(&self) -> bool {
        self.speaker.is_some() && self.paused_until.is_none()
    }

    pub(super) fn start(&mut self, now: Time, boot: u64, peers: Vec<(NodeName, IpAddr)>) {
        self.life += 1;
        self.started_at = now;
        self.gates_open = false;
        self.armed = None;
        self.paused_until = None;
        self.socket.clear();
        self.speaker = Some(Speaker::new(Config::new(self.name.clone(), boot, None, boot)));
        self.order(now, Command::Links(vec![self.link()]));
        self.order(now, Command::Peers(peers));
        self.renew(now);
    }

    pub(super) fn stop(&mut self) {
        self.speaker = None;
        self.gates_open = false;
        self.socket.clear();
    }

    fn link(&self) -> Link {
        Link {
            index: ETH0,
            mac: self.mac().0,
            up: self.carrier,
            address: Some(self.address),
            address_v6: Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, self.index as u16)),
            gateway: Some(GATEWAY),
        }
    }

    pub(super) fn tell_link(&mut self, now: Time) {
        self.order(now, Command::Links(vec![self.link()]));
    }

    pub(super) fn renew(&mut self, now: Time) {
        self.leased_until = now + LEASE;
        self.order(now, Command::Lease(instant(self.leased_until, self.offset)));
    }

    /// Its control loop after a standstill.
    pub(super) fn catch_up(&mut self, now: Time) {
        if !self.control_hangs {
            self.renew(now);
        }
        if std::mem::take(&mut self.behind) {
            self.tell_link(now);
            if self.gates_open {
                self.open_gates(now);
            }
        }
    }

    pub(super) fn open_gates(&mut self, now: Time) {
        self.gates_open = true;
        for a in 0..self.serves.len() {
            self.tell_gate(now, a);
        }
    }

    pub(super) fn tell_gate(&mut self, now: Time, a: usize) {
        if let Some(gated) = &mut self.serves[a] {
            gated.since = now;
            let weight = if self.drained { 0 } else { 1 };
            let open = gated.open && self.gates_open;
            let gate = if open { Gate::Open { links: vec![ETH0], weight } } else { Gate::Shut };
            self.order(now, Command::Gate(address(a), gate));
        }
    }

    pub(super) fn describe(&self, now: Time) -> String {
        format!(
            "n{} runs {} cable {:?} mesh {} lease {} gates {} drained {} answers {:?}",
            self.index,
            self.runs(),
            self.cable(),
            self.mesh_group,
            now < self.leased_until,
            self.gates_open,
            self.drained,
            self.speaker.iter().flat_map(|s| s.answering(self.clock(now))).collect::<Vec<_>>()
        )
    }

    pub(super) fn leave(&mut self, now: Time, back: Option<Duration>) {
        let clock = self.clock(now);
        let answering = self.speaker.iter().flat_map(|s| s.answering(clock));
        self.kept = answering.map(address_index).collect();
        self.away_until = back.map_or(0, |b| now + super::micros(b));
        self.order(now, Command::Leave(back));
    }

    pub(super) fn order(&mut self, now: Time, command: Command) {
        let now = self.clock(now);
        if let Some(speaker) = &mut self.speaker {
            speaker.handle(now, Input::Command(command));
        }
    }

    pub(super) fn clock(&self, now: Time) -> Instant {
        instant(now, self.offset)
    }

    /// Whether the process reads it at once.
    pub(super) fn receive(&mut self, packet: Packet) -> bool {
        if self.speaker.is_some() && self.socket.len() < SOCKET_MAX {
            self.socket.push_back(packet);
        }
        self.runs()
    }

    pub(super) fn drain(&mut self, now: Time) -> u64 {
        let (clock, offset, skew) = (self.clock(now), self.offset, self.skew);
        let Some(speaker) = &mut self.speaker else { return 0 };
        let mut inputs = 0;
        for packet in self.socket.drain(..) {
            let at = instant(packet.at.saturating_sub(packet.at % (skew + 1)), offset);
            let bytes = &packet.bytes[..];
            speaker.handle(clock, Input::Bytes { port: packet.port, from: packet.from, at, bytes });
            inputs += 1;
        }
        // A deadline of now is met again at once; a machine that never gets beyond it is broken.
        for turn in 0.. {
            if !speaker.due(clock) {
                break;
            }
            assert!(turn < 10, "{:?} asks to be woken for ever", self.name);
            speaker.handle(clock, Input::Wake);
            inputs += 1;
        }
        inputs
    }

    pub(super) fn poll(&mut self) -> Option<Output<Event>> {
        self.speaker.as_mut().and_then(Machine::poll)
    }

    pub(super) fn recycle(&mut self, bytes: Vec<u8>) {
        if let Some(speaker) = &mut self.speaker {
            speaker.recycle(bytes);
        }
    }

    pub(super) fn deadline(&self, now: Time) -> Option<Time> {
        let at = self.speaker.as_ref()?.deadline()?.0;
        let offset = Duration::from_micros(self.offset);
        let nanos = at.saturating_sub(offset).as_nanos();
        Some((nanos.div_ceil(1000).min(u128::from(u64::MAX / 2)) as Time).max(now))
    }
}
