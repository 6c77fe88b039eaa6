//! Every address that a member of the segment offers, with who offers it.

use std::collections::HashMap;
use std::net::IpAddr;

use signpost_plan::Draw;

use super::members::MemberId;
use super::packet::Entry;
use crate::Instant;

/// Addresses of one segment, all members together: a /16 of them.
pub(crate) const ADDRESSES_MAX: usize = 65_536;

/// An address's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AddressId(pub(crate) u32);

/// How much a member wants an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It could serve it.
    No,
    /// It says that it owns it.
    Yes,
    /// Its earlier process did; kept for it until it is back.
    Reserved,
}

/// What another member offers for an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) member: MemberId,
    pub(crate) weight: u16,
    pub(crate) serves: bool,
    pub(crate) claim: Claim,
    pub(crate) draw: Draw,
    /// Named by the whole set that is being applied.
    named: bool,
}

/// Who owns an address, in our eyes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Us,
    Member(MemberId),
}

/// An address.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) ip: IpAddr,
    /// In the order of members.
    pub(crate) offers: Vec<Offer>,
    /// Our weight, if we may own it.
    pub(crate) mine: Option<u16>,
    pub(crate) my_draw: Draw,
    pub(crate) owned: bool,
    /// We offered it before, with a weight.
    pub(crate) offered_before: bool,
    /// When we may take it from who owns it.
    pub(crate) ripe_at: Option<Instant>,
    /// Our earlier process owned it; the others keep it for us until then.
    pub(crate) remembered_until: Option<Instant>,
    pub(crate) first_seen: Instant,
    pub(crate) ever_owned: bool,
    pub(crate) unowned_since: Option<Instant>,
    /// Another claims it too, and has not heard of us.
    pub(crate) contested: bool,
    pub(crate) reported: Option<Owner>,
    pub(crate) recheck_at: Option<Instant>,
    touched: bool,
    pub(crate) changed: bool,
}

/// All of them, and which need a decision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    list: Vec<Address>,
    /// Only looked up, never walked: its order is not ours to know.
    by_ip: HashMap<IpAddr, AddressId>,
    free: Vec<AddressId>,
    touched: Vec<AddressId>,
}

impl Addresses {
    pub(crate) fn id(&self, ip: IpAddr) -> Option<AddressId> {
        self.by_ip.get(&ip).copied()
    }

    pub(crate) fn id_or_new(
        &mut self,
        ip: IpAddr,
        now: Instant,
        my_draw: impl FnOnce() -> Draw,
    ) -> Option<AddressId> {
        if let Some(id) = self.id(ip) {
            return Some(id);
        }
        let address = Address {
            ip,
            offers: Vec::new(),
            mine: None,
            my_draw: my_draw(),
            owned: false,
            offered_before: false,
            ripe_at: None,
            remembered_until: None,
            first_seen: now,
            ever_owned: false,
            unowned_since: None,
            contested: false,
            reported: None,
            recheck_at: None,
            touched: false,
            changed: false,
        };
        let id = if let Some(id) = self.free.pop() {
            self[id] = address;
            id
        } else if self.list.len() < ADDRESSES_MAX {
            self.list.push(address);
            AddressId((self.list.len() - 1) as u32)
        } else {
            return None;
        };
        self.by_ip.insert(ip, id);
        Some(id)
    }

    /// Forgets an address that nobody offers any more.
    pub(crate) fn collect(&mut self, id: AddressId) {
        let a = &self.list[id.0 as usize];
        let idle = a.offers.is_empty() && a.mine.is_none() && !a.owned && !a.changed;
        // A place that is free already may bear an address that has another place by now.
        let in_use = self.by_ip.get(&a.ip) == Some(&id);
        if idle && in_use && a.remembered_until.is_none() {
            self.by_ip.remove(&a.ip);
            self.free.push(id);
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = AddressId> + use<> {
        (0..self.list.len() as u32).map(AddressId)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Address> {
        self.list.iter()
    }

    /// A decision is due.
    pub(crate) fn touch(&mut self, id: AddressId) {
        if !self[id].touched {
            self[id].touched = true;
            self.touched.push(id);
        }
    }

    pub(crate) fn touch_all(&mut self) {
        for id in self.ids() {
            self.touch(id);
        }
    }

    pub(crate) fn touch_offered_by(&mut self, member: MemberId) {
        for id in self.ids() {
            if self[id].offer(member).is_some() {
                self.touch(id);
            }
        }
    }

    pub(crate) fn pop_touched(&mut self) -> Option<AddressId> {
        let id = self.touched.pop()?;
        self[id].touched = false;
        Some(id)
    }

    /// A member's offer, as it says.
    pub(crate) fn apply(
        &mut self,
        id: AddressId,
        member: MemberId,
        entry: &Entry,
        draw: impl FnOnce() -> Draw,
    ) {
        let a = &mut self[id];
        // Of an address that is owned, only claims matter.
        let settled = a.reported.is_some() && !entry.owned;
        let found = a.offers.binary_search_by_key(&member, |o| o.member);
        match found {
            Ok(i) if entry.removed => {
                let removed = a.offers.remove(i);
                if settled && removed.claim == Claim::No {
                    return;
                }
            }
            Ok(i) => {
                let offer = &mut a.offers[i];
                offer.named = true;
                let claim = match (entry.owned, offer.claim) {
                    (true, Claim::No | Claim::Yes | Claim::Reserved) => Claim::Yes,
                    (false, Claim::Reserved) => Claim::Reserved,
                    (false, Claim::No | Claim::Yes) => Claim::No,
                };
                if (offer.weight, offer.serves, offer.claim) == (entry.weight, true, claim) {
                    return;
                }
                let claims = (offer.claim, claim) != (Claim::No, Claim::No);
                (offer.weight, offer.serves, offer.claim) = (entry.weight, true, claim);
                if settled && !claims {
                    return;
                }
            }
            Err(_) if entry.removed => return,
            Err(i) => {
                let offer = Offer {
                    member,
                    weight: entry.weight,
                    serves: true,
                    claim: if entry.owned { Claim::Yes } else { Claim::No },
                    draw: draw(),
                    named: true,
                };
                a.offers.insert(i, offer);
                if settled {
                    return;
                }
            }
        }
        self.touch(id);
    }

    /// After a whole set was applied: what it did not name is gone.
    pub(crate) fn sweep(&mut self, member: MemberId) {
        self.retain(member, |offer| {
            if !offer.named && offer.claim == Claim::Reserved {
                offer.serves = false;
                return true;
            }
            std::mem::take(&mut offer.named)
        });
    }

    /// Before a whole set is applied.
    pub(crate) fn unname(&mut self, member: MemberId) {
        for id in self.ids() {
            if let Some(offer) = self[id].offer_mut(member) {
                offer.named = false;
            }
        }
    }

    /// A new process of that member: what the old one owned is kept for it.
    pub(crate) fn reserve(&mut self, member: MemberId) {
        self.retain(member, |offer| {
            offer.serves = false;
            let kept = offer.claim != Claim::No;
            offer.claim = Claim::Reserved;
            kept
        });
    }

    pub(crate) fn end_reservation(&mut self, member: MemberId) {
        self.retain(member, |offer| {
            if offer.claim == Claim::Reserved {
                offer.claim = Claim::No;
            }
            offer.serves
        });
    }

    pub(crate) fn remove_member(&mut self, member: MemberId) {
        self.retain(member, |_| false);
    }

    fn retain(&mut self, member: MemberId, keep: impl Fn(&mut Offer) -> bool) {
        for id in self.ids() {
            let a = &mut self[id];
            if let Ok(i) = a.offers.binary_search_by_key(&member, |o| o.member) {
                let before = (a.offers[i].serves, a.offers[i].claim);
                if !keep(&mut a.offers[i]) {
                    a.offers.remove(i);
                } else if (a.offers[i].serves, a.offers[i].claim) == before {
                    continue;
                }
                self.touch(id);
            }
        }
    }

    /// What a member says that it owns.
    pub(crate) fn claimed_by(&self, member: MemberId) -> impl Iterator<Item = IpAddr> {
        let claims = move |a: &&Address| a.offer(member).is_some_and(|o| o.claim == Claim::Yes);
        self.list.iter().filter(claims).map(|a| a.ip)
    }

    /// What is kept for a member's new process.
    pub(crate) fn reserved_for(&self, member: MemberId) -> Vec<Entry> {
        let kept = |a: &&Address| a.offer(member).is_some_and(|o| o.claim == Claim::Reserved);
        let entry = |a: &Address| Entry { address: a.ip, weight: 0, owned: true, removed: false };
        self.list.iter().filter(kept).map(entry).collect()
    }

    /// All that we offer.
    pub(crate) fn ours(&self) -> impl Iterator<Item = Entry> {
        self.list.iter().filter_map(Address::our_entry)
    }
}

impl Address {
    pub(crate) fn offer(&self, member: MemberId) -> Option<&Offer> {
        self.offers.binary_search_by_key(&member, |o| o.member).ok().map(|i| &self.offers[i])
    }

    fn offer_mut(&mut self, member: MemberId) -> Option<&mut Offer> {
        let found = self.offers.binary_search_by_key(&member, |o| o.member).ok();
        found.map(|i| &mut self.offers[i])
    }

    fn our_entry(&self) -> Option<Entry> {
        let (address, owned) = (self.ip, self.owned);
        self.mine.map(|weight| Entry { address, weight, owned, removed: false })
    }

    /// Our entry, or that it is gone.
    pub(crate) fn our_change(&self) -> Entry {
        let gone = Entry { address: self.ip, weight: 0, owned: false, removed: true };
        self.our_entry().unwrap_or(gone)
    }
}

impl std::ops::Index<AddressId> for Addresses {
    type Output = Address;

    fn index(&self, id: AddressId) -> &Address {
        &self.list[id.0 as usize]
    }
}

impl std::ops::IndexMut<AddressId> for Addresses {
    fn index_mut(&mut self, id: AddressId) -> &mut Address {
        &mut self.list[id.0 as usize]
    }
}
