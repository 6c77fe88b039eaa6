//! Sets of offers: told when they change, pulled when a heartbeat names an unknown one.

use std::time::Duration;

use signpost_plan::Draw;

use super::Mesh;
use super::members::{Assembly, MemberId};
use super::packet::{Entries, Entry, Message, room};
use crate::outbox::Outbox;
use crate::{Instant, Peer};

impl Mesh {
    /// Tells what changed, at once: in full where that is shorter.
    pub(super) fn flush(&mut self, out: &mut Outbox) {
        if self.unsent.is_empty() {
            return;
        }
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        while let Some(id) = self.unsent.pop() {
            let a = &mut self.addresses[id];
            a.changed = false;
            entries.push(a.our_change());
            self.addresses.collect(id);
        }
        let ours = self.addresses.ours().count();
        if ours < entries.len() {
            entries.clear();
            entries.extend(self.addresses.ours());
            self.epoch = self.epoch.wrapping_add(1);
            self.send_set(&entries, None, out);
        } else {
            let mut rest = &entries[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(fitting(rest, self.room()));
                let (base, epoch) = (self.epoch, self.epoch.wrapping_add(1));
                self.epoch = epoch;
                self.tell(&Message::Delta { base, epoch, entries: now }, out);
                rest = later;
            }
        }
        self.entries = entries;
    }

    fn room(&self) -> usize {
        room(&self.config.node.0)
    }

    /// The whole set, to one or to all.
    fn send_set(&mut self, entries: &[Entry], to: Option<Peer>, out: &mut Outbox) {
        let parts = split(entries, self.room());
        let count = u16::try_from(parts.len()).expect("fewer addresses than PARTS_MAX parts hold");
        for (index, entries) in (0..).zip(parts) {
            let part = Message::Part { epoch: self.epoch, index, count, entries };
            match to {
                Some(to) => self.say(to, &part, out),
                None => self.tell(&part, out),
            }
        }
    }

    /// A member asked for our set.
    pub(super) fn pulled(&mut self, id: MemberId, to: Peer, now: Instant, out: &mut Outbox) {
        // Less than between two questions: the repeated one is answered.
        let pause = self.pause() / 2;
        let m = &mut self.members[id];
        if m.served_at.is_some_and(|at| now.since(at) < pause) {
            return;
        }
        m.served_at = Some(now);
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        entries.extend(self.addresses.ours());
        self.send_set(&entries, Some(to), out);
        self.entries = entries;
    }

    /// Asks for a member's set if what it speaks of is unknown.
    pub(super) fn pull(&mut self, id: MemberId, now: Instant, out: &mut Outbox) {
        let pause = self.pause();
        let m = &mut self.members[id];
        let (Some(boot), Some(address)) = (m.boot, m.address()) else {
            m.pulled_at = None;
            return;
        };
        if m.synced() || m.pulled_at.is_some_and(|at| now.since(at) < pause) {
            return;
        }
        m.pulled_at = Some(now);
        self.judge_at = self.judge_at.min(now + pause);
        self.say(Peer::Unicast(address), &Message::Pull { boot }, out);
    }

    /// What was asked and not answered, again: under loss the next heartbeat is late, too.
    pub(super) fn repeat(&mut self, id: MemberId, now: Instant, out: &mut Outbox) {
        let pause = self.pause();
        if self.members[id].repeat_at(pause).is_none_or(|at| now < at) {
            return;
        }
        while let Some(c) = self.members[id].challenge_again(now, pause) {
            self.say(c.from, &Message::Challenge { boot: c.boot, nonce: c.nonce }, out);
        }
        if self.members[id].lives() {
            self.pull(id, now, out);
        }
    }

    /// Between two of the same kind to the same member; a lost one is repeated soon enough.
    pub(super) fn pause(&self) -> Duration {
        self.config.interval / 4
    }

    pub(super) fn apply_delta(
        &mut self,
        id: MemberId,
        (base, epoch): (u32, u32),
        entries: Entries<'_>,
        now: Instant,
    ) {
        let m = &mut self.members[id];
        if m.epoch != Some(base) {
            // Older than what we have, or something between was lost.
            if m.epoch.is_none_or(|have| epoch.wrapping_sub(have) as i32 > 0) {
                m.told_epoch = Some(epoch);
            }
            return;
        }
        m.epoch = Some(epoch);
        if m.told_epoch.is_none_or(|told| epoch.wrapping_sub(told) as i32 > 0) {
            m.told_epoch = Some(epoch);
        }
        for entry in entries {
            self.apply_entry(id, &entry, now);
        }
    }

    pub(super) fn apply_part(
        &mut self,
        id: MemberId,
        (epoch, index, count): (u32, u16, u16),
        entries: Entries<'_>,
        now: Instant,
    ) {
        let m = &mut self.members[id];
        let newer = |have: u32| epoch.wrapping_sub(have) as i32 > 0;
        if m.epoch.is_some_and(|have| !newer(have)) {
            return;
        }
        let count = usize::from(count);
        let stale = |a: &Assembly| a.epoch != epoch || a.parts.len() != count;
        if m.assembly.as_ref().is_some_and(stale) {
            m.assembly = None;
        }
        let parts = |_| vec![None; count];
        let assembly = m.assembly.get_or_insert_with(|| Assembly { epoch, parts: parts(()) });
        assembly.parts[usize::from(index)].get_or_insert_with(|| entries.collect());
        if assembly.parts.iter().any(Option::is_none) {
            return;
        }
        let whole = m.assembly.take().into_iter().flat_map(|a| a.parts);
        m.epoch = Some(epoch);
        if m.told_epoch.is_none_or(newer) {
            m.told_epoch = Some(epoch);
        }
        self.addresses.unname(id);
        for entry in whole.flatten().flatten() {
            self.apply_entry(id, &entry, now);
        }
        self.addresses.sweep(id);
    }

    fn apply_entry(&mut self, id: MemberId, entry: &Entry, now: Instant) {
        let (ip, node) = (entry.address, &self.config.node);
        let address = if entry.removed {
            self.addresses.id(ip)
        } else {
            self.addresses.id_or_new(ip, now, || Draw::new(ip, node))
        };
        let name = &self.members[id].name;
        if let Some(address) = address {
            self.addresses.apply(address, id, entry, || Draw::new(ip, name));
        }
    }

    /// Tells a member's new process what the old one owned.
    pub(super) fn remind(&mut self, id: MemberId, now: Instant, out: &mut Outbox) {
        let interval = self.config.interval;
        let m = &mut self.members[id];
        let (Some(boot), Some(address), Some(until)) = (m.boot, m.address(), m.reserved_until)
        else {
            return;
        };
        if m.reminded_at.is_some_and(|at| now.since(at) < interval) {
            return;
        }
        m.reminded_at = Some(now);
        let remaining = until.since(now);
        let entries = self.addresses.reserved_for(id);
        for entries in split(&entries, self.room()) {
            if !entries.is_empty() {
                let yours = Message::Yours { boot, remaining, entries };
                self.say(Peer::Unicast(address), &yours, out);
            }
        }
    }
}

/// Of entries, how many fit into so many bytes.
fn fitting(entries: &[Entry], room: usize) -> usize {
    let mut left = room;
    entries
        .iter()
        .take_while(|e| {
            let fits = e.len() <= left;
            left = left.saturating_sub(e.len());
            fits
        })
        .count()
}

/// Datagrams' worth of entries; one, empty, of none.
fn split(mut entries: &[Entry], room: usize) -> Vec<&[Entry]> {
    let mut parts = Vec::new();
    loop {
        let (part, rest) = entries.split_at(fitting(entries, room));
        parts.push(part);
        if rest.is_empty() {
            return parts;
        }
        entries = rest;
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn parts_fit_and_lose_nothing() {
        let entry = |i: u32| Entry {
            address: if i.is_multiple_of(3) {
                IpAddr::V6(u128::from(i).into())
            } else {
                IpAddr::V4(i.into())
            },
            weight: 1,
            owned: false,
            removed: false,
        };
        let entries: Vec<_> = (0..1000).map(entry).collect();
        let parts = split(&entries, 850);
        assert!(parts.iter().all(|p| p.iter().map(Entry::len).sum::<usize>() <= 850));
        assert!(parts.len() > 10);
        assert_eq!(parts.concat(), entries);
        assert_eq!(split(&[], 850), [&[]]);
    }
}
