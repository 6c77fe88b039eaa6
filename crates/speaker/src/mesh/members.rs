//! The other members: who they are, and whether they live.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use signpost_packet::Mac;
use signpost_plan::NodeName;

use super::packet::Entry;
use super::probe::Suspicion;
use crate::{Instant, MemberState, Peer};

/// Members of one segment: beyond that their heartbeats alone are a flood.
pub(crate) const MEMBERS_MAX: usize = 1024;
/// Processes of one node that may be asked at a time to prove that they live; old datagrams replayed
/// to keep the true one out need more hands than that.
const CHALLENGES_MAX: usize = 4;
/// Per datagram heard.
const CHALLENGE_REPEATS: u8 = 4;
/// An answer that was kept for longer proves nothing.
const NONCE_AGE: Duration = Duration::from_secs(1);

/// A member's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MemberId(pub(crate) u16);

/// A member, in our eyes.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: NodeName,
    /// Where the cluster says that it is.
    pub(crate) listed: Option<IpAddr>,
    /// Where it was heard from.
    pub(crate) heard_from: Option<IpAddr>,
    pub(crate) state: MemberState,
    /// The process that proved that it lives.
    pub(crate) boot: Option<u64>,
    pub(crate) window: Window,
    pub(crate) challenges: Vec<Challenge>,
    pub(crate) last_heard: Instant,
    /// Its own heartbeat's interval and multiplier.
    pub(crate) interval: Duration,
    pub(crate) multiplier: u8,
    pub(crate) listening: bool,
    pub(crate) macs: Vec<Mac>,
    /// Its latest copy that went to the group, and its latest asking for unicast.
    pub(crate) multicast_heard: Option<Instant>,
    pub(crate) wanted_heard: Option<Instant>,
    pub(crate) last_sequence: u64,
    /// The epoch it speaks of, and the one that we have.
    pub(crate) told_epoch: Option<u32>,
    pub(crate) epoch: Option<u32>,
    pub(crate) assembly: Option<Assembly>,
    pub(crate) pulled_at: Option<Instant>,
    pub(crate) served_at: Option<Instant>,
    pub(crate) suspicion: Option<Suspicion>,
    pub(crate) away_until: Option<Instant>,
    /// What its earlier process owned is kept for it until then.
    pub(crate) reserved_until: Option<Instant>,
    pub(crate) reminded_at: Option<Instant>,
    /// It was alive when we stood still: it is heard again before we answer.
    pub(crate) awaited: bool,
}

/// A process that was asked to prove that it lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Challenge {
    pub(crate) boot: u64,
    pub(crate) nonce: u64,
    /// Where it was heard from.
    pub(crate) from: Peer,
    made_at: Instant,
    asked_at: Instant,
    /// So many times more, should the question or its answer be lost.
    left: u8,
}

/// A whole set on its way.
#[derive(Clone, Debug)]
pub(crate) struct Assembly {
    pub(crate) epoch: u32,
    pub(crate) parts: Vec<Option<Vec<Entry>>>,
}

impl Member {
    fn new(name: NodeName) -> Self {
        Self {
            name,
            listed: None,
            heard_from: None,
            state: MemberState::NeverHeard,
            boot: None,
            window: Window::default(),
            challenges: Vec::new(),
            last_heard: Instant::default(),
            interval: Duration::ZERO,
            multiplier: 1,
            listening: true,
            macs: Vec::new(),
            multicast_heard: None,
            wanted_heard: None,
            last_sequence: 0,
            told_epoch: None,
            epoch: None,
            assembly: None,
            pulled_at: None,
            served_at: None,
            suspicion: None,
            away_until: None,
            reserved_until: None,
            reminded_at: None,
            awaited: false,
        }
    }

    /// Where a datagram for it alone goes.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.heard_from.or(self.listed)
    }

    /// Whether what it claims counts.
    pub(crate) fn lives(&self) -> bool {
        match self.state {
            MemberState::Alive | MemberState::Suspect | MemberState::Away => true,
            MemberState::NeverHeard | MemberState::Dead => false,
        }
    }

    /// Whether all that it offers is known.
    pub(crate) fn synced(&self) -> bool {
        self.told_epoch.is_some() && self.told_epoch == self.epoch
    }

    pub(crate) fn detection(&self) -> Duration {
        self.interval * u32::from(self.multiplier)
    }

    pub(crate) fn suspect_at(&self) -> Instant {
        self.last_heard + self.interval * u32::from(self.multiplier.saturating_sub(1))
    }

    pub(crate) fn expire_at(&self) -> Instant {
        self.last_heard + self.detection()
    }

    /// The nonce for a process that was heard and has not proved that it lives; `None`: it was asked
    /// a moment ago.
    pub(crate) fn challenge(
        &mut self,
        (boot, from): (u64, Peer),
        now: Instant,
        pause: Duration,
        nonce: impl FnOnce() -> u64,
    ) -> Option<u64> {
        self.challenges.retain(|c| now.since(c.made_at) < NONCE_AGE);
        if let Some(c) = self.challenges.iter_mut().find(|c| c.boot == boot) {
            c.left = CHALLENGE_REPEATS;
            if now.since(c.asked_at) < pause {
                return None;
            }
            c.asked_at = now;
            return Some(c.nonce);
        }
        if self.challenges.len() == CHALLENGES_MAX {
            self.challenges.remove(0);
        }
        let (nonce, left) = (nonce(), CHALLENGE_REPEATS);
        self.challenges.push(Challenge { boot, nonce, from, made_at: now, asked_at: now, left });
        Some(nonce)
    }

    /// The next that is to be asked again, without having been heard again.
    pub(crate) fn challenge_again(&mut self, now: Instant, pause: Duration) -> Option<Challenge> {
        let due = |c: &&mut Challenge| c.left > 0 && now.since(c.asked_at) >= pause;
        let c = self.challenges.iter_mut().find(due)?;
        c.left -= 1;
        c.asked_at = now;
        Some(*c)
    }

    /// Whether this is the answer to what it was asked.
    pub(crate) fn answers(&self, boot: u64, nonce: u64, now: Instant) -> bool {
        let asked = |c: &Challenge| (c.boot, c.nonce) == (boot, nonce);
        self.challenges.iter().any(|c| asked(c) && now.since(c.made_at) < NONCE_AGE)
    }

    /// When something that was sent to it is to be sent again.
    pub(crate) fn repeat_at(&self, pause: Duration) -> Option<Instant> {
        let challenges = self.challenges.iter().filter(|c| c.left > 0).map(|c| c.asked_at + pause);
        let pull = self.pulled_at.filter(|_| self.lives() && !self.synced()).map(|at| at + pause);
        challenges.chain(pull).min()
    }

    /// Forgets what belongs to a process.
    pub(crate) fn forget_process(&mut self) {
        self.told_epoch = None;
        self.epoch = None;
        self.assembly = None;
        self.pulled_at = None;
        self.suspicion = None;
        self.away_until = None;
        self.awaited = false;
        self.listening = true;
    }
}

/// Sequence numbers seen of one process: each counts once (RFC 4303, 3.4.3).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    latest: u64,
    seen: u64,
}

impl Window {
    /// Whether this number is new; from then on it is not.
    pub(crate) fn admit(&mut self, sequence: u64) -> bool {
        if sequence > self.latest {
            let ahead = sequence - self.latest;
            self.seen = if ahead < 64 { self.seen << ahead } else { 0 } | 1;
            self.latest = sequence;
            return true;
        }
        let behind = self.latest - sequence;
        if behind >= 64 || self.seen & (1 << behind) != 0 {
            return false;
        }
        self.seen |= 1 << behind;
        true
    }

    /// Nothing up to this number counts.
    pub(crate) fn from(sequence: u64) -> Self {
        Self { latest: sequence, seen: u64::MAX }
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    list: Vec<Member>,
    by_name: BTreeMap<Box<str>, MemberId>,
}

impl Members {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (MemberId, &Member)> {
        self.list.iter().enumerate().map(|(i, m)| (MemberId(i as u16), m))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.list.iter_mut()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = MemberId> + use<> {
        (0..self.list.len() as u16).map(MemberId)
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn id(&self, name: &str) -> Option<MemberId> {
        self.by_name.get(name).copied()
    }

    /// That member, new if there is room.
    pub(crate) fn id_or_new(&mut self, name: &str) -> Option<MemberId> {
        if let Some(id) = self.id(name) {
            return Some(id);
        }
        let member = Member::new(name.into());
        let id = if self.list.len() < MEMBERS_MAX {
            self.list.push(member);
            MemberId((self.list.len() - 1) as u16)
        } else {
            let free = self.list.iter().position(|m| m.listed.is_none() && !m.lives())?;
            self.by_name.remove(&self.list[free].name.0);
            self.list[free] = member;
            MemberId(free as u16)
        };
        self.by_name.insert(name.into(), id);
        Some(id)
    }

    /// The owner of an Ethernet address among those that live.
    pub(crate) fn by_mac(&self, mac: Mac) -> Option<MemberId> {
        self.iter().find(|(_, m)| m.lives() && m.macs.contains(&mac)).map(|(id, _)| id)
    }
}

impl std::ops::Index<MemberId> for Members {
    type Output = Member;

    fn index(&self, id: MemberId) -> &Member {
        &self.list[usize::from(id.0)]
    }
}

impl std::ops::IndexMut<MemberId> for Members {
    fn index_mut(&mut self, id: MemberId) -> &mut Member {
        &mut self.list[usize::from(id.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_number_counts_once() {
        let mut w = Window::default();
        for (sequence, new) in [
            (5, true),
            (5, false),
            (3, true),
            (3, false),
            (0, true),
            (100, true),
            (37, true),
            (36, false),
            (99, true),
            (99, false),
            (u64::MAX, true),
            (100, false),
        ] {
            assert_eq!(w.admit(sequence), new, "{sequence}");
        }
        let mut w = Window::from(10);
        assert!(!w.admit(10) && !w.admit(9) && w.admit(11) && !w.admit(10));
    }

    #[test]
    fn the_table_has_a_limit_and_gives_up_only_strangers_that_are_gone() {
        let mut members = Members::default();
        for i in 0..MEMBERS_MAX {
            let id = members.id_or_new(&format!("n{i}")).unwrap();
            members[id].listed = Some([192, 0, 2, 1].into());
        }
        assert_eq!(members.id_or_new("more"), None);
        let id = members.id("n7").unwrap();
        members[id].listed = None;
        assert_eq!(members.id_or_new("more"), Some(id));
        assert_eq!(members.id("n7"), None);
    }

    #[test]
    fn old_processes_replayed_do_not_fill_memory() {
        let mut m = Member::new("n1".into());
        for boot in 0..100 {
            assert!(
                m.challenge((boot, Peer::Link), Instant::default(), Duration::ZERO, || boot)
                    .is_some()
            );
        }
        assert_eq!(m.challenges.len(), CHALLENGES_MAX);
    }
}
