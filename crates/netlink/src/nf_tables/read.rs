//! A table read back from the kernel.

use std::collections::BTreeMap;

use signpost_nft::{Element, Family, Form, Set, SetValue, Table};

use super::constants as nf;
use super::session::Session;
use super::{decode, expressions};
use crate::message::{self, Attributes, Malformed, Writer};
use crate::request::{self, Failed, ReadError};

/// On a busy node others change their rules too, and each change makes a reading void.
const ATTEMPTS: usize = 16;

/// The elements of a table's sets, by set; sorted by key, and an end of a range before the start
/// of the next.
pub type Elements = BTreeMap<Box<str>, Vec<Element>>;

impl Session {
    /// Reads a table with everything in it; `None`: there is none. What Signpost never writes comes
    /// as the `Foreign` variants; sets without a name, stateful objects and what sets
    /// have learned are left out.
    pub fn read(
        &mut self,
        family: Family,
        name: &str,
    ) -> Result<Option<(Table, Elements)>, ReadError> {
        for _ in 0..ATTEMPTS {
            let before = self.generation()?;
            let read = self.attempt(family, name);
            let steady = self.generation()? == before;
            match read {
                Ok(table) if steady => return Ok(table),
                Ok(_) | Err(Failed::Interrupted) => {}
                Err(Failed::Other(_)) if !steady => {}
                Err(Failed::Other(error)) => return Err(error),
            }
        }
        Err(ReadError::Changing(ATTEMPTS))
    }

    /// The number of the last transaction in this network namespace, anybody's.
    pub fn generation(&mut self) -> Result<u32, ReadError> {
        let request = Request { kind: nf::GET_GENERATION, flags: message::ACK, family: 0 };
        request::steadily(ATTEMPTS, || {
            let mut generation = None;
            self.ask(request, &[], |attributes| {
                let [_, id] = attributes.by_type()?;
                generation = id.map(message::be32).transpose()?;
                Ok(())
            })?;
            Ok(generation.ok_or(Malformed("a generation without number"))?)
        })
    }

    fn attempt(&mut self, family: Family, name: &str) -> Result<Option<(Table, Elements)>, Failed> {
        let Some(mut table) = self.read_header(family, name)? else { return Ok(None) };
        table.sets = self.read_sets(family, name)?;
        self.read_chains(&mut table)?;
        self.read_rules(&mut table)?;
        let mut elements = Elements::new();
        for (set_name, set) in &mut table.sets {
            let all = match (&set.value, set.form) {
                (SetValue::Foreign(_), _) | (_, Form::Learned { .. }) => Vec::new(),
                (SetValue::None | SetValue::Data(_) | SetValue::Verdict, _) => {
                    self.read_elements(family, name, set_name, set)?
                }
            };
            elements.insert(set_name.clone(), all);
        }
        Ok(Some((table, elements)))
    }

    fn read_header(&mut self, family: Family, name: &str) -> Result<Option<Table>, Failed> {
        let mut table = None;
        let request =
            Request { kind: nf::GET_TABLE, flags: message::ACK, family: nf::family(family) };
        let asked = self.ask(request, &[(1, name)], |attributes| {
            let header = decode::table(attributes)?;
            table = Some(Table {
                family,
                name: name.into(),
                owner: header.owner,
                persist: header.persist,
                dormant: header.dormant,
                sets: BTreeMap::new(),
                chains: BTreeMap::new(),
            });
            Ok(())
        });
        match asked {
            Ok(()) => Ok(table),
            Err(Failed::Other(ReadError::Refused(libc::ENOENT))) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_sets(
        &mut self,
        family: Family,
        table: &str,
    ) -> Result<BTreeMap<Box<str>, Set>, Failed> {
        let mut sets = BTreeMap::new();
        self.ask(Request::dump(nf::GET_SET, family), &[(1, table)], |attributes| {
            let header = decode::set(attributes)?;
            if header.table == table && !header.anonymous {
                sets.insert(header.name.into(), header.set);
            }
            Ok(())
        })?;
        Ok(sets)
    }

    fn read_chains(&mut self, table: &mut Table) -> Result<(), Failed> {
        let request = Request::dump(nf::GET_CHAIN, table.family);
        let (name, chains) = (&table.name, &mut table.chains);
        self.ask(request, &[(1, name)], |attributes| {
            let header = decode::chain(attributes)?;
            if header.table == &**name {
                let chain = chains.entry(header.name.into()).or_default();
                chain.base = header.base;
            }
            Ok(())
        })
    }

    fn read_rules(&mut self, table: &mut Table) -> Result<(), Failed> {
        let request = Request::dump(nf::GET_RULE, table.family);
        let (family, name, sets, chains) =
            (table.family, &table.name, &table.sets, &mut table.chains);
        self.ask(request, &[(1, name)], |attributes| {
            let header = decode::rule(attributes)?;
            if header.table == &**name {
                let rule = expressions::rule(family, sets, header.expressions)?;
                chains.entry(header.chain.into()).or_default().rules.push(rule);
            }
            Ok(())
        })
    }

    fn read_elements(
        &mut self,
        family: Family,
        table: &str,
        name: &str,
        set: &mut Set,
    ) -> Result<Vec<Element>, Failed> {
        let request = Request::dump(nf::GET_ELEMENTS, family);
        for _ in 0..ATTEMPTS {
            let mut elements = Vec::new();
            let mut foreign = false;
            self.ask(request, &[(1, table), (2, name)], |attributes| {
                let mut list = decode::elements(attributes)?;
                foreign |= list.foreign || !list.learned.is_empty();
                elements.append(&mut list.elements);
                Ok(())
            })?;
            elements.sort_by_key(|element| (element.key, !element.interval_end));
            // The kernel goes on at the n-th element. A hash table that grows meanwhile changes
            // their order, so for each that is missed another comes twice (nft_rhash_walk()).
            if elements.windows(2).any(|two| two[0] == two[1]) {
                continue;
            }
            if foreign {
                set.value = SetValue::Foreign("elements".into());
            }
            return Ok(elements);
        }
        Err(Failed::Interrupted)
    }

    /// What a set has learned from packets.
    pub fn learned(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
    ) -> Result<Vec<Element>, ReadError> {
        let request = Request::dump(nf::GET_ELEMENTS, family);
        request::steadily(ATTEMPTS, || {
            let mut elements = Vec::new();
            self.ask(request, &[(1, table), (2, set)], |attributes| {
                elements.append(&mut decode::elements(attributes)?.learned);
                Ok(())
            })?;
            Ok(elements)
        })
    }

    fn ask(
        &mut self,
        request: Request,
        names: &[(u16, &str)],
        mut each: impl FnMut(Attributes<'_>) -> Result<(), Malformed>,
    ) -> Result<(), Failed> {
        let sequence = self.sequence;
        self.sequence += 1;
        let request = request.write(sequence, names);
        request::ask(&self.socket, &mut self.buffer, request.as_slice(), sequence, |message| {
            each(decode::split(message.payload)?.1)
        })
    }
}

/// What is asked for.
#[derive(Clone, Copy)]
struct Request {
    kind: u16,
    flags: u16,
    family: u8,
}

impl Request {
    fn dump(kind: u16, family: Family) -> Self {
        Self { kind, flags: message::DUMP, family: nf::family(family) }
    }

    fn write(self, sequence: u32, names: &[(u16, &str)]) -> Writer {
        let mut writer = Writer::default();
        let kind = nf::SUBSYSTEM << 8 | self.kind;
        writer.begin(kind, message::REQUEST | self.flags, sequence, &[self.family, 0, 0, 0]);
        for (attribute, name) in names {
            writer.string(*attribute, name);
        }
        writer.end();
        writer
    }
}
