//! Control's word: its lease, and the gate of each address. Nothing is said on the wire for an
//! address except by [`Gates::permit`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::IpAddr;

use signpost_plan::LinkIndex;

use crate::{Gate, Instant, Link};

/// What control allows now.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    held_until: Option<Instant>,
    lapsed: bool,
    links: BTreeMap<LinkIndex, Link>,
    open: BTreeMap<IpAddr, Opening>,
    shuts: BinaryHeap<Reverse<(Instant, IpAddr)>>,
}

#[derive(Debug)]
struct Opening {
    links: Vec<LinkIndex>,
    weight: u16,
    shut_at: Option<Instant>,
}

/// What a lease did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Lapsed,
    Renewed,
}

impl Gates {
    /// Renewed until then.
    pub(crate) fn renew(&mut self, now: Instant, until: Instant) -> Option<Turn> {
        self.held_until = Some(until);
        if now >= until {
            return self.expire_lease(now);
        }
        std::mem::take(&mut self.lapsed).then_some(Turn::Renewed)
    }

    pub(crate) fn lease_held(&self, now: Instant) -> bool {
        self.held_until.is_some_and(|until| now < until)
    }

    /// Lapses it when its time has come.
    pub(crate) fn expire_lease(&mut self, now: Instant) -> Option<Turn> {
        let over = self.held_until.is_some_and(|until| now >= until);
        if !over {
            return None;
        }
        self.held_until = None;
        (!std::mem::replace(&mut self.lapsed, true)).then_some(Turn::Lapsed)
    }

    /// An order. Whether it changed anything is for who asks [`Self::offer`] before and after.
    pub(crate) fn set(&mut self, address: IpAddr, gate: Gate) {
        match gate {
            Gate::Open { links, weight } => {
                self.open.insert(address, Opening { links, weight, shut_at: None });
            }
            Gate::ShutAt(at) => {
                if let Some(opening) = self.open.get_mut(&address) {
                    // The first deadline holds: who damages again gains no time.
                    let at = opening.shut_at.map_or(at, |earlier| earlier.min(at));
                    opening.shut_at = Some(at);
                    self.shuts.push(Reverse((at, address)));
                }
            }
            Gate::Shut => {
                self.open.remove(&address);
            }
        }
    }

    /// The next address whose time to shut has come; it is shut.
    pub(crate) fn pop_shut(&mut self, now: Instant) -> Option<IpAddr> {
        while let Some(&Reverse((at, address))) = self.shuts.peek() {
            if at > now {
                return None;
            }
            self.shuts.pop();
            let due = |o: &Opening| o.shut_at.is_some_and(|at| now >= at);
            if self.open.get(&address).is_some_and(due) {
                self.open.remove(&address);
                return Some(address);
            }
        }
        None
    }

    pub(crate) fn set_links(&mut self, links: Vec<Link>) {
        self.links = links.into_iter().map(|l| (l.index, l)).collect();
    }

    pub(crate) fn link(&self, index: LinkIndex) -> Option<&Link> {
        self.links.get(&index)
    }

    pub(crate) fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.values()
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.open.keys().copied()
    }

    /// The weight with which this node may own an address now.
    pub(crate) fn offer(&self, now: Instant, address: IpAddr) -> Option<u16> {
        let opening = self.opening(now, address)?;
        opening.links.iter().any(|l| self.is_up(*l)).then_some(opening.weight)
    }

    /// The link, if something may be said there for an address now.
    pub(crate) fn permit(&self, now: Instant, address: IpAddr, link: LinkIndex) -> Option<&Link> {
        let opening = self.opening(now, address)?;
        let link = self.links.get(&link)?;
        (link.up && opening.links.contains(&link.index)).then_some(link)
    }

    /// Where something may be said for an address now.
    pub(crate) fn permits(&self, now: Instant, address: IpAddr) -> impl Iterator<Item = &Link> {
        let links = self.opening(now, address).map_or(&[][..], |o| &o.links);
        links.iter().filter_map(|l| self.links.get(l)).filter(|l| l.up)
    }

    fn opening(&self, now: Instant, address: IpAddr) -> Option<&Opening> {
        if !self.lease_held(now) {
            return None;
        }
        let opening = self.open.get(&address)?;
        opening.shut_at.is_none_or(|at| now < at).then_some(opening)
    }

    fn is_up(&self, link: LinkIndex) -> bool {
        self.links.get(&link).is_some_and(|l| l.up)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let shut = self.shuts.peek().map(|r| r.0.0);
        [shut, self.held_until].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const ETH0: LinkIndex = LinkIndex(2);
    const ETH1: LinkIndex = LinkIndex(3);

    fn ms(n: u64) -> Instant {
        Instant(Duration::from_millis(n))
    }

    fn gates() -> Gates {
        let mac = [2, 0, 0, 0, 0, 1];
        let link =
            |index, up| Link { index, mac, up, address: None, address_v6: None, gateway: None };
        let mut gates = Gates::default();
        gates.set_links(vec![link(ETH0, true), link(ETH1, true)]);
        gates.renew(ms(0), ms(1000));
        gates.set(VIP, Gate::Open { links: vec![ETH0], weight: 7 });
        gates
    }

    #[test]
    fn open_means_lease_gate_and_carrier() {
        let mut g = gates();
        assert_eq!(g.offer(ms(0), VIP), Some(7));
        assert!(g.permit(ms(0), VIP, ETH0).is_some());
        assert!(g.permit(ms(0), VIP, ETH1).is_none(), "not a link of the gate");
        assert!(g.permit(ms(1000), VIP, ETH0).is_none(), "the lease is over");
        g.set(VIP, Gate::Shut);
        assert_eq!(g.offer(ms(0), VIP), None);
        let mut g = gates();
        g.set_links(vec![]);
        assert_eq!(g.offer(ms(0), VIP), None);
    }

    #[test]
    fn without_a_lease_nothing_is_open() {
        let mut g = gates();
        g.held_until = None;
        assert!(g.permit(ms(0), VIP, ETH0).is_none());
    }

    #[test]
    fn shut_at_shuts_without_being_told_and_opening_again_cancels_it() {
        let mut g = gates();
        g.set(VIP, Gate::ShutAt(ms(20)));
        assert!(g.permit(ms(19), VIP, ETH0).is_some());
        assert!(g.permit(ms(20), VIP, ETH0).is_none());
        assert_eq!(g.pop_shut(ms(19)), None);
        g.set(VIP, Gate::Open { links: vec![ETH0], weight: 7 });
        assert_eq!(g.pop_shut(ms(30)), None);
        assert!(g.permit(ms(30), VIP, ETH0).is_some());
        g.set(VIP, Gate::ShutAt(ms(40)));
        assert_eq!(g.pop_shut(ms(40)), Some(VIP));
        g.set(VIP, Gate::ShutAt(ms(90)));
        assert!(g.permit(ms(50), VIP, ETH0).is_none(), "it opens nothing");
    }

    #[test]
    fn a_lease_lapses_once_and_is_renewed_once() {
        let mut g = gates();
        assert_eq!(g.expire_lease(ms(999)), None);
        assert_eq!(g.expire_lease(ms(1000)), Some(Turn::Lapsed));
        assert_eq!(g.expire_lease(ms(1001)), None);
        assert_eq!(g.renew(ms(1100), ms(2000)), Some(Turn::Renewed));
        assert_eq!(g.renew(ms(1200), ms(2000)), None);
    }
}
