//! Arithmetic of points in time: signed where it must be.

use std::ops::Add;
use std::time::Duration;

use crate::Instant;

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

impl Instant {
    /// The time since `earlier`; zero if that is later (a kernel's stamp may be younger than the
    /// clock that was read before).
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// That much before; the clock's beginning at the earliest.
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span))
    }
}
