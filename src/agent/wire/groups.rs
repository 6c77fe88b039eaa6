//! The multicast groups where neighbours ask for the IPv6 addresses that we may answer for.
//!
//! Joined by ordinary sockets, so that the kernel reports them (MLD): a switch that snoops forwards
//! a group's frames only to where it was reported. Joined as soon as a gate opens, not when an
//! address becomes ours: a takeover waits for no switch.
//!
//! On control's thread: to join, kernels before 6.17 take the lock under which interfaces are
//! configured, and a heartbeat must not wait for that.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv6Addr};

use nix::net::if_::if_indextoname;
use signpost_packet::solicited_node;
use signpost_plan::LinkIndex;
use signpost_speaker::{Command, Gate, Link};
use socket2::{Domain, Socket, Type};

/// All of them.
#[derive(Default)]
pub(super) struct Groups {
    /// Where the gate of an address is open.
    open: BTreeMap<Ipv6Addr, Vec<LinkIndex>>,
    links: BTreeMap<LinkIndex, Memberships>,
}

/// Those of one interface.
#[derive(Default)]
struct Memberships {
    /// This node's own address there.
    address_v6: Option<Ipv6Addr>,
    /// Addresses by their group: some have one in common.
    wanted: BTreeSet<(Ipv6Addr, Ipv6Addr)>,
    /// The socket that joined it.
    joined: BTreeMap<Ipv6Addr, usize>,
    /// One holds as many as `net.core.optmem_max` has room for.
    sockets: Vec<Socket>,
    /// Wanted and not joined: the interface may just have come.
    missing: BTreeSet<Ipv6Addr>,
    /// That some are missing was logged.
    told: bool,
}

impl Groups {
    /// Follows what control tells the wire; everything that it tells is a chance to join what could
    /// not be joined.
    pub(super) fn follow(&mut self, command: &Command) {
        match command {
            Command::Gate(IpAddr::V6(address), Gate::Open { links, .. }) => {
                self.set(*address, links.clone());
            }
            Command::Gate(IpAddr::V6(address), Gate::Shut) => self.set(*address, Vec::new()),
            Command::Links(links) => self.set_links(links),
            Command::Lease(_) => self.links.iter_mut().for_each(|(l, m)| m.join_missing(*l)),
            Command::Gate(_, Gate::Open { .. } | Gate::ShutAt(_) | Gate::Shut)
            | Command::Peers(_)
            | Command::Leave(_) => {}
        }
    }

    fn set(&mut self, address: Ipv6Addr, links: Vec<LinkIndex>) {
        for (link, memberships) in &mut self.links {
            if links.contains(link) {
                memberships.want(*link, address);
            } else {
                memberships.leave(*link, address);
            }
        }
        if links.is_empty() {
            self.open.remove(&address);
        } else {
            self.open.insert(address, links);
        }
    }

    /// The sockets of an interface that went away go with it. One that lost IPv6 meanwhile lost its
    /// memberships too, and its address with them.
    fn set_links(&mut self, links: &[Link]) {
        self.links.retain(|l, _| links.iter().any(|link| link.index == *l));
        for &Link { index, address_v6, .. } in links {
            if self.links.get(&index).is_some_and(|m| m.address_v6 == address_v6) {
                continue;
            }
            // First: when the old sockets close, the kernel takes what they joined, and lost, from
            // what the interface has now.
            self.links.remove(&index);
            let mut memberships = Memberships { address_v6, ..Memberships::default() };
            for (address, _) in self.open.iter().filter(|(_, on)| on.contains(&index)) {
                memberships.want(index, *address);
            }
            self.links.insert(index, memberships);
        }
    }
}

impl Memberships {
    fn want(&mut self, link: LinkIndex, address: Ipv6Addr) {
        let group = solicited_node(address);
        if self.wanted.insert((group, address)) && !self.joined.contains_key(&group) {
            self.missing.insert(group);
            self.join_missing(link);
        }
    }

    fn leave(&mut self, link: LinkIndex, address: Ipv6Addr) {
        let group = solicited_node(address);
        let others = (group, Ipv6Addr::UNSPECIFIED)..=(group, Ipv6Addr::from(u128::MAX));
        if !self.wanted.remove(&(group, address)) || self.wanted.range(others).next().is_some() {
            return;
        }
        self.missing.remove(&group);
        if let Some(socket) = self.joined.remove(&group) {
            // An interface that vanished took the membership with it.
            let _ = self.sockets[socket].leave_multicast_v6(&group, link.0);
        }
    }

    /// What fails is tried again with the next lease.
    fn join_missing(&mut self, link: LinkIndex) {
        while let Some(group) = self.missing.first().copied() {
            match self.join(link, group) {
                Ok(socket) => self.joined.insert(group, socket),
                Err(e) => return self.tell(link, group, &e),
            };
            self.missing.remove(&group);
        }
        self.told = false;
    }

    /// Once, and not of an interface that is gone: control hears of that by itself.
    fn tell(&mut self, link: LinkIndex, group: Ipv6Addr, e: &io::Error) {
        if let (false, Ok(name)) = (self.told, if_indextoname(link.0)) {
            self.told = true;
            let name = name.to_string_lossy();
            tracing::warn!(
                "{name}: cannot join {group}, so a switch may keep back who asks for IPv6 addresses: \
                 {e}: the interface needs IPv6, and an MTU of at least 1280; it is tried again"
            );
        }
    }

    fn join(&mut self, link: LinkIndex, group: Ipv6Addr) -> io::Result<usize> {
        if let Some(last) = self.sockets.last() {
            match last.join_multicast_v6(&group, link.0) {
                Err(e) if is_full(&e) => {}
                done => return done.map(|()| self.sockets.len() - 1),
            }
        }
        let next = Socket::new(Domain::IPV6, Type::DGRAM.cloexec(), None)?;
        next.join_multicast_v6(&group, link.0)?;
        self.sockets.push(next);
        Ok(self.sockets.len() - 1)
    }
}

fn is_full(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENOMEM | libc::ENOBUFS))
}
