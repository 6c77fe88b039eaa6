//! Who owns an address: sticky, by weighted rendezvous where nobody does, moved without a gap.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::time::Duration;

use signpost_plan::Draw;

use super::Mesh;
use super::addresses::{Address, AddressId, Claim, Offer, Owner};
use crate::outbox::Outbox;
use crate::{Event, Instant, MemberState};

/// What became of an address of ours; for the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is ours now: answer and announce.
    Claimed(IpAddr),
    /// Another claimed it too and gave way: announce again, the last word was not ours.
    Kept(IpAddr),
    /// It is not ours: stop answering.
    Released(IpAddr),
}

/// So many places behind the first in order wait for it, each for one and a half intervals longer: it
/// may see somebody that we do not. Those further back wait no longer, so that with a grace of 1 s
/// nobody owns an address for at most the detection time and 1 s.
const PATIENCE_MAX: u32 = 2;

/// What the others say about an address.
#[derive(Clone, Copy, Debug, Default)]
struct Claims<'a> {
    /// The best of those that own it.
    firm: Option<&'a Offer>,
    /// One that owns it if nobody else does: away, listening, or restarting.
    tentative: Option<&'a Offer>,
}

impl Mesh {
    /// What control, lease and links allow: our weight for an address. `returning`: we could not for
    /// a reason that is not the address's own, so that we wait before we take it back.
    pub(crate) fn offer(
        &mut self,
        now: Instant,
        ip: IpAddr,
        weight: Option<u16>,
        returning: bool,
    ) -> bool {
        let node = &self.config.node;
        let id = match weight {
            Some(_) => self.addresses.id_or_new(ip, now, || Draw::new(ip, node)),
            None => self.addresses.id(ip),
        };
        let Some(id) = id else { return weight.is_none() };
        let a = &mut self.addresses[id];
        if a.mine == weight {
            return true;
        }
        let drained = a.mine == Some(0);
        if weight.is_some_and(|w| w > 0) && (!a.offered_before || drained || returning) {
            a.offered_before = true;
            let ripe = now + self.config.preempt_delay;
            a.ripe_at = Some(ripe);
            self.rechecks.push(Reverse((ripe, id)));
        }
        if a.mine.is_none() && a.offers.is_empty() {
            a.first_seen = now;
        }
        a.mine = weight;
        self.change(id);
        self.addresses.touch(id);
        true
    }

    /// Decides about everything that was touched.
    pub(super) fn decide_touched(&mut self, now: Instant, out: &mut Outbox) {
        while let Some(id) = self.addresses.pop_touched() {
            self.decide(id, now, out);
            self.addresses.collect(id);
        }
    }

    fn decide(&mut self, id: AddressId, now: Instant, out: &mut Outbox) {
        let a = &self.addresses[id];
        let claims = self.claims(a);
        let firm = claims.firm.copied();
        let owner_elsewhere = claims.firm.or(claims.tentative).map(|o| o.member);
        let keep = |a: &Address, weight: u16| match firm {
            None => true,
            // Nobody who stood still, or leaves, insists.
            Some(_) if self.listening() || self.leaving => false,
            Some(o) => Draw::order((a.my_draw, weight), (o.draw, o.weight)).is_lt(),
        };
        match (a.owned, a.mine) {
            (true, None) => self.release(id),
            (true, Some(weight)) if keep(a, weight) => self.keep(id, firm.is_some()),
            (true, Some(_)) => {
                self.release(id);
                if self.listening() {
                    let ripe = now + self.config.preempt_delay;
                    self.addresses[id].ripe_at = Some(ripe);
                    self.rechecks.push(Reverse((ripe, id)));
                }
            }
            (false, Some(weight)) if !self.listening() && !self.leaving => {
                if self.wants(id, weight, firm, owner_elsewhere.is_some(), now) {
                    self.claim(id, firm.is_some());
                }
            }
            (false, Some(_) | None) => {}
        }
        let a = &mut self.addresses[id];
        if a.remembered_until.is_some_and(|t| now >= t) || a.owned {
            a.remembered_until = None;
        }
        if a.ripe_at.is_some_and(|t| now >= t) {
            a.ripe_at = None;
        }
        let owner = if a.owned { Some(Owner::Us) } else { owner_elsewhere.map(Owner::Member) };
        a.ever_owned |= owner.is_some();
        if owner.is_some() {
            a.unowned_since = None;
        }
        if a.reported != owner {
            a.reported = owner;
            let ip = a.ip;
            let name = owner.map(|o| match o {
                Owner::Us => self.config.node.clone(),
                Owner::Member(id) => self.members[id].name.clone(),
            });
            out.event(Event::Owner(ip, name));
        }
    }

    /// Whether to claim an address that is not ours, and if not yet, when to look again.
    fn wants(
        &mut self,
        id: AddressId,
        weight: u16,
        firm: Option<Offer>,
        elsewhere: bool,
        now: Instant,
    ) -> bool {
        let a = &self.addresses[id];
        if let Some(owner) = firm {
            let ripe = a.ripe_at.is_some_and(|t| now >= t);
            let drained = owner.weight == 0;
            let wins = Draw::order((a.my_draw, weight), (owner.draw, owner.weight)).is_lt();
            return weight > 0 && (ripe || drained) && wins && self.better(a, weight) == 0;
        }
        if a.remembered_until.is_some_and(|t| now < t) {
            return true;
        }
        if elsewhere {
            return false;
        }
        let patience = self.config.interval * 3 / 2;
        let better = self.better(a, weight).min(PATIENCE_MAX);
        let unowned_since = a.unowned_since.unwrap_or(now);
        let claim_at = if !a.ever_owned && self.others_may_come(a, weight) {
            // A new address: the gates of all its members open at about the same time.
            a.first_seen + self.config.interval / 2
        } else {
            now
        };
        let claim_at = claim_at.max(unowned_since + patience * better);
        let a = &mut self.addresses[id];
        a.unowned_since = Some(unowned_since);
        if now >= claim_at {
            return true;
        }
        self.recheck(id, claim_at);
        false
    }

    /// A member that does not serve the address yet would come before us if it did.
    fn others_may_come(&self, a: &Address, weight: u16) -> bool {
        self.members.iter().any(|(id, m)| {
            m.state == MemberState::Alive
                && a.offer(id).is_none()
                && Draw::order((Draw::new(a.ip, &m.name), weight), (a.my_draw, weight)).is_lt()
        })
    }

    fn claims<'a>(&self, a: &'a Address) -> Claims<'a> {
        let mut claims = Claims::default();
        for offer in &a.offers {
            let m = &self.members[offer.member];
            if !m.lives() {
                continue;
            }
            let away = m.state == MemberState::Away;
            match offer.claim {
                Claim::Yes if !away && !m.listening => {
                    let better = |best: &Offer| {
                        Draw::order((offer.draw, offer.weight), (best.draw, best.weight)).is_lt()
                    };
                    if claims.firm.is_none_or(better) {
                        claims.firm = Some(offer);
                    }
                }
                Claim::Yes | Claim::Reserved => claims.tentative = Some(offer),
                Claim::No => {}
            }
        }
        claims
    }

    /// Members that would own it before us, were it free.
    fn better(&self, a: &Address, weight: u16) -> u32 {
        let before_us = |o: &&Offer| {
            let m = &self.members[o.member];
            // Who has just started will claim a share of what nobody had before.
            let ready = m.state == MemberState::Alive && (!m.listening || !a.ever_owned);
            let ours = (a.my_draw, weight);
            o.serves && ready && Draw::order((o.draw, o.weight), ours).is_lt()
        };
        a.offers.iter().filter(before_us).count() as u32
    }

    fn claim(&mut self, id: AddressId, contested: bool) {
        let a = &mut self.addresses[id];
        a.owned = true;
        a.contested = contested;
        let ip = a.ip;
        self.change(id);
        self.changes.push(Change::Claimed(ip));
    }

    fn keep(&mut self, id: AddressId, contested: bool) {
        let a = &mut self.addresses[id];
        if a.contested != contested {
            a.contested = contested;
            self.changes.push(Change::Kept(a.ip));
        }
    }

    fn release(&mut self, id: AddressId) {
        let a = &mut self.addresses[id];
        a.owned = false;
        a.contested = false;
        let ip = a.ip;
        self.released = true;
        self.change(id);
        self.changes.push(Change::Released(ip));
    }

    fn change(&mut self, id: AddressId) {
        let a = &mut self.addresses[id];
        if !a.changed {
            a.changed = true;
            self.unsent.push(id);
        }
    }

    fn recheck(&mut self, id: AddressId, at: Instant) {
        let a = &mut self.addresses[id];
        if a.recheck_at.is_none_or(|t| at < t) {
            a.recheck_at = Some(at);
            self.rechecks.push(Reverse((at, id)));
        }
    }

    pub(super) fn touch_due(&mut self, now: Instant) {
        while let Some(&Reverse((at, id))) = self.rechecks.peek() {
            if at > now {
                break;
            }
            self.rechecks.pop();
            self.addresses[id].recheck_at = None;
            self.addresses.touch(id);
        }
    }

    /// What our earlier process owned, as another member kept it.
    pub(super) fn remember(&mut self, now: Instant, ip: IpAddr, remaining: Duration) {
        let node = &self.config.node;
        if let Some(id) = self.addresses.id_or_new(ip, now, || Draw::new(ip, node)) {
            let until = now + remaining;
            self.addresses[id].remembered_until = Some(until);
            self.recheck(id, until);
            self.addresses.touch(id);
        }
    }
}
