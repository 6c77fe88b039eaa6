//! When an address is announced again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::time::Duration;

use siphasher::sip::SipHasher24;

use crate::Instant;

/// After the first: Linux before 4.11 believes nothing new of an ARP entry that is younger than 1 s
/// (`locktime`); the second is for what the switch lost meanwhile. RFC 4861 allows three unsolicited
/// advertisements, 1 s apart (MAX_NEIGHBOR_ADVERTISEMENT, RetransTimer).
const REPEATS: [Duration; 2] = [Duration::from_millis(1100), Duration::from_millis(3300)];
/// Repeats of many addresses spread over that.
const SPREAD: Duration = Duration::from_millis(200);
/// A switch forgets who is where after 300 s, a router asks again only after 1200 s and more.
const REFRESH: Duration = Duration::from_secs(60);

/// An announcement to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Step {
    pub(crate) at: Instant,
    pub(crate) address: IpAddr,
    pub(crate) generation: u64,
    repeat: usize,
}

/// All announcements to come.
#[derive(Debug)]
pub(crate) struct Schedule {
    seed: u64,
    generation: u64,
    steps: BinaryHeap<Reverse<Step>>,
    popped: usize,
}

impl Schedule {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, generation: 0, steps: BinaryHeap::new(), popped: 0 }
    }

    /// The first was sent now. The generation of those that follow.
    pub(crate) fn begin(&mut self, now: Instant, address: IpAddr) -> u64 {
        self.generation += 1;
        let generation = self.generation;
        let at = now + REPEATS[0] + self.share(address, SPREAD);
        self.steps.push(Reverse(Step { at, address, generation, repeat: 1 }));
        generation
    }

    /// The next that is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Step> {
        let due = self.steps.peek().is_some_and(|s| s.0.at <= now);
        let step = due.then(|| self.steps.pop()).flatten()?.0;
        self.popped = step.repeat;
        Some(step)
    }

    /// What follows the one that was popped last.
    pub(crate) fn next(&mut self, now: Instant, address: IpAddr, generation: u64) {
        let repeat = self.popped;
        let at = match REPEATS.get(repeat) {
            Some(&after) => now + after.saturating_sub(REPEATS[repeat - 1]),
            // The first refresh sooner by a share of its own, so that many do not come at a time.
            None if repeat == REPEATS.len() => now + REFRESH / 2 + self.share(address, REFRESH / 2),
            None => now + REFRESH,
        };
        self.steps.push(Reverse(Step { at, address, generation, repeat: repeat + 1 }));
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.steps.peek().map(|s| s.0.at)
    }

    fn share(&self, address: IpAddr, of: Duration) -> Duration {
        let hasher = SipHasher24::new_with_keys(self.seed, 0);
        let hash = match address {
            IpAddr::V4(a) => hasher.hash(&a.octets()),
            IpAddr::V6(a) => hasher.hash(&a.octets()),
        };
        of * (hash % 1000) as u32 / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_a_refresh_each_minute() {
        let vip = IpAddr::from([192, 0, 2, 1]);
        let mut schedule = Schedule::new(7);
        let generation = schedule.begin(Instant::default(), vip);
        let mut times = Vec::new();
        for _ in 0..5 {
            let now = schedule.deadline().unwrap();
            assert_eq!(schedule.pop(now).unwrap().generation, generation);
            schedule.next(now, vip, generation);
            times.push(now.0.as_millis());
        }
        assert!((1100..1300).contains(&times[0]), "{times:?}");
        assert_eq!(times[1] - times[0], 2200);
        assert!((30_000..60_000).contains(&(times[2] - times[1])), "{times:?}");
        assert_eq!((times[3] - times[2], times[4] - times[3]), (60_000, 60_000));
    }
}
