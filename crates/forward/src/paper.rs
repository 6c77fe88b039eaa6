//! A kernel on paper: rules without a kernel, to print them and to test with.

use std::collections::BTreeMap;

use signpost_netlink::ReadError;
use signpost_netlink::nf_tables::{CommitError, Elements, Refusal};
use signpost_nft::{Bytes, Chain, Change, Element, Family, SetValue, Table, Value};

use crate::kernel::Kernel;
use crate::layout::LEARNED;

/// Holds one table a family, and takes and refuses changes to them as the kernel does.
#[derive(Clone, Debug, Default)]
pub struct Paper {
    sheets: BTreeMap<Family, Sheet>,
    /// What the tables have learned from packets, by family.
    pub learned: BTreeMap<Family, Vec<Element>>,
    /// How many transactions it took.
    pub generation: u32,
}

#[derive(Clone, Debug)]
struct Sheet {
    table: Table,
    elements: BTreeMap<Box<str>, BTreeMap<(Bytes, bool), Value>>,
}

impl Paper {
    /// The table with its elements; `None`: there is none.
    pub fn contents(&self, family: Family) -> Option<(Table, Elements)> {
        let sheet = self.sheets.get(&family)?;
        let element = |((key, is_start), value): (&(Bytes, bool), &Value)| Element {
            key: *key,
            interval_end: !is_start,
            value: value.clone(),
        };
        let elements = sheet.elements.iter();
        let elements = elements.map(|(set, all)| (set.clone(), all.iter().map(element).collect()));
        Some((sheet.table.clone(), elements.collect()))
    }
}

impl Kernel for Paper {
    fn commit(
        &mut self,
        family: Family,
        table: &str,
        changes: &[Change],
    ) -> Result<(), CommitError> {
        let mut sheet = self.sheets.get(&family).cloned();
        let mut learned = self.learned.clone();
        for (index, change) in changes.iter().enumerate() {
            let taken = match change {
                Change::DeleteElements(set, gone) if &**set == LEARNED => {
                    forget(learned.entry(family).or_default(), gone)
                }
                change => take(&mut sheet, family, table, change),
            };
            taken.map_err(|errno| {
                CommitError::Refused(vec![Refusal { index, element: None, errno }])
            })?;
        }
        match sheet {
            Some(sheet) => self.sheets.insert(family, sheet),
            None => self.sheets.remove(&family),
        };
        self.learned = learned;
        self.generation += 1;
        Ok(())
    }

    fn read(&mut self, family: Family, _: &str) -> Result<Option<(Table, Elements)>, ReadError> {
        Ok(self.contents(family))
    }

    fn learned(&mut self, family: Family, _: &str, _: &str) -> Result<Vec<Element>, ReadError> {
        Ok(self.learned.get(&family).cloned().unwrap_or_default())
    }
}

fn forget(learned: &mut Vec<Element>, gone: &[Element]) -> Result<(), i32> {
    gone.iter().try_for_each(|element| {
        let at = learned.iter().position(|there| there.key == element.key);
        at.map(|at| drop(learned.swap_remove(at))).ok_or(libc::ENOENT)
    })
}

/// `Err`: the errno by which the kernel refuses it.
fn take(sheet: &mut Option<Sheet>, family: Family, name: &str, change: &Change) -> Result<(), i32> {
    match change {
        Change::AddTable { owner, persist } => {
            let new = || Sheet {
                table: Table {
                    family,
                    name: name.into(),
                    owner: false,
                    persist: false,
                    dormant: false,
                    sets: BTreeMap::new(),
                    chains: BTreeMap::new(),
                },
                elements: BTreeMap::new(),
            };
            let table = &mut sheet.get_or_insert_with(new).table;
            (table.owner, table.persist) = (*owner, *persist);
            Ok(())
        }
        Change::DeleteTable => sheet.take().map(drop).ok_or(libc::ENOENT),
        change => sheet.as_mut().ok_or(libc::ENOENT)?.take(change),
    }
}

impl Sheet {
    fn take(&mut self, change: &Change) -> Result<(), i32> {
        match change {
            Change::AddTable { .. } | Change::DeleteTable => Err(libc::EINVAL),
            Change::AddSet(name, set) => {
                self.table.sets.insert(name.clone(), set.clone());
                self.elements.entry(name.clone()).or_default();
                Ok(())
            }
            Change::DeleteSet(name) => {
                self.elements.remove(name);
                self.table.sets.remove(name).map(drop).ok_or(libc::ENOENT)
            }
            Change::AddChain(name, base) => {
                let new = || Chain { base: *base, rules: Vec::new() };
                let chain = self.table.chains.entry(name.clone()).or_insert_with(new);
                if chain.base == *base { Ok(()) } else { Err(libc::EEXIST) }
            }
            Change::DeleteChain(name) => {
                self.table.chains.remove(name).map(drop).ok_or(libc::ENOENT)
            }
            Change::FlushChain(name) => {
                self.chain(name)?.rules.clear();
                Ok(())
            }
            Change::AddRule(name, rule) => {
                self.chain(name)?.rules.push(rule.clone());
                Ok(())
            }
            Change::AddElements(set, elements) => {
                elements.iter().try_for_each(|element| self.add(set, element))
            }
            Change::DeleteElements(set, elements) => {
                let set = self.elements.get_mut(set).ok_or(libc::ENOENT)?;
                elements.iter().try_for_each(|element| {
                    set.remove(&place(element)).map(drop).ok_or(libc::ENOENT)
                })
            }
            Change::FlushSet(set) => {
                self.elements.get_mut(set).ok_or(libc::ENOENT)?.clear();
                Ok(())
            }
        }
    }

    fn add(&mut self, set: &str, element: &Element) -> Result<(), i32> {
        let kind = self.table.sets.get(set).ok_or(libc::ENOENT)?;
        match (&kind.value, &element.value) {
            (SetValue::None, Value::None | Value::Last(_))
            | (SetValue::Data(_), Value::Data(_)) => {}
            (SetValue::Verdict, Value::Verdict(verdict)) => {
                use signpost_nft::Verdict::{Accept, Drop, Goto, Jump, Return};
                match verdict {
                    Goto(chain) | Jump(chain) if !self.table.chains.contains_key(chain) => {
                        return Err(libc::ENOENT);
                    }
                    Goto(_) | Jump(_) | Accept | Drop | Return => {}
                }
            }
            _ => return Err(libc::EINVAL),
        }
        let elements = self.elements.entry(set.into()).or_default();
        match elements.get(&place(element)) {
            Some(there) if *there != element.value => Err(libc::EEXIST),
            Some(_) => Ok(()),
            None => {
                elements.insert(place(element), element.value.clone());
                Ok(())
            }
        }
    }

    fn chain(&mut self, name: &str) -> Result<&mut Chain, i32> {
        self.table.chains.get_mut(name).ok_or(libc::ENOENT)
    }
}

/// Where an element stands: by key, and an end of a range before a start.
fn place(element: &Element) -> (Bytes, bool) {
    (element.key, !element.interval_end)
}
