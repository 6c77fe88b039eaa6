//! The mesh: who lives, and who owns an address.

mod addresses;
pub(crate) mod auth;
mod listen;
mod members;
mod ownership;
mod packet;
mod probe;
mod send;
mod sync;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hash::Hasher;
use std::net::IpAddr;
use std::time::Duration;

use signpost_packet::Mac;
use signpost_plan::NodeName;
use siphasher::sip::SipHasher24;

use self::addresses::{AddressId, Addresses};
use self::listen::Listen;
use self::members::{MemberId, Members, Window};
pub(crate) use self::ownership::Change;
use self::packet::{Body, Entry, Header, Message, Refused};
use crate::outbox::Outbox;
use crate::{Config, Event, Instant, Link, MemberState, Peer};

/// Of strangers whose datagrams do not authenticate, so many are told apart.
const STRANGERS_MAX: usize = 64;
/// A stranger is reported again after that.
const STRANGER_PAUSE: Duration = Duration::from_secs(60);
/// Heartbeat intervals of others that are believed.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(5)..=Duration::from_secs(60);

/// The other members, the addresses, and what we tell.
#[derive(Debug)]
pub(crate) struct Mesh {
    config: Config,
    members: Members,
    /// Of the members, how many are alive, and how many suspect or away.
    alive: usize,
    suspects: usize,
    addresses: Addresses,
    links: Vec<Link>,
    links_since: Instant,
    listed: bool,
    sequence: u64,
    nonces: u64,
    /// Of the set that we last told.
    epoch: u32,
    unsent: Vec<AddressId>,
    /// Since when; a release does not wait for what else this turn brings.
    unsent_since: Option<Instant>,
    released: bool,
    entries: Vec<Entry>,
    changes: Vec<Change>,
    heartbeat_at: Instant,
    judge_at: Instant,
    rechecks: BinaryHeap<Reverse<(Instant, AddressId)>>,
    listen: Option<Listen>,
    gateway_heard: Option<Instant>,
    gateway_ask_at: Instant,
    cut_off: bool,
    leaving: bool,
    strangers: BTreeMap<IpAddr, Instant>,
}

impl Mesh {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            members: Members::default(),
            alive: 0,
            suspects: 0,
            addresses: Addresses::default(),
            links: Vec::new(),
            links_since: Instant::default(),
            listed: false,
            sequence: 0,
            nonces: 0,
            epoch: 0,
            unsent: Vec::new(),
            unsent_since: None,
            released: false,
            entries: Vec::new(),
            changes: Vec::new(),
            heartbeat_at: Instant::default(),
            judge_at: Instant(Duration::MAX),
            rechecks: BinaryHeap::new(),
            listen: None,
            gateway_heard: None,
            gateway_ask_at: Instant::default(),
            cut_off: false,
            leaving: false,
            strangers: BTreeMap::new(),
        }
    }

    pub(crate) fn cut_off(&self) -> bool {
        self.cut_off
    }

    pub(crate) fn set_links(&mut self, links: &[Link], now: Instant) {
        if !self.links.iter().any(|l| l.up) {
            self.links_since = now;
            if links.iter().any(|l| l.up) {
                // We were deaf: others own by now what was ours.
                self.listen(now);
            }
        }
        self.links = links.to_vec();
        self.heartbeat_at = now;
        self.judge_at = now;
    }

    pub(crate) fn set_peers(
        &mut self,
        peers: Vec<(NodeName, IpAddr)>,
        now: Instant,
        out: &mut Outbox,
    ) {
        self.listed = true;
        let before: Vec<_> = self.members.iter_mut().map(|m| m.listed.take()).collect();
        for (name, address) in peers {
            if name == self.config.node {
                continue;
            }
            let Some(id) = self.members.id_or_new(&name.0) else { continue };
            let m = &mut self.members[id];
            m.listed = Some(address);
            let new = before.get(usize::from(id.0)).is_none_or(Option::is_none);
            if new && m.state == MemberState::NeverHeard {
                out.event(Event::Member(name, MemberState::NeverHeard));
            }
        }
        self.heartbeat_at = now;
        self.judge_at = now;
    }

    /// The process ends. What it owns it answers for until others claim it, or until it is gone.
    pub(crate) fn leave(&mut self, back: Option<Duration>, out: &mut Outbox) {
        self.leaving = true;
        self.unsent_since = None;
        // Twice: nothing follows that would repair a loss.
        for _ in 0..2 {
            self.tell(&Message::Leave { back }, out);
        }
        self.addresses.touch_all();
    }

    pub(crate) fn datagram(
        &mut self,
        now: Instant,
        from: Peer,
        at: Instant,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let key = self.config.key.take();
        let parsed = packet::parse(bytes, key.as_ref());
        self.config.key = key;
        match parsed {
            Ok((header, _)) if *header.name == *self.config.node.0 => {}
            Ok((header, body)) => {
                if let Some(id) = self.members.id_or_new(header.name) {
                    self.heard(id, &header, body, (now, from, at), out);
                }
            }
            Err(Refused::Unauthenticated) => self.stranger(now, from, out),
            Err(Refused::Malformed) => {}
        }
    }

    fn stranger(&mut self, now: Instant, from: Peer, out: &mut Outbox) {
        let Peer::Unicast(address) = from else { return };
        let told = self.strangers.get(&address);
        if told.is_some_and(|&at| now.since(at) < STRANGER_PAUSE) {
            return;
        }
        if told.is_none() && self.strangers.len() >= STRANGERS_MAX {
            self.strangers.retain(|_, at| now.since(*at) < STRANGER_PAUSE);
            if self.strangers.len() >= STRANGERS_MAX {
                return;
            }
        }
        self.strangers.insert(address, now);
        out.event(Event::WrongKey(address));
    }

    fn heard(
        &mut self,
        id: MemberId,
        header: &Header<'_>,
        body: Body<'_>,
        (now, from, at): (Instant, Peer, Instant),
        out: &mut Outbox,
    ) {
        let m = &self.members[id];
        let reply_to = match from {
            Peer::Unicast(_) => from,
            Peer::Multicast(_) | Peer::Link => m.address().map_or(from, Peer::Unicast),
        };
        // A question needs no proof: the answer is good for this question alone.
        if let Body::Challenge { boot, nonce } = body {
            if boot == self.config.boot {
                self.say(reply_to, &Message::Response { boot: header.boot, nonce }, out);
            }
        } else if let Body::Response { boot, nonce } = body
            && boot == self.config.boot
            && self.members[id].answers(header.boot, nonce, now)
        {
            self.welcome(id, header, (now, at), out);
            return;
        } else if let Body::Yours { boot, remaining, entries } = body
            && boot == self.config.boot
        {
            for entry in entries {
                self.remember(now, entry.address, remaining);
            }
            return;
        }
        let m = &self.members[id];
        if m.boot != Some(header.boot) || !m.lives() {
            let pause = self.pause();
            let m = &mut self.members[id];
            let (boot, secret) = (header.boot, (self.config.seed, self.config.boot));
            self.nonces += 1;
            let count = self.nonces;
            let process = (boot, reply_to);
            if let Some(nonce) = m.challenge(process, now, pause, || nonce(secret, count)) {
                self.judge_at = self.judge_at.min(now + pause);
                self.say(reply_to, &Message::Challenge { boot, nonce }, out);
            }
            return;
        }
        let m = &mut self.members[id];
        // The copies of one message share its number; what is older was recorded and sent again.
        let current = header.sequence >= m.last_sequence;
        if header.flags.multicast && current {
            m.multicast_heard = m.multicast_heard.max(Some(at));
        }
        if header.flags.wanted && current {
            m.wanted_heard = m.wanted_heard.max(Some(at));
        }
        if !m.window.admit(header.sequence) {
            return;
        }
        if let Peer::Unicast(address) = from {
            m.heard_from = Some(address);
        }
        self.take(id, header, body, (now, reply_to, at), out);
    }

    /// A datagram that counts.
    fn take(
        &mut self,
        id: MemberId,
        header: &Header<'_>,
        body: Body<'_>,
        (now, reply_to, at): (Instant, Peer, Instant),
        out: &mut Outbox,
    ) {
        let m = &mut self.members[id];
        let latest = header.sequence > m.last_sequence;
        m.last_heard = m.last_heard.max(at.min(now));
        if latest {
            m.last_sequence = header.sequence;
            if m.listening != header.flags.listening {
                m.listening = header.flags.listening;
                self.addresses.touch_offered_by(id);
            }
        }
        let m = &mut self.members[id];
        if let Some(listen) = self.listen
            && m.awaited
            && at >= listen.since
        {
            m.awaited = false;
        }
        if m.state == MemberState::Suspect {
            m.suspicion = None;
            self.turn(id, MemberState::Alive, now, out);
        }
        match body {
            Body::Heartbeat(h) if latest => {
                let m = &mut self.members[id];
                m.interval = h.interval.clamp(*INTERVALS.start(), *INTERVALS.end());
                m.multiplier = h.multiplier.max(2);
                m.told_epoch = Some(h.epoch);
                if m.macs != h.macs.as_slice() {
                    m.macs = h.macs.as_slice().to_vec();
                }
                if m.reserved_until.is_some() {
                    self.remind(id, now, out);
                }
            }
            Body::Delta { base, epoch, entries } => {
                self.apply_delta(id, (base, epoch), entries, now);
            }
            Body::Part { epoch, index, count, entries } => {
                self.apply_part(id, (epoch, index, count), entries, now);
            }
            Body::Pull { boot } if boot == self.config.boot => {
                self.pulled(id, reply_to, now, out);
            }
            Body::Leave { back: Some(back) } => {
                self.members[id].away_until = Some(at + back);
                self.members[id].suspicion = None;
                self.turn(id, MemberState::Away, now, out);
            }
            Body::Leave { back: None } => self.bury(id, now, out),
            Body::Heartbeat(_)
            | Body::Pull { .. }
            | Body::Challenge { .. }
            | Body::Response { .. }
            | Body::Yours { .. } => {}
        }
        self.pull(id, now, out);
    }

    /// A process has proved that it lives now.
    fn welcome(
        &mut self,
        id: MemberId,
        header: &Header<'_>,
        (now, at): (Instant, Instant),
        out: &mut Outbox,
    ) {
        let grace = self.config.grace;
        let ours = (self.config.interval, self.config.multiplier);
        let m = &mut self.members[id];
        m.challenges.retain(|c| c.boot != header.boot);
        let restarted = m.boot != Some(header.boot);
        if restarted {
            if m.lives() {
                let until = m.away_until.unwrap_or_else(|| m.last_heard + grace.max(m.detection()));
                m.reserved_until = Some(until);
                m.reminded_at = None;
                self.addresses.reserve(id);
            }
            m.window = Window::from(header.sequence);
            m.macs.clear();
        } else {
            m.window.admit(header.sequence);
            if m.lives() && m.state != MemberState::Away {
                return;
            }
        }
        m.forget_process();
        m.boot = Some(header.boot);
        m.last_sequence = header.sequence;
        m.listening = header.flags.listening;
        m.last_heard = at.min(now);
        if m.interval.is_zero() || restarted {
            (m.interval, m.multiplier) = ours;
        }
        self.turn(id, MemberState::Alive, now, out);
        self.remind(id, now, out);
        self.pull(id, now, out);
        // It learns of us without waiting for the next one.
        self.heartbeat_at = self.heartbeat_at.min(now);
    }

    fn turn(&mut self, id: MemberId, to: MemberState, now: Instant, out: &mut Outbox) {
        let m = &mut self.members[id];
        if m.state == to {
            return;
        }
        let count = |s: MemberState| {
            let silent = matches!(s, MemberState::Suspect | MemberState::Away);
            (usize::from(s == MemberState::Alive), usize::from(silent))
        };
        let (before, after) = (count(m.state), count(to));
        self.alive = self.alive - before.0 + after.0;
        self.suspects = self.suspects - before.1 + after.1;
        // A suspect's claims still count; what nobody owns is looked at again anyway.
        let heard = |s| matches!(s, MemberState::Alive | MemberState::Suspect);
        let claims_change = !(heard(m.state) && heard(to));
        m.state = to;
        out.event(Event::Member(m.name.clone(), to));
        if claims_change {
            self.addresses.touch_offered_by(id);
        }
        self.judge_at = self.judge_at.min(now.max(self.members[id].suspect_at()));
        if self.alive == 0 || self.cut_off || to == MemberState::Away {
            self.judge_at = now;
        }
    }

    fn bury(&mut self, id: MemberId, now: Instant, out: &mut Outbox) {
        self.turn(id, MemberState::Dead, now, out);
        self.members[id].forget_process();
        self.members[id].reserved_until = None;
        self.addresses.remove_member(id);
    }

    /// What is due. Only with a time that was read before the sockets were drained.
    pub(crate) fn wake(&mut self, now: Instant, out: &mut Outbox) {
        if now >= self.judge_at {
            self.judge(now, out);
        }
    }

    /// After every input: decisions, and what they make others need to know.
    pub(crate) fn settle(&mut self, now: Instant, out: &mut Outbox) {
        self.touch_due(now);
        self.end_listening(now);
        self.decide_touched(now, out);
    }

    /// What is to be told, after the responder has announced: releases at once, all else when the
    /// turn ends, so that a thousand opened gates are a few datagrams.
    pub(crate) fn tell_changes(&mut self, now: Instant, turn_ends: bool, out: &mut Outbox) {
        if self.leaving {
            return;
        }
        if turn_ends || self.released {
            self.flush(out);
            self.released = false;
            self.unsent_since = None;
        } else if !self.unsent.is_empty() {
            self.unsent_since.get_or_insert(now);
        }
        if turn_ends && now >= self.heartbeat_at {
            self.heartbeat(now, out);
        }
    }

    pub(crate) fn changes(&mut self) -> std::vec::Drain<'_, Change> {
        self.changes.drain(..)
    }

    pub(crate) fn deadline(&self) -> Instant {
        let listen = self.listen.map_or(Instant(Duration::MAX), |l| l.until);
        let recheck = self.rechecks.peek().map_or(Instant(Duration::MAX), |r| r.0.0);
        let heartbeat = if self.leaving { Instant(Duration::MAX) } else { self.heartbeat_at };
        let unsent = self.unsent_since.unwrap_or(Instant(Duration::MAX));
        heartbeat.min(unsent).min(self.judge_at).min(listen).min(recheck)
    }

    /// Whether an Ethernet address is a living member's.
    pub(crate) fn is_member(&self, mac: Mac) -> bool {
        self.members.by_mac(mac).is_some()
    }
}

/// Never the same twice, and not to be guessed without the seed.
fn nonce((seed, boot): (u64, u64), count: u64) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(seed, boot);
    hasher.write_u64(count);
    hasher.finish()
}
