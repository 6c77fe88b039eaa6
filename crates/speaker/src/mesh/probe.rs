//! A silent member: what its kernel still says, before a verdict.

use std::net::IpAddr;
use std::time::Duration;

use signpost_packet::Mac;

use super::Mesh;
use super::members::{Member, MemberId};
use crate::l2::resolution::{self, Claim};
use crate::outbox::Outbox;
use crate::{Event, Instant, MemberState};

/// Of the addresses that a suspect owns so many are asked for: one answer is proof enough.
const PROBED_MAX: usize = 3;
/// With more members than that, each asks for one.
const CROWD: usize = 16;
/// A member with more interfaces than that is asked by broadcast.
const MACS_ASKED_MAX: usize = 2;
/// Questions in the last interval before a verdict.
const PROBES: u32 = 3;

/// What is known of a member that missed heartbeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suspicion {
    /// Its own address and some that it owned when it fell silent: it cannot tell of others.
    targets: Vec<IpAddr>,
    ask_at: Instant,
    node_answered: Option<Instant>,
    address_answered: Option<Instant>,
}

/// What a verdict is measured by.
#[derive(Clone, Copy, Debug)]
struct Timing {
    last_heard: Instant,
    detection: Duration,
    grace: Duration,
}

/// What becomes of a silent member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It answers for its addresses: only the way of the heartbeats is broken.
    Unheard,
    /// Its kernel answers, its agent does not: until then it keeps what it owns.
    Hung(Instant),
    /// Nothing answers.
    Dead,
}

impl Suspicion {
    fn new(now: Instant, targets: Vec<IpAddr>) -> Self {
        Self { targets, ask_at: now, node_answered: None, address_answered: None }
    }

    /// Whether to ask now. What is due a little later is asked for along with the rest.
    fn asks(&mut self, now: Instant, interval: Duration) -> bool {
        if now + interval / 10 < self.ask_at {
            return false;
        }
        let answered = self.address_answered.is_some_and(|t| now.since(t) < interval);
        self.ask_at = now + if answered { interval } else { interval / PROBES };
        true
    }

    fn verdict(&self, now: Instant, timing: Timing) -> Verdict {
        let recent = |at: Option<Instant>| at.is_some_and(|at| now.since(at) < timing.detection);
        if recent(self.address_answered) {
            return Verdict::Unheard;
        }
        let until = self.hung_until(timing);
        if recent(self.node_answered) && now < until { Verdict::Hung(until) } else { Verdict::Dead }
    }

    /// It may be long after the last heartbeat that its addresses fall silent.
    fn hung_until(&self, timing: Timing) -> Instant {
        timing.last_heard.max(self.address_answered.unwrap_or_default()) + timing.grace
    }
}

impl Mesh {
    /// Missed heartbeats, verdicts, and those that said "back in" and are not. Only with a time that
    /// was read before the sockets were drained.
    pub(super) fn judge(&mut self, now: Instant, out: &mut Outbox) {
        self.check_isolation(now, out);
        for id in self.members.ids() {
            let m = &mut self.members[id];
            if m.reserved_until.is_some_and(|until| now >= until) {
                m.reserved_until = None;
                self.addresses.end_reservation(id);
            }
            self.repeat(id, now, out);
            match self.members[id].state {
                MemberState::Alive if now >= self.members[id].suspect_at() => {
                    self.members[id].suspicion = Some(self.suspicion(id, now));
                    self.turn(id, MemberState::Suspect, now, out);
                    self.judge_suspect(id, now, out);
                }
                MemberState::Suspect => self.judge_suspect(id, now, out),
                MemberState::Away => self.judge_away(id, now, out),
                MemberState::Alive | MemberState::NeverHeard | MemberState::Dead => {}
            }
        }
        self.judge_at = self.next_judgement(now);
        if self.lonely() && self.links.iter().any(|l| l.gateway.is_some()) {
            self.judge_at = self.judge_at.min(self.gateway_ask_at.max(now));
        }
    }

    fn next_judgement(&self, now: Instant) -> Instant {
        let far = Instant(Duration::MAX);
        let of = |m: &Member| {
            let own = match m.state {
                MemberState::Alive => m.suspect_at(),
                MemberState::Suspect => m.suspicion.as_ref().map_or(far, |s| {
                    let grace_ends = s.hung_until(self.timing(m));
                    let all = [s.ask_at, m.expire_at(), grace_ends];
                    all.into_iter().filter(|&t| t > now).min().unwrap_or(far)
                }),
                MemberState::Away => {
                    let ask_at = m.suspicion.as_ref().map_or(far, |s| s.ask_at);
                    m.away_until.unwrap_or_default().min(ask_at)
                }
                MemberState::NeverHeard | MemberState::Dead => far,
            };
            let repeat = m.repeat_at(self.pause()).unwrap_or(far);
            own.min(m.reserved_until.unwrap_or(far)).min(repeat)
        };
        self.members.iter().map(|(_, m)| of(m)).min().unwrap_or(far)
    }

    fn judge_suspect(&mut self, id: MemberId, now: Instant, out: &mut Outbox) {
        let timing = self.timing(&self.members[id]);
        let m = &mut self.members[id];
        let expired = now >= m.expire_at();
        let Some(suspicion) = &mut m.suspicion else { return };
        if expired {
            match suspicion.verdict(now, timing) {
                Verdict::Unheard | Verdict::Hung(_) => {}
                Verdict::Dead => return self.bury(id, now, out),
            }
        }
        if suspicion.asks(now, m.interval) {
            self.ask(id, out);
        }
    }

    fn timing(&self, m: &Member) -> Timing {
        Timing {
            last_heard: m.last_heard,
            detection: m.detection(),
            grace: self.config.grace.max(m.detection()),
        }
    }

    /// It restarts; but if its kernel falls silent meanwhile, it does not.
    fn judge_away(&mut self, id: MemberId, now: Instant, out: &mut Outbox) {
        if self.members[id].suspicion.is_none() {
            self.members[id].suspicion = Some(self.suspicion(id, now));
        }
        let m = &mut self.members[id];
        let detection = m.detection();
        let Some(suspicion) = &mut m.suspicion else { return };
        let silent = suspicion.node_answered.is_some_and(|at| now.since(at) >= detection);
        if silent || m.away_until.is_none_or(|t| now >= t) {
            return self.bury(id, now, out);
        }
        if suspicion.asks(now, m.interval) {
            self.ask(id, out);
        }
    }

    fn suspicion(&self, id: MemberId, now: Instant) -> Suspicion {
        let probed = if self.members.len() > CROWD { 1 } else { PROBED_MAX };
        let asks_v6 = self.links.iter().any(|l| l.up && l.address_v6.is_some());
        let askable = |ip: &IpAddr| ip.is_ipv4() || asks_v6;
        let owned = self.addresses.claimed_by(id).filter(askable).take(probed);
        Suspicion::new(now, self.members[id].address().into_iter().chain(owned).collect())
    }

    fn ask(&self, id: MemberId, out: &mut Outbox) {
        let m = &self.members[id];
        // Straight to its interface: a crowd that suspects one is not to flood the segment.
        let few = (1..=MACS_ASKED_MAX).contains(&m.macs.len());
        let to: &[Mac] = if few { &m.macs } else { &[] };
        for &target in m.suspicion.iter().flat_map(|s| &s.targets) {
            for link in &self.links {
                to.iter().for_each(|&mac| resolution::ask(link, target, Some(mac), out));
                if to.is_empty() {
                    resolution::ask(link, target, None, out);
                }
            }
        }
    }

    /// What somebody else says that he has: a sign of life, if it is a suspect or a gateway.
    pub(crate) fn heard_claim(&mut self, claim: Claim, at: Instant) {
        if self.links.iter().any(|l| l.gateway.map(IpAddr::V4) == Some(claim.address)) {
            self.gateway_heard = self.gateway_heard.max(Some(at));
        }
        if self.suspects == 0 {
            return;
        }
        for id in self.members.ids() {
            let m = &mut self.members[id];
            let node = m.address() == Some(claim.address);
            let theirs = if m.macs.is_empty() { node } else { m.macs.contains(&claim.mac) };
            let Some(suspicion) = &mut m.suspicion else { continue };
            if !theirs {
                continue;
            }
            if node {
                suspicion.node_answered = suspicion.node_answered.max(Some(at));
            } else if suspicion.targets.contains(&claim.address) {
                suspicion.address_answered = suspicion.address_answered.max(Some(at));
            }
        }
    }

    /// Nobody is heard, though somebody was or ought to be.
    fn lonely(&self) -> bool {
        self.members.len() > 0 && self.alive == 0
    }

    /// Cut off: no member heard, none of their kernels answering, and no gateway either.
    fn check_isolation(&mut self, now: Instant, out: &mut Outbox) {
        let gateways = self.links.iter().filter_map(|l| l.gateway).count();
        let contact = |m: &Member| {
            let suspicion = m.suspicion.as_ref();
            let answer = suspicion.and_then(|s| s.node_answered.max(s.address_answered));
            // Away is a silence that was announced.
            let away = (m.state == MemberState::Away).then_some(now);
            let heard = m.boot.is_some().then_some(m.last_heard);
            heard.max(answer).max(away)
        };
        let wait = self.config.detection();
        let recent = |at: Option<Instant>| at.is_some_and(|at| now.since(at) < wait);
        let reached = self.links.is_empty()
            || recent(self.gateway_heard)
            || self.members.iter().any(|(_, m)| recent(contact(m)));
        if self.lonely() && gateways > 0 && now >= self.gateway_ask_at {
            let quiet = self.gateway_heard.is_none_or(|t| now.since(t) >= self.config.interval);
            let pause = if quiet { self.config.interval / PROBES } else { self.config.interval };
            self.gateway_ask_at = now + pause;
            for link in &self.links {
                if let Some(gateway) = link.gateway {
                    resolution::ask(link, gateway.into(), None, out);
                }
            }
        }
        let cut_off =
            self.lonely() && gateways > 0 && !reached && now.since(self.links_since) >= wait;
        if cut_off != self.cut_off {
            self.cut_off = cut_off;
            out.event(Event::CutOff(cut_off));
            if !cut_off {
                self.listen(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant(Duration::from_millis(n))
    }

    /// Last heard at 0, 3 x 100 ms, a grace of 1 s.
    #[test]
    fn the_verdict_follows_from_what_still_answers() {
        let dead = Verdict::Dead;
        let hung = |until| Verdict::Hung(ms(until));
        for (now, node, address, want) in [
            (300, None, None, dead),
            (300, Some(210), None, hung(1000)),
            (999, Some(950), None, hung(1000)),
            (1000, Some(950), None, dead),
            (300, Some(210), Some(211), Verdict::Unheard),
            (300, None, Some(211), Verdict::Unheard),
            (9000, Some(8990), Some(8990), Verdict::Unheard),
            (9000, Some(8990), Some(8690), hung(9690)),
            (9000, Some(8690), Some(8690), dead),
        ] {
            let s = Suspicion {
                node_answered: node.map(ms),
                address_answered: address.map(ms),
                ..Suspicion::new(ms(200), Vec::new())
            };
            let timing = Timing {
                last_heard: ms(0),
                detection: Duration::from_millis(300),
                grace: Duration::from_secs(1),
            };
            let got = s.verdict(ms(now), timing);
            assert_eq!(got, want, "at {now}, node {node:?}, address {address:?}");
        }
    }
}
