//! ARP and neighbour discovery for the addresses that we own: answers, announcements, and strangers
//! who claim them.

pub(crate) mod resolution;
mod schedule;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use signpost_plan::LinkIndex;

use self::resolution::{Claim, Heard};
use self::schedule::{Schedule, Step};
use crate::lease::Gates;
use crate::outbox::Outbox;
use crate::{Event, Instant};

/// RFC 5227, 1.1: DEFEND_INTERVAL, between two defences of an address; and between two reports. IPv6
/// has no such rule, and the same need of it.
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// The responder.
#[derive(Debug)]
pub(crate) struct L2 {
    owned: BTreeMap<IpAddr, Owned>,
    schedule: Schedule,
    /// A question that waited longer than that has been answered by another, or asked again.
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
        self.owned.entry(address).or_default();
        self.announce(now, address, gates, out);
    }

    pub(crate) fn owns(&self, address: IpAddr) -> bool {
        self.owned.contains_key(&address)
    }

    pub(crate) fn owned(&self) -> impl Iterator<Item = IpAddr> {
        self.owned.keys().copied()
    }

    /// From now on we do not.
    pub(crate) fn release(&mut self, address: IpAddr) {
        self.owned.remove(&address);
    }

    /// Those of a link that came up, or whose Ethernet address changed.
    pub(crate) fn announce_on(
        &mut self,
        now: Instant,
        links: &[LinkIndex],
        gates: &Gates,
        out: &mut Outbox,
    ) {
        let there = |a: &IpAddr| gates.permits(now, *a).any(|l| links.contains(&l.index));
        let all: Vec<_> = self.owned.keys().copied().filter(there).collect();
        for address in all {
            self.announce(now, address, gates, out);
        }
    }

    /// Now, and again for who lost it or was not yet ready to believe it.
    pub(crate) fn announce(
        &mut self,
        now: Instant,
        address: IpAddr,
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

    /// A question for an address of ours is answered on the link where it came in.
    pub(crate) fn answer(
        &self,
        now: Instant,
        at: Instant,
        link: LinkIndex,
        heard: &Heard,
        gates: &Gates,
        out: &mut Outbox,
    ) {
        let Some(target) = heard.asks().filter(|a| self.owns(*a)) else { return };
        if now.since(at) >= self.request_age_max {
            return;
        }
        if let Some(link) = gates.permit(now, target, link) {
            heard.answer(link, out);
        }
    }

    /// Somebody who is no member claims an address of ours (RFC 5227, 2.4 c): defended with one
    /// announcement at most each ten seconds; we do not give it up, nor fight.
    pub(crate) fn conflict(
        &mut self,
        now: Instant,
        link: LinkIndex,
        claim: Claim,
        gates: &Gates,
        out: &mut Outbox,
    ) {
        let address = claim.address;
        let Some(owned) = self.owned.get_mut(&address) else { return };
        let Some(link) = gates.permit(now, address, link) else { return };
        let due = |at: Option<Instant>| at.is_none_or(|at| now.since(at) >= DEFEND_INTERVAL);
        if due(owned.reported_at) {
            owned.reported_at = Some(now);
            out.event(Event::Conflict { address, mac: claim.mac.0 });
        }
        if due(owned.defended_at) {
            owned.defended_at = Some(now);
            resolution::announce(link, address, out);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.schedule.deadline()
    }
}

fn speak(now: Instant, address: IpAddr, gates: &Gates, out: &mut Outbox) {
    for link in gates.permits(now, address) {
        resolution::announce(link, address, out);
    }
}
