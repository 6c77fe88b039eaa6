//! The applier: wanted tables into the kernel, and what it acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use signpost_netlink::nf_tables::{CommitError, Event, Session};
use signpost_nft::{Change, Family};
use signpost_plan::{Scope, ServiceKey, Table};

use crate::draft::{Draft, Want};
use crate::error::Error;
use crate::foreign::Damage;
use crate::found::{Found, Standing};
use crate::kernel::Kernel;
use crate::layout::Layout;
use crate::mend::Edits;
use crate::part::Endpoint;
use crate::plane::Plane;
use crate::{Frontend, TABLE, render};

/// A blank kernel gets so many Services in a transaction: more at once need more memory, and are
/// not quicker. Together the first 10,000 Services with 10 endpoints each took 30 MB for a moment.
const SERVICES_AT_ONCE: usize = 1000;

/// Whether others may change our table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableOwner {
    /// Nobody but us, where the kernel can refuse it (`owner` and `persist`, Linux 6.9).
    #[default]
    Auto,
    /// Everybody.
    Off,
}

/// What keeps a packet from being misled by a change that overtakes it. Less than all of it is only
/// to measure what it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// Guard rules, and what goes away goes in a transaction of its own.
    #[default]
    Full,
    /// Guard rules, and everything in one transaction.
    GuardsOnly,
    /// Everything in one transaction.
    None,
}

/// How to forward.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether others may change our table.
    pub table_owner: TableOwner,
    /// What keeps packets from being misled.
    pub protection: Protection,
}

/// What became of wanted tables.
#[derive(Debug, Default)]
pub struct Outcome {
    /// In the kernel now, or gone from it; without entries of families that are not forwarded.
    pub acknowledged: Vec<(ServiceKey, Option<Table>)>,
    /// The kernel refused these, with the errno; it has what it had of them before.
    pub refused: Vec<(ServiceKey, i32)>,
    /// Wanted still: the next call tries again.
    pub in_flight: Vec<ServiceKey>,
    /// Endpoints of UDP frontends that went away: connections that lead there must be forgotten.
    pub gone: Vec<(Frontend, Endpoint)>,
    /// How many transactions the kernel took.
    pub transactions: u32,
    /// The kernel has all that is wanted, but for what it refused.
    pub is_complete: bool,
    /// What went wrong as a whole, if something did.
    pub trouble: Option<Error>,
}

/// Wanted tables; `None`: nothing of the Service is left.
type Tables = BTreeMap<ServiceKey, Option<Table>>;

/// Holds the kernel's rules to the wanted tables.
#[derive(Debug)]
pub struct Forward<K = Session> {
    kernel: K,
    plane: Plane,
    ownership: Ownership,
    protection: Protection,
    /// What is wanted and not yet acknowledged.
    pending: Tables,
    scope: Scope,
    /// Single elements that others edited since.
    edits: Edits,
    /// Whether what we know is what the kernel has.
    knowledge: Knowledge,
    held: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ownership {
    /// Not asked for.
    Unwanted,
    /// To be had with the next transaction.
    Wanted,
    /// The kernel gave it.
    Held,
    /// The kernel can't give it.
    Unsupported,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    /// Until the first complete set of tables nothing is changed: it would look as if all other
    /// Services were gone.
    Unsynced,
    /// The kernel must be read before the next change.
    Doubtful,
    /// The kernel has what it acknowledged.
    Certain,
}

impl Forward {
    /// Opens a socket in this thread's network namespace. Nothing is changed yet.
    pub fn open(options: Options) -> Result<Self, Error> {
        let mut session = Session::open().map_err(Error::socket)?;
        // The flag goes with the process: where it is, another agent runs.
        if look(&mut session)?.is_some_and(|table| table.owner) {
            return Err(Error::OwnedByAnother);
        }
        Ok(Self::over(session, options))
    }

    /// Takes a session that may own our table already, as of a process that hands over.
    pub fn with_session(session: Session, options: Options) -> Result<Self, Error> {
        Self::with_kernel(session, options)
    }

    /// The session, for its port id and to hand it over.
    pub fn session(&self) -> &Session {
        &self.kernel
    }

    /// What others did to our table, from the events of a monitor. The next call mends it, whatever
    /// else it does.
    pub fn foreign(&mut self, events: &[Event]) -> Damage {
        let own_port = self.kernel.portid();
        let damage = Damage::of(&self.plane, own_port, events);
        if self.knowledge == Knowledge::Certain {
            self.edits.absorb(own_port, events);
            if damage.all || self.edits.are_many() {
                self.edits.clear();
                self.knowledge = Knowledge::Doubtful;
            }
        }
        damage
    }

    /// Mends what others broke: single elements at once, the rest after reading what is there.
    pub fn repair(&mut self, damage: &Damage) -> Outcome {
        if damage.all { self.read_and_diff() } else { self.run() }
    }
}

impl<K: Kernel> Forward<K> {
    /// Over any kernel. It is read once, so that what would fail later fails now.
    pub fn with_kernel(mut kernel: K, options: Options) -> Result<Self, Error> {
        look(&mut kernel)?;
        Ok(Self::over(kernel, options))
    }

    fn over(kernel: K, options: Options) -> Self {
        let guards = options.protection != Protection::None;
        let layout = Layout { family: Family::Ip, guards };
        Self {
            kernel,
            plane: Plane::new(layout),
            ownership: match options.table_owner {
                TableOwner::Auto => Ownership::Wanted,
                TableOwner::Off => Ownership::Unwanted,
            },
            protection: options.protection,
            pending: Tables::new(),
            scope: Scope::default(),
            edits: Edits::default(),
            knowledge: Knowledge::Unsynced,
            held: false,
        }
    }

    /// Makes these tables the only ones. What the kernel has already of them stays untouched, so a
    /// restart changes nothing.
    pub fn sync(&mut self, all: Vec<Table>, scope: &Scope) -> Outcome {
        let gone = self.plane.services.keys().map(|service| (service.clone(), None));
        self.pending = gone.collect();
        self.pending.extend(all.into_iter().map(|table| (table.service.clone(), Some(table))));
        self.scope = scope.clone();
        self.knowledge = Knowledge::Doubtful;
        self.run()
    }

    /// Makes these Services' tables as wanted; `None`: nothing of the Service is left. Before the
    /// first [`Forward::sync`] they only wait.
    pub fn apply(&mut self, want: Vec<(ServiceKey, Option<Table>)>, scope: &Scope) -> Outcome {
        self.pending.extend(want);
        if self.scope != *scope {
            self.scope = scope.clone();
        }
        self.run()
    }

    /// Reads what the kernel holds and mends what differs: after events were lost, or somebody
    /// edited our table.
    pub fn read_and_diff(&mut self) -> Outcome {
        if self.knowledge == Knowledge::Certain {
            self.knowledge = Knowledge::Doubtful;
        }
        self.run()
    }

    /// Stops all writing to the kernel (true), or lets the next call catch up (false).
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Whether the kernel has what it acknowledged, as far as is known: nobody edited it since.
    pub fn is_certain(&self) -> bool {
        self.knowledge == Knowledge::Certain && self.edits.is_empty()
    }

    /// Whether the kernel refuses other people's edits of our table.
    pub fn is_owner(&self) -> bool {
        self.ownership == Ownership::Held
    }

    /// The kernel, for who made it.
    pub fn into_kernel(self) -> K {
        self.kernel
    }

    fn run(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        if !self.held && self.knowledge != Knowledge::Unsynced {
            let mut tables = std::mem::take(&mut self.pending);
            outcome.trouble = self.write(&mut tables, &mut outcome).err();
            self.pending = tables;
        }
        outcome.in_flight = self.pending.keys().cloned().collect();
        outcome.is_complete = !self.held && self.is_certain() && outcome.in_flight.is_empty();
        outcome
    }

    /// Writes all tables, as far as the kernel takes them; what is left in `tables` is still wanted.
    fn write(&mut self, tables: &mut Tables, outcome: &mut Outcome) -> Result<(), Error> {
        self.mend(outcome);
        let found = match self.knowledge {
            Knowledge::Certain => None,
            Knowledge::Doubtful | Knowledge::Unsynced => Some(self.find()?),
        };
        let is_blank = found.as_ref().is_some_and(|found| found.standing == Standing::Missing);
        if is_blank && self.plane.fronts.is_empty() {
            self.write_some(&mut Tables::new(), found, outcome)?;
            while !tables.is_empty() {
                let rest = tables.keys().nth(SERVICES_AT_ONCE).cloned();
                let rest = rest.map(|service| tables.split_off(&service)).unwrap_or_default();
                let mut some = std::mem::replace(tables, rest);
                let written = self.write_some(&mut some, None, outcome);
                tables.append(&mut some);
                written?;
            }
            return Ok(());
        }
        self.write_some(tables, found, outcome)
    }

    /// Writes tables together.
    fn write_some(
        &mut self,
        tables: &mut Tables,
        mut found: Option<Found>,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let part = |(service, table): (&ServiceKey, &Option<Table>)| {
            (service.clone(), table.as_ref().map(render))
        };
        let mut wanted: Vec<Want> = tables.iter().map(part).collect();
        // Each turn has fewer Services than the one before, or, once, knows more of the kernel.
        loop {
            let refused = match self.plane.draft(&wanted, &self.scope, found.as_ref()) {
                Ok(draft) => match self.commit(draft, found.as_ref(), outcome)? {
                    Committed::Whole => break,
                    Committed::Retry => continue,
                    Committed::Outdated => {
                        found = Some(self.find()?);
                        continue;
                    }
                    Committed::Refused(services) => services,
                },
                Err(taken) => taken.into_iter().map(|index| (index, libc::EEXIST)).collect(),
            };
            isolate(&mut wanted, tables, refused, outcome);
        }
        let layout = self.plane.layout;
        for (service, mut table) in std::mem::take(tables) {
            if let Some(table) = &mut table {
                table.entries.retain(|e| e.frontend.vip().is_some_and(|a| layout.holds(a)));
            }
            outcome.acknowledged.push((service, table));
        }
        Ok(())
    }

    /// Mends single elements. Where the kernel refuses that, there was another edit meanwhile.
    fn mend(&mut self, outcome: &mut Outcome) {
        if self.knowledge == Knowledge::Certain && !self.edits.is_empty() {
            let changes = self.edits.mend(&self.plane);
            match self.kernel.commit(self.plane.layout.family, TABLE, &changes) {
                Ok(()) => outcome.transactions += 1,
                Err(_) => self.knowledge = Knowledge::Doubtful,
            }
        }
        self.edits.clear();
    }

    fn find(&mut self) -> Result<Found, Error> {
        let layout = self.plane.layout;
        let read = self.kernel.read(layout.family, TABLE).map_err(Error::reading)?;
        Ok(match read {
            Some((table, elements)) => Found::of(layout, &table, &elements),
            None => Found::nothing(layout),
        })
    }

    /// Commits both transactions of a draft and takes it for the truth.
    fn commit(
        &mut self,
        mut draft: Draft,
        found: Option<&Found>,
        outcome: &mut Outcome,
    ) -> Result<Committed, Error> {
        if self.protection != Protection::Full {
            draft.join();
        }
        let head = self.table_changes(found);
        let asks_ownership = self.ownership == Ownership::Wanted && !head.is_empty();
        draft.transactions[0].prepend(head);
        let [first, later] = &draft.transactions;
        let known = self.knowledge;
        let family = self.plane.layout.family;
        if !first.changes.is_empty() {
            // Until it is acknowledged, what the kernel has is unknown.
            self.knowledge = Knowledge::Doubtful;
            match self.kernel.commit(family, TABLE, &first.changes) {
                Ok(()) => outcome.transactions += 1,
                Err(CommitError::Refused(refusals)) => {
                    // Nothing of it was applied.
                    self.knowledge = known;
                    let origin = |index: usize| first.origins.get(index).copied().flatten();
                    let origins = refusals.iter().map(|r| (origin(r.index), r.errno));
                    let refused = self.refused(origins.collect(), found.is_some());
                    let why = CommitError::Refused(refusals);
                    return refused.map_err(|e| e.explained(family, &first.changes, &why));
                }
                Err(why @ CommitError::RefusedWhole { errno }) => {
                    return Err(Error::refused(errno).explained(family, &first.changes, &why));
                }
                Err(error @ (CommitError::NoAck | CommitError::Io(_))) => {
                    return Err(Error::Unacknowledged(error));
                }
            }
        }
        if asks_ownership {
            self.ownership = Ownership::Held;
        }
        self.knowledge = Knowledge::Certain;
        if !later.changes.is_empty() {
            // What is left over harms no packet: the next call reads, and takes it away.
            match self.kernel.commit(family, TABLE, &later.changes) {
                Ok(()) => outcome.transactions += 1,
                Err(_) => self.knowledge = Knowledge::Doubtful,
            }
        }
        outcome.gone.extend_from_slice(&draft.gone);
        self.plane.accept(draft);
        Ok(Committed::Whole)
    }

    /// What makes the table, adopts it, or makes it anew.
    fn table_changes(&self, found: Option<&Found>) -> Vec<Change> {
        let owned = self.ownership == Ownership::Wanted || self.ownership == Ownership::Held;
        let add = Change::AddTable { owner: owned, persist: owned };
        match found.map(|found| found.standing) {
            Some(Standing::Missing) => vec![add],
            Some(Standing::Broken) => vec![Change::DeleteTable, add],
            Some(Standing::There { owned: false }) if owned => vec![add],
            Some(Standing::There { .. }) | None => Vec::new(),
        }
    }

    fn refused(
        &mut self,
        origins: Vec<(Option<usize>, i32)>,
        compared: bool,
    ) -> Result<Committed, Error> {
        let errnos: BTreeSet<i32> = origins.iter().map(|(_, errno)| *errno).collect();
        let unsupported = [libc::EOPNOTSUPP, libc::EINVAL];
        if self.ownership == Ownership::Wanted
            && matches!(origins[..], [(None, errno), ..] if unsupported.contains(&errno))
        {
            // Before Linux 6.9 there is no `persist`; a table that we made without cannot get it.
            self.ownership = Ownership::Unsupported;
            return Ok(Committed::Retry);
        }
        // The kernel does not have what we think: somebody was here, and the event is on its way.
        let outdated = [libc::ENOENT, libc::EEXIST, libc::EBUSY];
        if !compared && outdated.iter().any(|errno| errnos.contains(errno)) {
            return Ok(Committed::Outdated);
        }
        let mut services = BTreeMap::new();
        for (origin, errno) in &origins {
            if let Some(service) = origin {
                services.entry(*service).or_insert(*errno);
            }
        }
        match origins[..] {
            // Later refusals may follow from this one.
            [(None, errno), ..] => Err(Error::refused(errno)),
            [] => Err(Error::refused(libc::EIO)),
            [(Some(_), libc::EPERM), ..] => Err(Error::OwnedByAnother),
            [(Some(_), _), ..] => Ok(Committed::Refused(services)),
        }
    }
}

/// Our table as it is, without its elements.
fn look(kernel: &mut impl Kernel) -> Result<Option<signpost_nft::Table>, Error> {
    let found = kernel.read(Family::Ip, TABLE).map_err(Error::reading)?;
    Ok(found.map(|(table, _)| table))
}

enum Committed {
    Whole,
    /// With less to ask for.
    Retry,
    /// After reading what the kernel has, which happens once.
    Outdated,
    /// These of the wanted Services, with the errno.
    Refused(BTreeMap<usize, i32>),
}

/// Takes refused Services out, so that the others get in.
fn isolate(
    wanted: &mut Vec<Want>,
    tables: &mut Tables,
    refused: BTreeMap<usize, i32>,
    outcome: &mut Outcome,
) {
    for (index, errno) in refused.into_iter().rev() {
        let (service, _) = wanted.remove(index);
        tables.remove(&service);
        outcome.refused.push((service, errno));
    }
}
