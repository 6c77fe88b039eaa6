//! A few speakers on one segment without delay, everything that is sent kept.

// Each user of this module uses a part of it.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use signpost_packet::{Arp, EtherType, Ethernet, Mac, Ndp, NdpKind, Operation};
use signpost_plan::LinkIndex;
use signpost_speaker::{
    Command, Config, Event, Gate, Input, Instant, Key, Link, Machine, Output, Peer, Port, Speaker,
};

pub(crate) const ETH0: LinkIndex = LinkIndex(2);
pub(crate) const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 64, 1));
pub(crate) const VIP_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x64, 1));
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);
pub(crate) const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x100);
pub(crate) const CLIENT_MAC: Mac = Mac([2, 0xcc, 0, 0, 0, 1]);

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn node_address(i: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 1, i as u8)
}

fn node_address_v6(i: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, i as u16)
}

pub(crate) fn mac(i: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, i as u8])
}

pub(crate) fn name(i: usize) -> String {
    format!("n{i}")
}

/// Runs a test for an address of each family.
pub(crate) fn both(test: impl Fn(IpAddr)) {
    for vip in [VIP, VIP_V6] {
        test(vip);
    }
}

/// A frame of either family.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Packet {
    Arp(Arp),
    Ndp(Ndp),
}

impl Packet {
    fn parse(frame: &[u8]) -> (Ethernet, Self) {
        let (ethernet, rest) = Ethernet::parse(frame).expect("a frame");
        let packet = match ethernet.ether_type {
            EtherType::ARP => Self::Arp(Arp::parse(rest).expect("ARP")),
            EtherType::IPV6 => Self::Ndp(Ndp::parse(rest).expect("neighbour discovery")),
            other => panic!("{other:?} is sent"),
        };
        (ethernet, packet)
    }

    fn port(&self) -> Port {
        match self {
            Self::Arp(_) => Port::Arp(ETH0),
            Self::Ndp(_) => Port::Ndp(ETH0),
        }
    }

    /// Whose Ethernet address it names.
    pub(crate) fn mac(&self) -> Option<Mac> {
        match self {
            Self::Arp(arp) => Some(arp.sender_mac),
            Self::Ndp(ndp) => ndp.mac,
        }
    }

    /// It tells everybody who has an address.
    fn announces(&self, vip: IpAddr) -> bool {
        match (self, vip) {
            (Self::Arp(arp), IpAddr::V4(vip)) => arp.sender == vip && arp.target == vip,
            (Self::Ndp(ndp), IpAddr::V6(vip)) => *ndp == Ndp { mac: ndp.mac, ..announced(vip) },
            _ => false,
        }
    }

    /// It tells the client who has an address.
    fn answers(&self, vip: IpAddr) -> bool {
        match (self, vip) {
            (Self::Arp(arp), IpAddr::V4(vip)) => {
                (arp.operation, arp.sender, arp.target) == (Operation::Reply, vip, CLIENT)
            }
            (Self::Ndp(ndp), IpAddr::V6(vip)) => {
                let kind =
                    NdpKind::Advertisement { router: false, solicited: true, overrides: true };
                let (destination, mac) = (CLIENT_V6, ndp.mac);
                *ndp == Ndp { kind, destination, mac, ..announced(vip) }
            }
            _ => false,
        }
    }
}

fn announced(vip: Ipv6Addr) -> Ndp {
    Ndp::announcement(Mac::ZERO, vip)
}

/// One node.
pub(crate) struct Node {
    pub(crate) speaker: Speaker,
    pub(crate) events: Vec<(Duration, Event)>,
    /// Its process runs.
    pub(crate) runs: bool,
    /// Its kernel is plugged in, and answers for the node's address.
    pub(crate) cable: bool,
    /// Heartbeats reach it; ARP and neighbour discovery do in any case.
    pub(crate) hears_mesh: bool,
    socket: VecDeque<(Port, Instant, Peer, Vec<u8>)>,
}

/// All of them.
pub(crate) struct Segment {
    pub(crate) vip: IpAddr,
    pub(crate) now: Instant,
    pub(crate) nodes: Vec<Node>,
    pub(crate) gateway: bool,
    pub(crate) key: Option<Key>,
    /// Every frame: when, of whom, the packet.
    pub(crate) frames: Vec<(Duration, usize, Packet)>,
    /// Every datagram: of whom, the bytes.
    pub(crate) datagrams: Vec<(usize, Vec<u8>)>,
}

impl Segment {
    /// So many nodes that all serve the VIP, and what they settled on.
    pub(crate) fn settled(vip: IpAddr, nodes: usize) -> Self {
        let mut s = Self::new(vip, nodes, None);
        s.run(ms(2000));
        s
    }

    pub(crate) fn new(vip: IpAddr, nodes: usize, key: Option<Key>) -> Self {
        let mut s = Self {
            vip,
            now: Instant(Duration::from_secs(1000)),
            nodes: Vec::new(),
            gateway: true,
            key,
            frames: Vec::new(),
            datagrams: Vec::new(),
        };
        for i in 0..nodes {
            let speaker = s.process(i, 1);
            let (events, socket) = (Vec::new(), VecDeque::new());
            s.nodes.push(Node {
                speaker,
                events,
                runs: true,
                cable: true,
                hears_mesh: true,
                socket,
            });
        }
        for i in 0..nodes {
            s.set_up(i);
        }
        s
    }

    fn process(&self, i: usize, life: u64) -> Speaker {
        let boot = 1000 * life + i as u64;
        Speaker::new(Config::new((&*name(i)).into(), boot, self.key.clone(), boot))
    }

    /// What the control loop says at first.
    pub(crate) fn set_up(&mut self, i: usize) {
        let peers = (0..self.nodes.len()).map(|p| ((&*name(p)).into(), node_address(p).into()));
        let peers = peers.collect();
        self.order(i, Command::Links(vec![self.link(i, true)]));
        self.order(i, Command::Peers(peers));
        self.order(i, Command::Lease(self.now + Duration::from_secs(3600)));
        self.open(i, 1);
    }

    pub(crate) fn restart(&mut self, i: usize, life: u64) {
        self.nodes[i].speaker = self.process(i, life);
        self.nodes[i].socket.clear();
        self.nodes[i].runs = true;
        self.set_up(i);
    }

    pub(crate) fn link(&self, i: usize, up: bool) -> Link {
        let (address, gateway) = (Some(node_address(i)), Some(GATEWAY));
        let address_v6 = Some(node_address_v6(i));
        Link { index: ETH0, mac: mac(i).0, up, address, address_v6, gateway }
    }

    pub(crate) fn open(&mut self, i: usize, weight: u16) {
        self.order(i, Command::Gate(self.vip, Gate::Open { links: vec![ETH0], weight }));
    }

    pub(crate) fn order(&mut self, i: usize, command: Command) {
        let now = self.now;
        self.nodes[i].speaker.handle(now, Input::Command(command));
        self.carry();
    }

    /// Lets time pass, deadline by deadline.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        let mut turns = 0;
        loop {
            let running = self.nodes.iter().filter(|n| n.runs);
            let next = running.filter_map(|n| n.speaker.deadline()).min();
            let Some(next) = next.filter(|&t| t <= end) else { break };
            turns = if next > self.now { 0 } else { turns + 1 };
            assert!(turns < 10, "somebody asks to be woken for ever");
            self.now = self.now.max(next);
            for i in 0..self.nodes.len() {
                self.wake(i);
            }
            self.carry();
        }
        self.now = end;
    }

    /// Drains its sockets, and wakes it if that is due.
    pub(crate) fn wake(&mut self, i: usize) {
        let (now, node) = (self.now, &mut self.nodes[i]);
        if !node.runs {
            return;
        }
        for (port, at, from, bytes) in node.socket.drain(..) {
            node.speaker.handle(now, Input::Bytes { port, from, at, bytes: &bytes });
        }
        if node.speaker.deadline().is_some_and(|t| t <= now) {
            node.speaker.handle(now, Input::Wake);
        }
    }

    /// Carries what was sent, until nothing is.
    pub(crate) fn carry(&mut self) {
        loop {
            let mut quiet = true;
            for i in 0..self.nodes.len() {
                while let Some(output) = self.nodes[i].speaker.poll() {
                    quiet = false;
                    self.output(i, output);
                }
            }
            for i in 0..self.nodes.len() {
                let (now, node) = (self.now, &mut self.nodes[i]);
                if node.runs {
                    for (port, at, from, bytes) in node.socket.drain(..) {
                        quiet = false;
                        node.speaker.handle(now, Input::Bytes { port, from, at, bytes: &bytes });
                    }
                }
                if node.runs && node.speaker.deadline().is_some_and(|t| t <= now) {
                    quiet = false;
                    node.speaker.handle(now, Input::Wake);
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn output(&mut self, i: usize, output: Output<Event>) {
        match output {
            Output::Event(event) => self.nodes[i].events.push((self.now.0, event)),
            Output::Send { port: Port::Mesh, to, bytes } => {
                self.datagrams.push((i, bytes.clone()));
                for p in 0..self.nodes.len() {
                    let meant = match to {
                        Peer::Multicast(_) => true,
                        Peer::Unicast(a) => a == IpAddr::V4(node_address(p)),
                        Peer::Link => false,
                    };
                    if meant && p != i && self.nodes[i].cable {
                        self.datagram(p, node_address(i), &bytes);
                    }
                }
            }
            Output::Send { port: port @ (Port::Arp(_) | Port::Ndp(_)), bytes, .. } => {
                let (_, packet) = Packet::parse(&bytes);
                assert_eq!(port, packet.port(), "{packet:?}");
                self.frame(Some(i), &bytes);
            }
        }
    }

    /// A datagram for one node.
    pub(crate) fn datagram(&mut self, to: usize, from: Ipv4Addr, bytes: &[u8]) {
        let (now, node) = (self.now, &mut self.nodes[to]);
        if node.cable && node.hears_mesh {
            node.socket.push_back((Port::Mesh, now, Peer::Unicast(from.into()), bytes.to_vec()));
        }
    }

    /// A frame on the wire, of a node or of somebody else.
    pub(crate) fn frame(&mut self, of: Option<usize>, bytes: &[u8]) {
        let (ethernet, packet) = Packet::parse(bytes);
        if let Some(i) = of {
            assert_eq!(packet.mac(), Some(ethernet.source));
            self.frames.push((self.now.0, i, packet));
            if !self.nodes[i].cable {
                return;
            }
        }
        let now = self.now;
        let mut answers = Vec::new();
        let asked = |a: Ipv4Addr| match packet {
            Packet::Arp(arp) if arp.operation == Operation::Request => {
                (arp.target == a).then_some(arp)
            }
            Packet::Arp(_) | Packet::Ndp(_) => None,
        };
        if let Some(arp) = asked(GATEWAY).filter(|_| self.gateway) {
            answers.push(Arp::reply_to(&arp, Mac([2, 0xff, 0, 0, 0, 1])));
        }
        for (p, node) in self.nodes.iter_mut().enumerate() {
            let to = ethernet.destination;
            if Some(p) == of || !node.cable || (to.0[0] & 1 == 0 && to != mac(p)) {
                continue;
            }
            if let Some(arp) = asked(node_address(p)) {
                answers.push(Arp::reply_to(&arp, mac(p)));
            }
            node.socket.push_back((packet.port(), now, Peer::Link, bytes.to_vec()));
        }
        for answer in answers {
            if let Some(i) = of {
                let bytes = answer.frame(answer.target_mac).to_vec();
                self.nodes[i].socket.push_back((Port::Arp(ETH0), now, Peer::Link, bytes));
            }
        }
    }

    /// Who answers a client's question now.
    pub(crate) fn ask(&mut self) -> Vec<usize> {
        let before = self.frames.len();
        match self.vip {
            IpAddr::V4(vip) => {
                let request = Arp::request(CLIENT_MAC, Some(CLIENT), vip);
                self.frame(None, &request.frame(Mac::BROADCAST));
            }
            IpAddr::V6(vip) => {
                let asked = Ndp::solicitation(CLIENT_MAC, CLIENT_V6, vip);
                self.frame(None, &asked.frame(CLIENT_MAC, Mac::of_group(asked.destination)));
            }
        }
        self.carry();
        self.answers_since(before)
    }

    /// Who answered a client since so many frames.
    pub(crate) fn answers_since(&self, before: usize) -> Vec<usize> {
        let answers = self.frames[before..].iter().filter(|f| f.2.answers(self.vip));
        answers.map(|f| f.1).collect()
    }

    /// The announcements of the VIP since so many frames.
    pub(crate) fn announced_since(&self, before: usize) -> Vec<(Duration, usize)> {
        let announced = self.frames[before..].iter().filter(|f| f.2.announces(self.vip));
        announced.map(|f| (f.0, f.1)).collect()
    }

    /// The one that answers.
    pub(crate) fn owner(&mut self) -> usize {
        match self.ask()[..] {
            [one] => one,
            ref other => panic!("{other:?} answer"),
        }
    }
}
