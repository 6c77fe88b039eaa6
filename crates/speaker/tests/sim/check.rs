//! What must hold at every moment.

use std::time::Duration;

use super::host::{self, Host};
use super::{Outcome, Time};

/// Detection (3 x 100 ms) and one second.
const LIMIT: Time = 1_300_000;

pub(super) struct Check {
    /// When an address was last answered for, where the gateway is.
    answered_at: Vec<Time>,
    /// Since when two answer for it who hear each other.
    two_since: Vec<Option<Time>>,
    /// Since when a host could serve, were it for its gates.
    fit_since: Vec<Option<Time>>,
    answering: Vec<Vec<usize>>,
    step: Time,
}

impl Check {
    pub(super) fn new(hosts: &[Host], addresses: usize, step: Time) -> Self {
        Self {
            answered_at: vec![0; addresses],
            two_since: vec![None; addresses],
            fit_since: vec![None; hosts.len()],
            answering: vec![Vec::new(); addresses],
            step,
        }
    }

    /// Somebody began to answer where the gateway is.
    pub(super) fn owned(&mut self, address: usize, now: Time) {
        self.answered_at[address] = now;
    }

    pub(super) fn sample(
        &mut self,
        now: Time,
        hosts: &[Host],
        outcome: &mut Outcome,
    ) -> Vec<String> {
        self.answering.iter_mut().for_each(Vec::clear);
        for (i, h) in hosts.iter().enumerate() {
            let fit = h.runs() && h.cable() == Some(0) && now < h.leased_until && h.gates_open;
            self.fit_since[i] = fit.then(|| self.fit_since[i].unwrap_or(now));
            if let (true, Some(speaker)) = (h.runs(), &h.speaker) {
                for a in speaker.answering(h.clock(now)) {
                    self.answering[host::address_index(a)].push(i);
                }
            }
        }
        let mut found = Vec::new();
        for a in 0..self.answering.len() {
            found.extend(self.two(a, now, hosts, outcome));
            found.extend(self.none(a, now, hosts, outcome));
        }
        found
    }

    fn two(
        &mut self,
        a: usize,
        now: Time,
        hosts: &[Host],
        outcome: &mut Outcome,
    ) -> Option<String> {
        let owners = &self.answering[a];
        let hear = |x: usize, y: usize| {
            hosts[x].linked(&hosts[y]) && hosts[x].mesh_group == hosts[y].mesh_group
        };
        let two = owners.iter().enumerate().any(|(n, &x)| owners[..n].iter().any(|&y| hear(x, y)));
        self.two_since[a] = two.then(|| self.two_since[a].unwrap_or(now));
        let lasted = now - self.two_since[a]?;
        outcome.longest_two = outcome.longest_two.max(Duration::from_micros(lasted));
        (lasted > LIMIT)
            .then(|| format!("{} answered by {owners:?} for {lasted} us", host::address(a)))
    }

    fn none(
        &mut self,
        a: usize,
        now: Time,
        hosts: &[Host],
        outcome: &mut Outcome,
    ) -> Option<String> {
        if self.answering[a].iter().any(|&i| hosts[i].cable() == Some(0)) {
            self.answered_at[a] = now;
            return None;
        }
        // Announced: "back in 3 s", while the kernel goes on forwarding.
        let kept = |h: &Host| h.cable() == Some(0) && now < h.away_until && h.kept.contains(&a);
        if hosts.iter().any(kept) {
            self.answered_at[a] = now;
            return None;
        }
        let able_since = hosts.iter().enumerate().filter_map(|(i, h)| {
            let gated = h.serves[a].filter(|g| g.open)?;
            Some(self.fit_since[i]?.max(gated.since))
        });
        let since = self.answered_at[a].max(able_since.min()?);
        let lasted = now.saturating_sub(since);
        outcome.longest_none = outcome.longest_none.max(Duration::from_micros(lasted));
        // A sample knows of the last answer only to within a step.
        (lasted > LIMIT + self.step)
            .then(|| format!("{} answered by nobody for {lasted} us", host::address(a)))
    }
}
