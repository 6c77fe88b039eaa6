//! The applier: wanted tables into the kernel, and what it acknowledged.

use std::collections::BTreeMap;

use signpost_netlink::nf_tables::{Event, Session};
use signpost_plan::{Family, Scope, ServiceKey, Table};

use crate::Frontend;
use crate::error::Error;
use crate::foreign::Damage;
use crate::kernel::Kernel;
use crate::part::Endpoint;
use crate::side::{Side, Written, look};

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
    /// In the kernel now, or gone from it.
    pub acknowledged: Vec<(ServiceKey, Option<Table>)>,
    /// The same of one family; the other one was refused or is in flight, and the kernel has what
    /// it had of it before.
    pub partly: Vec<(ServiceKey, Family, Option<Table>)>,
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
pub(crate) type Tables = BTreeMap<ServiceKey, Option<Table>>;

/// Holds the kernel's rules to the wanted tables.
#[derive(Debug)]
pub struct Forward<K = Session> {
    kernel: K,
    /// A family each: neither has a part in the other's fate.
    sides: [Side; 2],
    /// What is wanted and not yet acknowledged.
    pending: Tables,
    scope: Scope,
    /// Until the first complete set of tables nothing is changed: it would look as if all other
    /// Services were gone.
    synced: bool,
    held: bool,
}

impl Forward {
    /// Opens a socket in this thread's network namespace. Nothing is changed yet.
    pub fn open(options: Options) -> Result<Self, Error> {
        let mut session = Session::open().map_err(Error::socket)?;
        for family in Family::ALL {
            // The flag goes with the process: where it is, another agent runs.
            if look(&mut session, family)?.is_some_and(|table| table.owner) {
                return Err(Error::OwnedByAnother);
            }
        }
        Ok(Self::over(session, options))
    }

    /// Takes a session that may own our tables already, as of a process that hands over.
    pub fn with_session(session: Session, options: Options) -> Result<Self, Error> {
        Self::with_kernel(session, options)
    }

    /// The session, for its port id and to hand it over.
    pub fn session(&self) -> &Session {
        &self.kernel
    }

    /// What others did to our table of a family, from the events of a monitor. The next call mends
    /// it, whatever else it does.
    pub fn foreign(&mut self, family: Family, events: &[Event]) -> Damage {
        let own_port = self.kernel.portid();
        self.sides[family as usize].foreign(own_port, events)
    }

    /// Mends what others broke: single elements at once, the rest after reading what is there.
    pub fn repair(&mut self, damage: &Damage) -> Outcome {
        if damage.all { self.read_and_diff() } else { self.run() }
    }
}

impl<K: Kernel> Forward<K> {
    /// Over any kernel. It is read once, so that what would fail later fails now.
    pub fn with_kernel(mut kernel: K, options: Options) -> Result<Self, Error> {
        for family in Family::ALL {
            look(&mut kernel, family)?;
        }
        Ok(Self::over(kernel, options))
    }

    fn over(kernel: K, options: Options) -> Self {
        Self {
            kernel,
            sides: Family::ALL.map(|family| Side::new(family, options)),
            pending: Tables::new(),
            scope: Scope::default(),
            synced: false,
            held: false,
        }
    }

    /// Makes these tables the only ones. What the kernel has already of them stays untouched, so a
    /// restart changes nothing.
    pub fn sync(&mut self, all: Vec<Table>, scope: &Scope) -> Outcome {
        let known = self.sides.iter().flat_map(Side::services);
        self.pending = known.map(|service| (service.clone(), None)).collect();
        self.pending.extend(all.into_iter().map(|table| (table.service.clone(), Some(table))));
        self.scope = scope.clone();
        self.synced = true;
        self.sides.iter_mut().for_each(Side::doubt);
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
        self.sides.iter_mut().for_each(Side::doubt);
        self.run()
    }

    /// Stops all writing to the kernel (true), or lets the next call catch up (false).
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Whether the kernel has what it acknowledged, as far as is known: nobody edited it since.
    pub fn is_certain(&self) -> bool {
        self.synced && self.sides.iter().all(Side::is_certain)
    }

    /// Whether the kernel refuses other people's edits of our tables.
    pub fn is_owner(&self) -> bool {
        self.sides[0].is_owner()
    }

    /// The kernel, for who made it.
    pub fn into_kernel(self) -> K {
        self.kernel
    }

    fn run(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        if !self.held && self.synced {
            let tables = std::mem::take(&mut self.pending);
            let written = self
                .sides
                .each_mut()
                .map(|side| side.write(&mut self.kernel, &tables, &self.scope, &mut outcome));
            self.settle(tables, written, &mut outcome);
        }
        outcome.in_flight = self.pending.keys().cloned().collect();
        outcome.is_complete = !self.held && self.is_certain() && outcome.in_flight.is_empty();
        outcome
    }

    /// What became of each table, from what became of it in both families.
    fn settle(&mut self, tables: Tables, written: [Written; 2], outcome: &mut Outcome) {
        for (service, table) in tables {
            let fates = [0, 1].map(|at| written[at].fate(&service, table.as_ref()));
            if fates == [Fate::Done; 2] {
                outcome.acknowledged.push((service, table));
                continue;
            }
            for (family, fate) in Family::ALL.into_iter().zip(fates) {
                if fate == Fate::Done {
                    let of_family = table.as_ref().map(|table| only(table, family));
                    outcome.partly.push((service.clone(), family, of_family));
                }
            }
            let refused = fates.iter().find_map(|fate| match fate {
                Fate::Refused(errno) => Some(*errno),
                Fate::Done | Fate::InFlight => None,
            });
            outcome.refused.extend(refused.map(|errno| (service.clone(), errno)));
            if fates.contains(&Fate::InFlight) {
                self.pending.insert(service, table);
            }
        }
        outcome.trouble = written.into_iter().find_map(|side| side.failed);
    }
}

/// What became of a Service's table in one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The kernel has it, or it has nothing there.
    Done,
    /// The kernel refused it.
    Refused(i32),
    /// It is wanted still.
    InFlight,
}

fn only(table: &Table, family: Family) -> Table {
    let entries = table.entries.iter().filter(|e| e.frontend.family() == family);
    Table { service: table.service.clone(), entries: entries.cloned().collect() }
}
