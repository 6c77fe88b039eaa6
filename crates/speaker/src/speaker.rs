//! The whole wire side of a node.

use crate::{Command, Config, Event, Input, Instant, Machine, Output};

/// The lease of the control loop, the mesh and the ARP responder, as one machine.
#[derive(Debug)]
pub struct Speaker {
    config: Config,
}

impl Speaker {
    /// A speaker that owns nothing and listens first.
    pub fn new(config: Config) -> Self {
        Self { config }
    }

    /// Takes back the bytes of an [`Output::Send`] to use them again.
    pub fn recycle(&mut self, _bytes: Vec<u8>) {}
}

impl Machine for Speaker {
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, _now: Instant, _input: Input<'_, Command>) {}

    fn poll(&mut self) -> Option<Output<Event>> {
        None
    }

    fn deadline(&self) -> Option<Instant> {
        Some(Instant(self.config.interval))
    }
}
