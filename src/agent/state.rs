//! Everything that control knows, and what follows from it. No I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use signpost_forward::Outcome;
use signpost_plan::world::{Change, Host, Touched};
use signpost_plan::{
    Entry, Lease, NodeName, Observed, Offer, Reason, ServiceKey, Table, Verdict, World, decide,
    eligible, table,
};
use signpost_report::Diagnostic;
use signpost_speaker::{self as speaker, Gate, MemberState};

pub(crate) struct State {
    pub(crate) node: NodeName,
    pub(crate) world: World,
    pub(crate) observed: Observed,
    /// The source's first reading is complete; before that nothing is decided.
    pub(crate) complete: bool,
    /// What the source found wrong.
    pub(crate) source: Vec<Diagnostic>,
    pub(crate) members: BTreeMap<NodeName, MemberState>,
    /// Where datagrams came from that another key signed.
    pub(crate) wrong_keys: BTreeMap<IpAddr, Instant>,
    /// Strangers that answered for our addresses, the last one of each.
    pub(crate) conflicts: BTreeMap<IpAddr, ([u8; 6], Instant)>,
    /// The verdict of each address and since when it stands.
    pub(crate) verdicts: BTreeMap<IpAddr, (Verdict, jiff::Timestamp)>,
    /// The UDP port of the mesh.
    pub(crate) mesh_port: u16,
    /// Why no rules can be written at all, if so.
    pub(crate) trouble: Option<String>,
    /// Services whose newest rules the kernel has not acknowledged.
    pub(crate) in_flight: Vec<ServiceKey>,
    /// How many verdicts changed in this turn.
    noted: usize,
    /// How long changes took from the event to the kernel's acknowledgement.
    pub(crate) changes: Changes,
    /// What the wire was told last.
    gates: BTreeMap<IpAddr, Gate>,
}

/// How long changes took from the event to the kernel's acknowledgement.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) count: u64,
    /// The first: everything that the source held at the start.
    pub(crate) first: Duration,
    pub(crate) last: Duration,
}

/// So many changed verdicts a turn are logged one by one.
const NOTES_MAX: usize = 20;

/// What the wire reports again while it lasts is over when it was not reported for so long.
pub(crate) const NEWS: Duration = Duration::from_secs(120);

/// More senders with a wrong key than this are one attack, and not worth a line each.
const WRONG_KEYS_MAX: usize = 64;

impl State {
    pub(crate) fn new(node: NodeName, mesh_port: u16) -> Self {
        Self {
            world: World::new(node.clone()),
            node,
            observed: Observed::default(),
            complete: false,
            source: Vec::new(),
            members: BTreeMap::new(),
            wrong_keys: BTreeMap::new(),
            conflicts: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            mesh_port,
            trouble: None,
            in_flight: Vec::new(),
            noted: 0,
            changes: Changes::default(),
            gates: BTreeMap::new(),
        }
    }

    pub(crate) fn changes(&mut self, changes: Vec<Change>) -> Touched {
        let mut touched = Touched::default();
        for c in changes {
            touched.merge(self.world.apply(c));
        }
        touched
    }

    pub(crate) fn host(&mut self, host: Host) -> Touched {
        self.world.set_host(host)
    }

    /// News of the wire. They change who owns what, never what this node could serve.
    pub(crate) fn wire(&mut self, event: speaker::Event) {
        match event {
            speaker::Event::Owner(a, owner) => {
                match owner {
                    Some(n) => self.observed.owners.insert(a, n),
                    None => self.observed.owners.remove(&a),
                };
                match self.gates.get(&a).cloned() {
                    // What we offer stays as it is.
                    Some(Gate::Open { links, weight }) => self.note(a, Ok(Offer { links, weight })),
                    // The wire shut it in time.
                    Some(Gate::ShutAt(_)) => {
                        self.note(a, eligible(&self.world, &self.observed, a));
                    }
                    Some(Gate::Shut) | None => {}
                }
            }
            speaker::Event::Member(n, state) => {
                self.members.insert(n, state);
            }
            speaker::Event::CutOff(cut) => self.observed.cut_off = cut,
            speaker::Event::LeaseLapsed(lapsed) => {
                // The wire has withdrawn on its own; once this loop turns again it comes back.
                if lapsed && !self.gates.is_empty() {
                    tracing::error!("the control loop stood still: the wire withdrew everything");
                }
                self.observed.lease = if lapsed { Lease::Lapsed } else { Lease::Held };
            }
            speaker::Event::WrongKey(from) => {
                let now = Instant::now();
                self.wrong_keys.retain(|_, at| now - *at < NEWS);
                if self.wrong_keys.len() < WRONG_KEYS_MAX
                    && self.wrong_keys.insert(from, now).is_none()
                {
                    tracing::warn!("a datagram from {from} is signed with another mesh key");
                }
            }
            speaker::Event::Conflict { address, mac } => {
                let now = Instant::now();
                self.conflicts.retain(|_, (_, at)| now - *at < NEWS);
                self.conflicts.insert(address, (mac, now));
                tracing::error!("{address}: a stranger ({}) answers for it too", mac_text(mac));
            }
            speaker::Event::Stalled(gap) => {
                tracing::warn!("this process stood still for {} ms", gap.as_millis());
            }
        }
    }

    pub(crate) fn drained(&mut self, drained: bool) -> Touched {
        self.observed.drained = drained;
        Touched { all: true, ..Touched::default() }
    }

    /// What the kernel shall hold for what was touched.
    pub(crate) fn wanted(&self, touched: &Touched) -> Vec<(ServiceKey, Option<Table>)> {
        let one = |k: &ServiceKey| (k.clone(), table(&self.world, k, &self.node));
        if touched.all {
            // What the kernel has of Services that are gone must go too.
            let known = self.observed.acknowledged.keys().chain(self.observed.refused.keys());
            let all: BTreeSet<_> = self.world.services().map(|s| &s.key).chain(known).collect();
            all.into_iter().map(one).collect()
        } else {
            touched.services.iter().map(one).collect()
        }
    }

    /// What the kernel said.
    pub(crate) fn outcome(&mut self, outcome: Outcome) -> Touched {
        let mut touched = Touched::default();
        self.in_flight = outcome.in_flight;
        for (key, table) in outcome.acknowledged {
            self.observed.refused.remove(&key);
            let old = match table {
                Some(t) => {
                    touched.addresses.extend(t.entries.iter().filter_map(|e| e.frontend.vip()));
                    self.observed.acknowledged.insert(key, t)
                }
                None => self.observed.acknowledged.remove(&key),
            };
            let old = old.iter().flat_map(|t| &t.entries);
            touched.addresses.extend(old.filter_map(|e| e.frontend.vip()));
        }
        for (key, family, table) in outcome.partly {
            let of_family = |e: &Entry| e.frontend.family() == family;
            let known = self.observed.acknowledged.entry(key.clone());
            let known = known.or_insert_with(|| Table { service: key, entries: Vec::new() });
            let new = table.map(|t| t.entries).unwrap_or_default();
            let both = known.entries.iter().filter(|e| of_family(e)).chain(&new);
            touched.addresses.extend(both.filter_map(|e| e.frontend.vip()));
            known.entries.retain(|e| !of_family(e));
            known.entries.extend(new);
        }
        for (key, errno) in outcome.refused {
            let service = self.world.service(&key);
            touched.addresses.extend(service.iter().flat_map(|s| s.vips()));
            self.observed.refused.insert(key, errno);
        }
        touched
    }

    /// The orders by which the wire learns what changed, withdrawals first.
    pub(crate) fn gates(&mut self, touched: &Touched) -> Vec<(IpAddr, Gate)> {
        if !self.complete {
            return Vec::new();
        }
        let addresses: BTreeSet<IpAddr> = if touched.all {
            // Also those that are nobody's any more.
            let known = self.gates.keys().chain(self.verdicts.keys()).copied();
            self.world.addresses().chain(known).collect()
        } else {
            touched.addresses.clone()
        };
        let mut orders = Vec::new();
        for a in addresses {
            let offer = eligible(&self.world, &self.observed, a);
            self.note(a, offer.clone());
            let gate = match offer {
                Ok(offer) => Gate::Open { links: offer.links, weight: offer.weight },
                Err(_) => Gate::Shut,
            };
            if self.gates.get(&a).unwrap_or(&Gate::Shut) != &gate {
                match gate {
                    Gate::Shut => self.gates.remove(&a),
                    Gate::Open { .. } | Gate::ShutAt(_) => self.gates.insert(a, gate.clone()),
                };
                orders.push((a, gate));
            }
        }
        orders.sort_by_key(|(a, g)| (*g != Gate::Shut, *a));
        orders
    }

    /// The gates of addresses whose rules are being repaired: shut at `until` unless told again.
    pub(crate) fn repairing(
        &mut self,
        damaged: &BTreeSet<IpAddr>,
        until: speaker::Instant,
    ) -> Vec<(IpAddr, Gate)> {
        let mut orders = Vec::new();
        for a in damaged {
            if let Some(gate) = self.gates.get_mut(a) {
                *gate = Gate::ShutAt(until);
                orders.push((*a, gate.clone()));
            }
        }
        orders
    }

    pub(crate) fn note_change(&mut self, took: Duration) {
        if self.changes.count == 0 {
            self.changes.first = took;
        }
        self.changes.count += 1;
        self.changes.last = took;
    }

    /// Every address that the wire may answer for.
    pub(crate) fn open(&self) -> BTreeSet<IpAddr> {
        self.gates.keys().copied().collect()
    }

    /// A turn of the control loop is over: says of how many addresses it did not log the verdict.
    pub(crate) fn end_turn(&mut self) {
        let noted = std::mem::take(&mut self.noted);
        if noted > NOTES_MAX {
            tracing::info!("and {} addresses more: see `signpost status`", noted - NOTES_MAX);
        }
    }

    /// Remembers when the verdict of an address changed.
    fn note(&mut self, a: IpAddr, offer: Result<Offer, Reason>) {
        let new = decide(&self.world, &self.observed, a, offer);
        if new == Verdict::Withhold(Reason::NoService) {
            self.verdicts.remove(&a);
            return;
        }
        if self.verdicts.get(&a).is_some_and(|(old, _)| *old == new) {
            return;
        }
        self.noted += 1;
        if self.noted <= NOTES_MAX {
            match &new {
                Verdict::Own(_) => tracing::info!("{a}: ours"),
                Verdict::StandBy(n) => tracing::info!("{a}: {n} has it"),
                Verdict::Withhold(r) => tracing::info!("{a}: withheld: {r}"),
            }
        }
        self.verdicts.insert(a, (new, jiff::Timestamp::now()));
    }
}

pub(crate) fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}
