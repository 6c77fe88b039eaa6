//! A thread's one inbox: a channel that can be polled beside sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc;

use nix::sys::eventfd::{EfdFlags, EventFd};

/// The receiving end.
pub(crate) struct Inbox<E> {
    events: mpsc::Receiver<E>,
    bell: Arc<EventFd>,
}

/// A sending end.
pub(crate) struct Sender<E> {
    events: mpsc::Sender<E>,
    bell: Arc<EventFd>,
}

pub(crate) fn inbox<E>() -> io::Result<(Sender<E>, Inbox<E>)> {
    let (tx, rx) = mpsc::channel();
    let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
    let bell = Arc::new(EventFd::from_value_and_flags(0, flags)?);
    Ok((Sender { events: tx, bell: Arc::clone(&bell) }, Inbox { events: rx, bell }))
}

impl<E> Sender<E> {
    /// Delivers an event. A receiver that is gone is a process about to end: nothing to tell it.
    pub(crate) fn send(&self, event: E) {
        if self.events.send(event).is_ok() {
            // EAGAIN: the counter is full, so the bell rings already.
            let _ = self.bell.write(1);
        }
    }
}

impl<E> Clone for Sender<E> {
    fn clone(&self) -> Self {
        Self { events: self.events.clone(), bell: Arc::clone(&self.bell) }
    }
}

impl<E> Inbox<E> {
    /// What has arrived, until nothing is left.
    pub(crate) fn next(&self) -> Option<E> {
        self.events.try_recv().ok()
    }

    /// Clears the bell; call it before draining, so that no event waits unheard.
    pub(crate) fn silence(&self) {
        let _ = self.bell.read();
    }
}

impl<E> AsFd for Inbox<E> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
