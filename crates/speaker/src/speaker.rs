//! The whole wire side of a node.

use std::net::IpAddr;

use signpost_packet::Mac;
use signpost_plan::LinkIndex;

use crate::l2::L2;
use crate::l2::resolution::Heard;
use crate::lease::{Gates, Turn};
use crate::mesh::{Change, Mesh};
use crate::outbox::Outbox;
use crate::{Command, Config, Event, Gate, Input, Instant, Link, Machine, Output, Port};

/// The lease of the control loop, the mesh and the responder, as one machine.
#[derive(Debug)]
pub struct Speaker {
    config: Config,
    gates: Gates,
    mesh: Mesh,
    l2: L2,
    out: Outbox,
    changes: Vec<Change>,
    /// When the next wake was due, as of the last input.
    due: Option<Instant>,
    /// The last wake. What had arrived by then was handed over, so a stamp from before it is wrong:
    /// the clock that stamps was set forward meanwhile.
    woken_at: Instant,
    /// What arrived before was for a process that stood still.
    resumed_at: Instant,
}

impl Speaker {
    /// A speaker that owns nothing and listens first.
    pub fn new(config: Config) -> Self {
        Self {
            gates: Gates::default(),
            mesh: Mesh::new(config.clone()),
            l2: L2::new(config.seed, config.stall_limit()),
            out: Outbox::default(),
            changes: Vec::new(),
            due: None,
            woken_at: Instant::default(),
            resumed_at: Instant::default(),
            config,
        }
    }

    /// Takes back the bytes of an [`Output::Send`] to use them again.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.out.recycle(bytes);
    }

    /// The addresses that a question on the wire would be answered for now.
    pub fn answering(&self, now: Instant) -> impl Iterator<Item = IpAddr> {
        let open = !self.fenced();
        let permitted = move |a: &IpAddr| open && self.gates.permits(now, *a).next().is_some();
        self.l2.owned().filter(permitted)
    }

    /// Before anything else: whether we stood still, and what ran out by itself.
    fn guard(&mut self, now: Instant) {
        match self.due {
            None => self.mesh.listen(now),
            Some(due) if now.since(due) >= self.config.stall_limit() => {
                self.resumed_at = now;
                self.mesh.stalled(now, now.since(due));
                self.out.event(Event::Stalled(now.since(due)));
            }
            Some(_) => {}
        }
        if self.gates.expire_lease(now) == Some(Turn::Lapsed) {
            self.out.event(Event::LeaseLapsed(true));
            self.offer_all(now, true);
        }
        while let Some(address) = self.gates.pop_shut(now) {
            self.offer(now, address, false);
        }
    }

    fn command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Gate(address, gate) => self.gate(now, address, gate),
            Command::Links(links) => self.links(now, links),
            Command::Peers(peers) => self.mesh.set_peers(peers, now, &mut self.out),
            Command::Lease(until) => {
                let held = self.gates.lease_held(now);
                let turn = self.gates.renew(now, until);
                if let Some(turn) = turn {
                    self.out.event(Event::LeaseLapsed(turn == Turn::Lapsed));
                }
                if !held || turn.is_some() {
                    self.offer_all(now, turn.is_some());
                }
            }
            Command::Leave(back) => self.mesh.leave(back, &mut self.out),
        }
    }

    fn gate(&mut self, now: Instant, address: IpAddr, gate: Gate) {
        self.gates.set(address, gate);
        self.offer(now, address, false);
    }

    fn links(&mut self, now: Instant, links: Vec<Link>) {
        if self.gates.links().eq(&links) {
            return;
        }
        let fresh = |l: &Link| {
            let before = self.gates.link(l.index);
            l.up && before.is_none_or(|b| !b.up || b.mac != l.mac)
        };
        let fresh: Vec<LinkIndex> = links.iter().filter(|l| fresh(l)).map(|l| l.index).collect();
        self.mesh.set_links(&links, now);
        self.gates.set_links(links);
        self.offer_all(now, true);
        if !self.fenced() {
            self.l2.announce_on(now, &fresh, &self.gates, &mut self.out);
        }
    }

    fn offer_all(&mut self, now: Instant, returning: bool) {
        let all: Vec<_> = self.gates.addresses().collect();
        for address in all {
            self.offer(now, address, returning);
        }
    }

    fn offer(&mut self, now: Instant, address: IpAddr, returning: bool) {
        let weight = self.gates.offer(now, address).filter(|_| !self.mesh.cut_off());
        self.mesh.offer(now, address, weight, returning);
    }

    /// A frame with ARP or neighbour discovery in it, perhaps.
    fn frame(&mut self, now: Instant, link: LinkIndex, at: Instant, frame: &[u8]) {
        let Some(heard) = Heard::parse(frame) else { return };
        if heard.is_from(|mac| self.gates.links().any(|l| Mac(l.mac) == mac)) {
            return;
        }
        let claim = heard.claim();
        if let Some(claim) = claim {
            self.mesh.heard_claim(claim, at);
        }
        if self.fenced() || at < self.resumed_at {
            return;
        }
        self.l2.answer(now, at, link, &heard, &self.gates, &mut self.out);
        if let Some(claim) = claim.filter(|c| self.l2.owns(c.address))
            && !self.mesh.is_member(claim.mac)
        {
            self.l2.conflict(now, link, claim, &self.gates, &mut self.out);
        }
    }

    /// Nothing is said for any address.
    fn fenced(&self) -> bool {
        self.mesh.listening() || self.mesh.cut_off()
    }

    fn settle(&mut self, now: Instant, turn_ends: bool) {
        self.mesh.settle(now, &mut self.out);
        let mut changes = std::mem::take(&mut self.changes);
        changes.extend(self.mesh.changes());
        for change in changes.drain(..) {
            match change {
                Change::Claimed(address) | Change::Kept(address) => {
                    self.l2.own(now, address, &self.gates, &mut self.out);
                }
                Change::Released(address) => self.l2.release(address),
            }
        }
        self.changes = changes;
        self.mesh.tell_changes(now, turn_ends, &mut self.out);
    }
}

impl Machine for Speaker {
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, now: Instant, input: Input<'_, Command>) {
        self.guard(now);
        let turn_ends = matches!(input, Input::Wake);
        let stamp = |at: Instant| at.max(self.woken_at).min(now);
        match input {
            Input::Bytes { port: Port::Mesh, from, at, bytes } => {
                self.mesh.datagram(now, from, stamp(at), bytes, &mut self.out);
            }
            Input::Bytes { port: Port::Arp(link) | Port::Ndp(link), at, bytes, .. } => {
                self.frame(now, link, stamp(at), bytes);
            }
            Input::Command(command) => self.command(now, command),
            Input::Wake => {
                self.woken_at = now;
                let cut_off = self.mesh.cut_off();
                self.mesh.wake(now, &mut self.out);
                if self.mesh.cut_off() != cut_off {
                    self.offer_all(now, true);
                }
                self.l2.wake(now, self.fenced(), &self.gates, &mut self.out);
            }
        }
        self.settle(now, turn_ends);
        // What is due already is due now: inputs of one turn bear one time, and are no stall.
        self.due = self.deadline().map(|due| due.max(now));
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Instant> {
        let others = [self.gates.deadline(), self.l2.deadline(), Some(self.mesh.deadline())];
        others.into_iter().flatten().min()
    }
}
