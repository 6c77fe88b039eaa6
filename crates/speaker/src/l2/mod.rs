//! ARP for the addresses that we own: answers, announcements, and strangers who claim them.

mod schedule;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use signpost_packet::{Arp, Ethernet, Mac, Operation};
use signpost_plan::LinkIndex;

use self::schedule::{Schedule, Step};
use crate::lease::Gates;
use crate::outbox::Outbox;
use crate::{Event, Instant, Link, Peer, Port};

/// RFC 5227, 1.1: DEFEND_INTERVAL, between two defences of an address; and between two reports.
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// The responder.
#[derive(Debug)]
pub(crate) struct L2 {
    owned: BTreeMap<Ipv4Addr, Owned>,
    schedule: Schedule,
    /// A request that waited longer than that has been answered by another, or asked again.
    request_age_max: Duration,
}

#[derive(Debug, Default)]
struct Owned {
    /// Of its announcements: those of an earlier ownership are void.
    generation: u64,
    defended_at: Option<Instant>,
    reported_at: Option<Instant>,
}

impl L2 {
    pub(crate) fn new(seed: u64, request_age_max: Duration) -> Self {
        Self { owned: BTreeMap::new(), schedule: Schedule::new(seed), request_age_max }
    }

    /// From now on we answer for it, and everybody is to know.
    pub(crate) fn own(&mut self, now: Instant, address: IpAddr, gates: &Gates, out: &mut Outbox) {
        if let IpAddr::V4(address) = address {
            self.owned.entry(address).or_default();
            self.announce(now, address, gates, out);
        }
    }

    pub(crate) fn owns(&self, address: Ipv4Addr) -> bool {
        self.owned.contains_key(&address)
    }

    pub(crate) fn owned(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.owned.keys().copied()
    }

    /// From now on we do not.
    pub(crate) fn release(&mut self, address: IpAddr) {
        if let IpAddr::V4(address) = address {
            self.owned.remove(&address);
        }
    }

    /// Those of a link that came up, or whose Ethernet address changed.
    pub(crate) fn announce_on(
        &mut self,
        now: Instant,
        links: &[LinkIndex],
        gates: &Gates,
        out: &mut Outbox,
    ) {
        let there =
            |a: &Ipv4Addr| gates.permits(now, IpAddr::V4(*a)).any(|l| links.contains(&l.index));
        let all: Vec<_> = self.owned.keys().copied().filter(there).collect();
        for address in all {
            self.announce(now, address, gates, out);
        }
    }

    /// Now, and again for who lost it or was not yet ready to believe it.
    pub(crate) fn announce(
        &mut self,
        now: Instant,
        address: Ipv4Addr,
        gates: &Gates,
        out: &mut Outbox,
    ) {
        let Some(owned) = self.owned.get_mut(&address) else { return };
        owned.generation = self.schedule.begin(now, address);
        speak(now, address, gates, out);
    }

    pub(crate) fn wake(&mut self, now: Instant, fenced: bool, gates: &Gates, out: &mut Outbox) {
        while let Some(Step { address, generation, .. }) = self.schedule.pop(now) {
            if self.owned.get(&address).is_some_and(|o| o.generation == generation) {
                self.schedule.next(now, address, generation);
                if !fenced {
                    speak(now, address, gates, out);
                }
            }
        }
    }

    /// A request for an address of ours is answered on the link where it came in.
    pub(crate) fn answer(
        &self,
        now: Instant,
        at: Instant,
        link: LinkIndex,
        (ethernet, arp): (&Ethernet, &Arp),
        gates: &Gates,
        out: &mut Outbox,
    ) {
        let asks = arp.operation == Operation::Request
            && arp.sender != arp.target
            && arp.sender_mac.is_unicast()
            && ethernet.source.is_unicast()
            && now.since(at) < self.request_age_max;
        if !asks || !self.owned.contains_key(&arp.target) {
            return;
        }
        if let Some(link) = gates.permit(now, IpAddr::V4(arp.target), link) {
            let frame = Arp::reply_to(arp, Mac(link.mac)).frame(arp.sender_mac);
            out.send_copy(Port::Arp(link.index), Peer::Link, &frame);
        }
    }

    /// Somebody who is no member claims an address of ours (RFC 5227, 2.4 c): defended with one
    /// announcement at most each ten seconds; we do not give it up, nor fight.
    pub(crate) fn conflict(
        &mut self,
        now: Instant,
        link: LinkIndex,
        arp: &Arp,
        gates: &Gates,
        out: &mut Outbox,
    ) {
        let Some(owned) = self.owned.get_mut(&arp.sender) else { return };
        let address = IpAddr::V4(arp.sender);
        let Some(link) = gates.permit(now, address, link) else { return };
        let due = |at: Option<Instant>| at.is_none_or(|at| now.since(at) >= DEFEND_INTERVAL);
        if due(owned.reported_at) {
            owned.reported_at = Some(now);
            out.event(Event::Conflict { address, mac: arp.sender_mac.0 });
        }
        if due(owned.defended_at) {
            owned.defended_at = Some(now);
            announce_at(link, arp.sender, out);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.schedule.deadline()
    }
}

fn speak(now: Instant, address: Ipv4Addr, gates: &Gates, out: &mut Outbox) {
    for link in gates.permits(now, IpAddr::V4(address)) {
        announce_at(link, address, out);
    }
}

fn announce_at(link: &Link, address: Ipv4Addr, out: &mut Outbox) {
    let frame = Arp::announcement(Mac(link.mac), address).frame(Mac::BROADCAST);
    out.send_copy(Port::Arp(link.index), Peer::Link, &frame);
}
