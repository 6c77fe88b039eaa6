//! What goes out: to the group, to those that do not hear it, or to one.

use signpost_packet::Mac;

use super::Mesh;
use super::packet::{self, Flags, Header, Heartbeat, Macs, Message};
use crate::outbox::Outbox;
use crate::{Instant, Peer, Port};

/// With so many peers each heartbeat goes to every one of them beside the group; with more, only to
/// those that do not hear the group.
const UNICAST_MAX: usize = 16;

impl Mesh {
    pub(super) fn heartbeat(&mut self, now: Instant, out: &mut Outbox) {
        self.heartbeat_at = now + self.config.interval;
        let heartbeat = Heartbeat {
            interval: self.config.interval,
            multiplier: self.config.multiplier,
            epoch: self.epoch,
            macs: Macs::collect(self.links.iter().map(|l| Mac(l.mac))),
        };
        self.tell(&Message::Heartbeat(&heartbeat), out);
    }

    /// To all: once to the group on every link, and to each member that needs its own copy.
    pub(super) fn tell(&mut self, message: &Message<'_>, out: &mut Outbox) {
        self.sequence += 1;
        let flags = Flags { listening: self.listening(), multicast: true, wanted: false };
        let bytes = self.write(message, flags, out);
        for link in self.links.iter().filter(|l| l.up) {
            out.send_copy(Port::Mesh, Peer::Multicast(link.index), &bytes);
        }
        out.recycle(bytes);
        if !self.links.iter().any(|l| l.up) {
            // Without a carrier the kernel would only start to resolve, fail, and then wait up to a
            // second after the carrier is back (net.ipv4.neigh.*.retrans_time_ms).
            return;
        }
        let few = self.members.len() <= UNICAST_MAX;
        let flags = Flags { multicast: false, ..flags };
        let (mut plain, mut wanting) = (None, None);
        for id in self.members.ids() {
            let m = &self.members[id];
            let Some(address) = m.address() else { continue };
            let recent = |at: Option<Instant>| {
                at.is_some_and(|at| at + m.detection() >= m.last_heard && m.lives())
            };
            let hears = recent(m.multicast_heard);
            if !few && hears && !recent(m.wanted_heard) {
                continue;
            }
            let wanted = !few && !hears;
            let copy = if wanted { &mut wanting } else { &mut plain };
            let bytes =
                copy.get_or_insert_with(|| self.write(message, Flags { wanted, ..flags }, out));
            out.send_copy(Port::Mesh, Peer::Unicast(address), bytes);
        }
        plain.into_iter().chain(wanting).for_each(|bytes| out.recycle(bytes));
    }

    /// To one.
    pub(super) fn say(&mut self, to: Peer, message: &Message<'_>, out: &mut Outbox) {
        self.sequence += 1;
        let flags = Flags { listening: self.listening(), ..Flags::default() };
        let bytes = self.write(message, flags, out);
        match message {
            // They bring a member back, and its Ethernet address may have to be resolved again,
            // which can take a second: the group hears them at once.
            Message::Challenge { .. } | Message::Response { .. } | Message::Pull { .. } => {
                for link in self.links.iter().filter(|l| l.up) {
                    out.send_copy(Port::Mesh, Peer::Multicast(link.index), &bytes);
                }
            }
            Message::Heartbeat(_)
            | Message::Delta { .. }
            | Message::Part { .. }
            | Message::Leave { .. }
            | Message::Yours { .. } => {}
        }
        out.send(Port::Mesh, to, bytes);
    }

    fn write(&self, message: &Message<'_>, flags: Flags, out: &mut Outbox) -> Vec<u8> {
        let mut bytes = out.buffer();
        let header = Header {
            name: &self.config.node.0,
            boot: self.config.boot,
            sequence: self.sequence,
            flags,
        };
        packet::write(&mut bytes, &header, message, self.config.key.as_ref());
        bytes
    }
}
