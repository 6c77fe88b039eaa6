//! The one clock that the threads share: `CLOCK_MONOTONIC`, as the speaker's `Instant`.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use signpost_speaker::Instant;

pub(crate) fn now() -> Instant {
    Instant(read(ClockId::CLOCK_MONOTONIC))
}

/// A kernel receive stamp (`SO_TIMESTAMPNS`, wall clock) on our clock. Converted by its age, so a
/// step of the wall clock cannot reach us but within that age; never later than `now`.
pub(crate) fn stamped(now: Instant, stamp: Duration) -> Instant {
    let age = read(ClockId::CLOCK_REALTIME).saturating_sub(stamp).min(MAX_AGE);
    Instant(now.0.saturating_sub(age))
}

/// Older than this a datagram in a socket's queue says nothing new, and a stepped wall clock must
/// not make it look older still.
const MAX_AGE: Duration = Duration::from_secs(60);

fn read(id: ClockId) -> Duration {
    let t = clock_gettime(id).expect("these clocks exist on every Linux");
    Duration::new(t.tv_sec() as u64, t.tv_nsec() as u32)
}
