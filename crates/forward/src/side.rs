//! One family's table in the kernel.

use std::collections::{BTreeMap, BTreeSet};

use signpost_netlink::nf_tables::{CommitError, Event};
use signpost_nft::Change;
use signpost_plan::{Family, Scope, ServiceKey, Table};

use crate::draft::{Draft, Want};
use crate::error::Error;
use crate::foreign::Damage;
use crate::forward::{Fate, Options, Outcome, Protection, TableOwner, Tables};
use crate::found::{Found, Standing};
use crate::kernel::Kernel;
use crate::layout::Layout;
use crate::learned::Unlearned;
use crate::mend::Edits;
use crate::plane::Plane;
use crate::{TABLE, render};

/// A blank kernel gets so many Services in a transaction: more at once need more memory, and are
/// not quicker. Together the first 10,000 Services with 10 endpoints each took 30 MB for a moment.
const SERVICES_AT_ONCE: usize = 1000;

/// One family's table: what it is held to, and what is known of it.
#[derive(Debug)]
pub(crate) struct Side {
    plane: Plane,
    ownership: Ownership,
    protection: Protection,
    /// Single elements that others edited since.
    edits: Edits,
    /// What clients must not be led back to, and may still.
    unlearned: Unlearned,
    /// Whether what we know is what the kernel has.
    knowledge: Knowledge,
    /// Whether there is a table at all. Where a family has no Services none is made, but for IPv4.
    made: bool,
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
    /// The kernel must be read before the next change.
    Doubtful,
    /// The kernel has what it acknowledged.
    Certain,
}

/// What became of tables in one family.
#[derive(Debug, Default)]
pub(crate) struct Written {
    family: Option<Family>,
    refused: BTreeMap<ServiceKey, i32>,
    /// Services that had something there before.
    had: BTreeSet<ServiceKey>,
    /// What went wrong as a whole.
    pub(crate) failed: Option<Error>,
}

impl Written {
    pub(crate) fn fate(&self, service: &ServiceKey, table: Option<&Table>) -> Fate {
        if let Some(errno) = self.refused.get(service) {
            return Fate::Refused(*errno);
        }
        let of_family =
            |table: &Table| table.entries.iter().any(|e| Some(e.frontend.family()) == self.family);
        let concerned = self.had.contains(service) || table.is_some_and(of_family);
        if self.failed.is_some() && concerned { Fate::InFlight } else { Fate::Done }
    }
}

impl Side {
    pub(crate) fn new(family: Family, options: Options) -> Self {
        let guards = options.protection != Protection::None;
        Self {
            plane: Plane::new(Layout { family, guards }),
            ownership: match options.table_owner {
                TableOwner::Auto => Ownership::Wanted,
                TableOwner::Off => Ownership::Unwanted,
            },
            protection: options.protection,
            edits: Edits::default(),
            unlearned: Unlearned::default(),
            knowledge: Knowledge::Doubtful,
            made: false,
        }
    }

    pub(crate) fn services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.plane.services.keys()
    }

    /// The next write reads first.
    pub(crate) fn doubt(&mut self) {
        self.knowledge = Knowledge::Doubtful;
    }

    pub(crate) fn is_certain(&self) -> bool {
        self.knowledge == Knowledge::Certain && self.edits.is_empty() && self.unlearned.is_empty()
    }

    pub(crate) fn is_owner(&self) -> bool {
        self.ownership == Ownership::Held
    }

    /// What others did to the table.
    pub(crate) fn foreign(&mut self, own_port: u32, events: &[Event]) -> Damage {
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

    /// Writes all tables, as far as the kernel takes them.
    pub(crate) fn write(
        &mut self,
        kernel: &mut impl Kernel,
        tables: &Tables,
        scope: &Scope,
        outcome: &mut Outcome,
    ) -> Written {
        let had = tables.keys().filter(|service| self.plane.services.contains_key(*service));
        let mut written = Written {
            family: Some(self.plane.layout.family),
            had: had.cloned().collect(),
            ..Written::default()
        };
        written.failed = self.try_write(kernel, tables, scope, outcome, &mut written.refused).err();
        written
    }

    fn try_write(
        &mut self,
        kernel: &mut impl Kernel,
        tables: &Tables,
        scope: &Scope,
        outcome: &mut Outcome,
        refused: &mut BTreeMap<ServiceKey, i32>,
    ) -> Result<(), Error> {
        self.mend(kernel, outcome);
        let is_wanted = self.is_wanted(tables);
        if is_wanted && !self.made {
            self.knowledge = Knowledge::Doubtful;
        }
        let found = match self.knowledge {
            Knowledge::Certain => None,
            Knowledge::Doubtful => Some(self.find(kernel)?),
        };
        let is_missing = match &found {
            Some(found) => found.standing == Standing::Missing,
            None => !self.made,
        };
        if is_missing && !is_wanted {
            self.made = false;
            self.knowledge = Knowledge::Certain;
            return Ok(());
        }
        let services: Vec<_> = tables.iter().collect();
        if is_missing && self.plane.fronts.is_empty() {
            self.write_some(kernel, &[], scope, found, outcome, refused)?;
            for some in services.chunks(SERVICES_AT_ONCE) {
                self.write_some(kernel, some, scope, None, outcome, refused)?;
            }
        } else {
            self.write_some(kernel, &services, scope, found, outcome, refused)?;
        }
        self.unlearn(kernel, outcome);
        Ok(())
    }

    /// Whether there must be a table.
    fn is_wanted(&self, tables: &Tables) -> bool {
        let family = self.plane.layout.family;
        let has = |table: &Table| table.entries.iter().any(|e| e.frontend.family() == family);
        let eager = match family {
            Family::V4 => true,
            Family::V6 => false,
        };
        eager || !self.plane.fronts.is_empty() || tables.values().flatten().any(has)
    }

    /// Writes tables together.
    fn write_some(
        &mut self,
        kernel: &mut impl Kernel,
        tables: &[(&ServiceKey, &Option<Table>)],
        scope: &Scope,
        mut found: Option<Found>,
        outcome: &mut Outcome,
        all_refused: &mut BTreeMap<ServiceKey, i32>,
    ) -> Result<(), Error> {
        let mut wanted: Vec<Want> =
            tables.iter().filter_map(|(service, table)| self.want(service, table)).collect();
        // Each turn has fewer Services than the one before, or, once, knows more of the kernel.
        loop {
            let refused = match self.plane.draft(&wanted, scope, found.as_ref()) {
                Ok(draft) => match self.commit(kernel, draft, found.as_ref(), outcome)? {
                    Committed::Whole => return Ok(()),
                    Committed::Retry => continue,
                    Committed::Outdated => {
                        found = Some(self.find(kernel)?);
                        continue;
                    }
                    Committed::Refused(services) => services,
                },
                Err(taken) => taken.into_iter().map(|index| (index, libc::EEXIST)).collect(),
            };
            // Taken out, so that the others get in.
            for (index, errno) in refused.into_iter().rev() {
                let (service, _) = wanted.remove(index);
                all_refused.insert(service, errno);
            }
        }
    }

    /// A Service as it should be in this family; `None`: it has and gets nothing.
    fn want(&self, service: &ServiceKey, table: &Option<Table>) -> Option<Want> {
        let family = self.plane.layout.family;
        let mut part = table.as_ref().map(render);
        if let Some(part) = &mut part {
            part.fronts.retain(|(frontend, _)| frontend.family() == family);
        }
        let part = part.filter(|part| !part.fronts.is_empty());
        let has = self.plane.services.contains_key(service);
        (has || part.is_some()).then(|| (service.clone(), part))
    }

    /// Mends single elements. Where the kernel refuses that, there was another edit meanwhile.
    fn mend(&mut self, kernel: &mut impl Kernel, outcome: &mut Outcome) {
        if self.knowledge == Knowledge::Certain && !self.edits.is_empty() {
            let changes = self.edits.mend(&self.plane);
            match kernel.commit(self.plane.layout.nft_family(), TABLE, &changes) {
                Ok(()) => outcome.transactions += 1,
                Err(_) => self.knowledge = Knowledge::Doubtful,
            }
        }
        self.edits.clear();
    }

    /// Makes the kernel forget where it led clients that must not go there again. What is left the
    /// next call tries again.
    fn unlearn(&mut self, kernel: &mut impl Kernel, outcome: &mut Outcome) {
        if let Ok(transactions) = self.unlearned.carry_out(kernel, self.plane.layout) {
            outcome.transactions += transactions;
        }
    }

    fn find(&mut self, kernel: &mut impl Kernel) -> Result<Found, Error> {
        let layout = self.plane.layout;
        let read = kernel.read(layout.nft_family(), TABLE).map_err(Error::reading)?;
        Ok(match read {
            Some((table, elements)) => Found::of(layout, &table, &elements),
            None => Found::nothing(layout),
        })
    }

    /// Commits both transactions of a draft and takes it for the truth.
    fn commit(
        &mut self,
        kernel: &mut impl Kernel,
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
        let family = self.plane.layout.nft_family();
        if !first.changes.is_empty() {
            // Until it is acknowledged, what the kernel has is unknown.
            self.knowledge = Knowledge::Doubtful;
            match kernel.commit(family, TABLE, &first.changes) {
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
        self.made = true;
        if !later.changes.is_empty() {
            // What is left over harms no packet: the next call reads, and takes it away.
            match kernel.commit(family, TABLE, &later.changes) {
                Ok(()) => outcome.transactions += 1,
                Err(_) => self.knowledge = Knowledge::Doubtful,
            }
        }
        outcome.gone.extend_from_slice(&draft.gone);
        self.unlearned.add(&draft.unlearned);
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

/// Our table of a family as it is, without its elements.
pub(crate) fn look(
    kernel: &mut impl Kernel,
    family: Family,
) -> Result<Option<signpost_nft::Table>, Error> {
    let family = Layout { family, guards: true }.nft_family();
    let found = kernel.read(family, TABLE).map_err(Error::reading)?;
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
