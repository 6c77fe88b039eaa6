//! A segment with a crowd of members on it, from one number: every run repeats.

// Each user of this module (the test, the example) uses a part of it.
#![allow(dead_code)]

mod check;
mod fault;
mod host;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use signpost_packet::{Arp, Ethernet, Mac, Operation};
use signpost_plan::{LinkIndex, NodeName};
use signpost_speaker::{Event, Instant, Machine, Output, Peer, Port};

use self::check::Check;
use self::fault::Fault;
use self::host::{Host, Packet};

pub(crate) const ETH0: LinkIndex = LinkIndex(2);
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const GATEWAY_MAC: Mac = Mac([2, 0xff, 0, 0, 0, 1]);

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) members: usize,
    pub(crate) addresses: usize,
    pub(crate) length: Duration,
    pub(crate) faults: usize,
    pub(crate) log: bool,
}

/// What came out.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) violations: Vec<String>,
    pub(crate) log: Vec<String>,
    pub(crate) inputs: u64,
    pub(crate) moves: u64,
    pub(crate) faults: usize,
    /// The longest that two answered who heard each other, and that none did who could.
    pub(crate) longest_two: Duration,
    pub(crate) longest_none: Duration,
}

/// Microseconds since the world began.
pub(crate) type Time = u64;

pub(crate) fn micros(span: Duration) -> Time {
    span.as_micros() as Time
}

/// xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
        random.0 |= 1;
        (0..8).for_each(|_| {
            random.next();
        });
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        percent > 0 && self.below(100) < percent
    }
}

/// What happens at a time.
enum Happening {
    /// A datagram of `from` reaches the group, or one.
    Datagram {
        from: usize,
        to: Option<usize>,
        bytes: Rc<[u8]>,
    },
    /// A frame of `from` (`None`: the gateway) is on the segment.
    Frame {
        from: Option<usize>,
        port: Port,
        bytes: Rc<[u8]>,
    },
    /// A process wakes, if this is its latest alarm.
    Wake {
        host: usize,
        alarm: u64,
    },
    /// A process runs again.
    Resume(usize),
    /// Its control loop turns: renews the lease.
    Control(usize),
    /// A process starts.
    Start(usize),
    /// Its gates open after it started.
    Gates {
        host: usize,
        life: u64,
    },
    Fault(Fault),
    Sample,
}

struct Scheduled {
    at: Time,
    order: u64,
    what: Happening,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// The segment and all on it.
pub(crate) struct World {
    now: Time,
    order: u64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    hosts: Vec<Host>,
    size: Size,
    seed: u64,
    random: Random,
    loss: u64,
    sample: Time,
    check: Check,
    outcome: Outcome,
}

/// Runs one number.
pub(crate) fn run(seed: u64, size: Size) -> Outcome {
    let mut world = World::new(seed, size);
    world.script();
    world.run();
    world.outcome
}

impl World {
    fn new(seed: u64, size: Size) -> Self {
        let mut random = Random::new(seed);
        let hosts: Vec<_> =
            (0..size.members).map(|i| Host::new(i, &mut random, size.addresses)).collect();
        let sample = if size.members > 20 { 50_000 } else { 10_000 };
        let mut world = Self {
            now: 0,
            order: 0,
            queue: BinaryHeap::new(),
            check: Check::new(&hosts, size.addresses, sample),
            hosts,
            size,
            seed,
            random,
            loss: 0,
            sample,
            outcome: Outcome::default(),
        };
        for host in 0..size.members {
            let at = world.random.below(200_000);
            world.at(at, Happening::Start(host));
        }
        world.at(sample, Happening::Sample);
        world
    }

    fn at(&mut self, at: Time, what: Happening) {
        self.order += 1;
        self.queue.push(Reverse(Scheduled { at, order: self.order, what }));
    }

    fn say(&mut self, text: impl FnOnce() -> String) {
        if self.size.log {
            self.outcome.log.push(format!("{:>9.3} {}", self.now as f64 / 1e6, text()));
        }
    }

    fn run(&mut self) {
        let end = micros(self.size.length);
        while let Some(Reverse(next)) = self.queue.pop() {
            if next.at > end {
                break;
            }
            self.now = next.at;
            self.happen(next.what);
            if !self.outcome.violations.is_empty() {
                break;
            }
        }
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Datagram { from, to: Some(to), bytes } => self.deliver(from, to, &bytes),
            Happening::Datagram { from, to: None, bytes } => {
                for to in 0..self.hosts.len() {
                    self.deliver(from, to, &bytes);
                }
            }
            Happening::Frame { from, port, bytes } => self.frame(from, port, &bytes),
            Happening::Wake { host, alarm } => {
                if self.hosts[host].alarm == alarm {
                    self.hosts[host].armed = None;
                    self.turn(host);
                }
            }
            Happening::Resume(host) => {
                if self.hosts[host].paused_until.is_some_and(|t| t <= self.now) {
                    self.hosts[host].paused_until = None;
                    self.say(|| format!("n{host} runs again"));
                    self.turn(host);
                    self.hosts[host].catch_up(self.now);
                    self.turn(host);
                }
            }
            Happening::Control(host) => {
                let h = &mut self.hosts[host];
                if h.runs() && !h.control_hangs {
                    h.renew(self.now);
                    self.turn(host);
                }
                self.at(self.now + 500_000, Happening::Control(host));
            }
            Happening::Start(host) => self.start(host),
            Happening::Gates { host, life } => {
                if self.hosts[host].life == life && self.hosts[host].speaker.is_some() {
                    self.hosts[host].open_gates(self.now);
                    self.turn(host);
                }
            }
            Happening::Fault(fault) => self.fault(fault),
            Happening::Sample => {
                let found = self.check.sample(self.now, &self.hosts, &mut self.outcome);
                for text in found {
                    self.say(|| format!("VIOLATION {text}"));
                    for h in 0..self.hosts.len() {
                        let line = self.hosts[h].describe(self.now);
                        self.say(|| line);
                    }
                    self.outcome.violations.push(format!("seed {}: {text}", self.seed));
                }
                self.at(self.now + self.sample, Happening::Sample);
            }
        }
    }

    fn start(&mut self, host: usize) {
        let peers: Vec<(NodeName, IpAddr)> =
            self.hosts.iter().map(|h| (h.name.clone(), IpAddr::V4(h.address))).collect();
        let boot = self.random.next();
        let h = &mut self.hosts[host];
        if h.speaker.is_some() || h.powered_off {
            return;
        }
        h.start(self.now, boot, peers);
        let life = h.life;
        self.say(|| format!("n{host} starts"));
        if life == 1 {
            self.at(self.now + 500_000, Happening::Control(host));
        }
        let open = self.now + self.random.between(1_000, 200_000);
        self.at(open, Happening::Gates { host, life });
        self.turn(host);
    }

    /// The driver's turn: read the clock, drain the sockets, then wake; send what comes out.
    fn turn(&mut self, host: usize) {
        let h = &mut self.hosts[host];
        if !h.runs() {
            return;
        }
        self.outcome.inputs += h.drain(self.now);
        self.collect(host);
        let jitter = if self.hosts[host].late > 0 {
            self.random.below(self.hosts[host].late)
        } else {
            self.random.below(300)
        };
        let h = &mut self.hosts[host];
        let Some(at) = h.deadline(self.now) else { return };
        if h.armed != Some(at) {
            h.armed = Some(at);
            h.alarm += 1;
            let alarm = h.alarm;
            self.at(at.max(self.now) + jitter, Happening::Wake { host, alarm });
        }
    }

    fn collect(&mut self, host: usize) {
        while let Some(output) = self.hosts[host].poll() {
            match output {
                Output::Send { port: Port::Mesh, to, bytes } => {
                    let to = match to {
                        Peer::Multicast(_) => None,
                        Peer::Unicast(IpAddr::V4(a)) => Some(host::index_of(a)),
                        Peer::Unicast(IpAddr::V6(_)) | Peer::Link => continue,
                    };
                    let at = self.now + self.random.between(100, 1_000);
                    let copy = Rc::from(&bytes[..]);
                    self.at(at, Happening::Datagram { from: host, to, bytes: copy });
                    self.hosts[host].recycle(bytes);
                }
                Output::Send { port: port @ (Port::Arp(_) | Port::Ndp(_)), bytes, .. } => {
                    let at = self.now + self.random.between(100, 1_000);
                    let copy = Rc::from(&bytes[..]);
                    self.at(at, Happening::Frame { from: Some(host), port, bytes: copy });
                    self.hosts[host].recycle(bytes);
                }
                Output::Event(event) => self.event(host, &event),
            }
        }
    }

    fn event(&mut self, host: usize, event: &Event) {
        if let Event::Owner(address, Some(owner)) = event
            && *owner == self.hosts[host].name
        {
            self.outcome.moves += 1;
            if self.hosts[host].island == 0 {
                self.check.owned(host::address_index(*address), self.now);
            }
        }
        self.say(|| format!("n{host} {event:?}"));
    }

    fn deliver(&mut self, from: usize, to: usize, bytes: &Rc<[u8]>) {
        if from == to || to >= self.hosts.len() || !self.hears(from, to) {
            return;
        }
        if self.random.chance(self.loss) {
            return;
        }
        let peer = Peer::Unicast(IpAddr::V4(self.hosts[from].address));
        let packet = Packet { port: Port::Mesh, from: peer, at: self.now, bytes: bytes.clone() };
        if self.hosts[to].receive(packet) {
            self.turn(to);
        }
    }

    fn hears(&self, from: usize, to: usize) -> bool {
        let (a, b) = (&self.hosts[from], &self.hosts[to]);
        a.linked(b) && a.mesh_group == b.mesh_group
    }

    fn frame(&mut self, from: Option<usize>, port: Port, bytes: &Rc<[u8]>) {
        let Some((ethernet, _)) = Ethernet::parse(bytes) else { return };
        // Of the kernels' own addresses only those of IPv4 are asked for.
        let arp = Arp::parse_frame(bytes).map(|(_, arp)| arp);
        let asked =
            |a: Ipv4Addr| arp.filter(|arp| arp.operation == Operation::Request && arp.target == a);
        let island = from.map_or(Some(0), |f| self.hosts[f].cable());
        let Some(island) = island else { return };
        let all = !ethernet.destination.is_unicast();
        for to in 0..self.hosts.len() {
            let h = &self.hosts[to];
            let reached = Some(to) != from && h.cable() == Some(island);
            if !reached
                || !(all || ethernet.destination == h.mac())
                || self.random.chance(self.loss)
            {
                continue;
            }
            if let Some(request) = asked(h.address) {
                self.reply(Some(to), &request, h.mac());
            }
            let packet = Packet { port, from: Peer::Link, at: self.now, bytes: bytes.clone() };
            if self.hosts[to].receive(packet) {
                self.turn(to);
            }
        }
        if let Some(request) = asked(GATEWAY).filter(|_| island == 0)
            && !self.random.chance(self.loss)
        {
            self.reply(None, &request, GATEWAY_MAC);
        }
    }

    /// A kernel's answer.
    fn reply(&mut self, from: Option<usize>, request: &Arp, mac: Mac) {
        let bytes = Rc::from(&Arp::reply_to(request, mac).frame(request.sender_mac)[..]);
        let port = Port::Arp(ETH0);
        self.at(self.now + 150, Happening::Frame { from, port, bytes });
    }
}

/// A host's clock, which began at another time than the world's.
fn instant(now: Time, offset: Time) -> Instant {
    Instant(Duration::from_micros(now + offset))
}

fn is_due(deadline: Option<Instant>, now: Instant) -> bool {
    deadline.is_some_and(|d| d <= now)
}

trait Deadline {
    fn due(&self, now: Instant) -> bool;
}

impl<M: Machine> Deadline for M {
    fn due(&self, now: Instant) -> bool {
        is_due(self.deadline(), now)
    }
}
