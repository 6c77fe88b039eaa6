//! A control loop that stands still when the lab asks for it.

use std::sync::{Condvar, Mutex, PoisonError};

/// Shared by control, which hangs in it, and outside, which lets it go.
#[derive(Default)]
pub(crate) struct Hang {
    hanging: Mutex<bool>,
    released: Condvar,
}

impl Hang {
    pub(crate) fn set(&self, hang: bool) {
        *self.hanging.lock().unwrap_or_else(PoisonError::into_inner) = hang;
        self.released.notify_all();
    }

    pub(crate) fn wait(&self) {
        let hanging = self.hanging.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.released.wait_while(hanging, |h| *h).unwrap_or_else(PoisonError::into_inner));
    }
}
