//! What waits for the driver, in buffers that are used again.

use std::collections::VecDeque;

use crate::{Event, Output, Peer, Port};

/// Buffers kept for later; more than one burst of announcements is not worth its memory.
const SPARE_MAX: usize = 256;
/// A usual datagram or frame fits without growing.
const BUFFER_LEN: usize = 128;

/// Outputs in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Output<Event>>,
    spare: Vec<Vec<u8>>,
}

impl Outbox {
    pub(crate) fn pop(&mut self) -> Option<Output<Event>> {
        self.queue.pop_front()
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.queue.push_back(Output::Event(event));
    }

    pub(crate) fn send(&mut self, port: Port, to: Peer, bytes: Vec<u8>) {
        self.queue.push_back(Output::Send { port, to, bytes });
    }

    pub(crate) fn send_copy(&mut self, port: Port, to: Peer, bytes: &[u8]) {
        let mut buffer = self.buffer();
        buffer.extend_from_slice(bytes);
        self.send(port, to, buffer);
    }

    /// An empty one.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_LEN))
    }

    pub(crate) fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}
