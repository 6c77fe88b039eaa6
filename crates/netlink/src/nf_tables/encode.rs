//! Changes into the messages of one batch.

use std::ops::Range;

use signpost_nft::{
    Base, ChainType, Change, Element, Family, Form, Rule, Set, SetValue, Type, Value,
};

use super::{constants as nf, userdata};
use crate::message::{ACK, APPEND, Attributes, CREATE, Messages, REQUEST, Writer};

mod rule;

use rule::{data_verdict, statement};
pub(super) use rule::{nat_is_ipv6, port_unreachable};

/// An attribute's length is of 16 bits: a list of elements ends well below 64 KiB, so that the
/// largest element still fits.
const ELEMENTS_PER_MESSAGE_BYTES: usize = 60_000;

/// A batch of which the last message asks for the acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    writer: Writer,
    /// Of each message its change and its first element.
    origins: Vec<Origin>,
    first_sequence: u32,
    set_id: u32,
}

/// What a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) change: usize,
    pub(crate) first_element: usize,
    at: usize,
}

/// A change that can't be written: a foreign statement, or a rule over 64 KiB.
#[derive(Debug)]
pub(crate) struct Unwritable {
    pub(crate) change: usize,
}

impl Batch {
    /// Writes the changes, over what the buffer held before.
    pub(crate) fn write(
        &mut self,
        first_sequence: u32,
        family: Family,
        table: &str,
        changes: &[Change],
    ) -> Result<(), Unwritable> {
        self.writer.clear();
        self.origins.clear();
        self.first_sequence = first_sequence;
        let edge = [0, 0, 0, nf::SUBSYSTEM as u8];
        self.writer.begin(nf::BATCH_BEGIN, REQUEST, first_sequence, &edge);
        self.writer.end();
        for (index, change) in changes.iter().enumerate() {
            let mut target = Target { batch: self, family, table, change: index };
            let written = target.change(change);
            if !written || self.writer.is_oversized() {
                return Err(Unwritable { change: index });
            }
        }
        if !self.origins.is_empty() {
            self.writer.add_flags(ACK);
        }
        self.writer.begin(nf::BATCH_END, REQUEST, self.end_sequence(), &edge);
        self.writer.end();
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.writer.as_slice()
    }

    /// The sequence numbers of its messages, with those of its edges.
    pub(crate) fn sequences(&self) -> Range<u32> {
        self.first_sequence..self.end_sequence() + 1
    }

    /// The last message of a change: the one that asks for the acknowledgement.
    pub(crate) fn last_sequence(&self) -> u32 {
        self.first_sequence + self.origins.len() as u32
    }

    /// Where the message of a sequence number came from; `None`: an edge of the batch.
    pub(crate) fn origin(&self, sequence: u32) -> Option<Origin> {
        let index = sequence.checked_sub(self.first_sequence)?.checked_sub(1)?;
        self.origins.get(index as usize).copied()
    }

    /// Which element of its change the attribute at an offset of a message belongs to.
    pub(crate) fn element(&self, origin: Origin, offset: usize) -> Option<usize> {
        let batch = self.writer.as_slice();
        let at = |value: &[u8]| (value.as_ptr() as usize).checked_sub(batch.as_ptr() as usize);
        let message = Messages::new(batch.get(origin.at..)?).next()?.ok()?;
        let [_, _, _, list] = Attributes::after(message.payload, 4).ok()?.by_type().ok()?;
        let before = Attributes::new(list?)
            .map_while(Result::ok)
            .take_while(|(_, value)| at(value).is_some_and(|value| value <= origin.at + offset + 4))
            .count();
        Some(origin.first_element + before.checked_sub(1)?)
    }

    /// Gives the room back that only a large batch needed.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        self.writer.clear();
        self.writer.shrink_to(bytes);
        self.origins.clear();
        self.origins.shrink_to(bytes / 64);
    }

    fn end_sequence(&self) -> u32 {
        self.last_sequence() + 1
    }
}

/// What the changes are of.
struct Target<'a> {
    batch: &'a mut Batch,
    family: Family,
    table: &'a str,
    change: usize,
}

impl Target<'_> {
    /// False: it can't be written.
    fn change(&mut self, change: &Change) -> bool {
        match change {
            Change::AddTable { owner, persist } => self.add_table(*owner, *persist),
            Change::DeleteTable => self.named(nf::DEL_TABLE, None),
            Change::AddSet(name, set) => return self.add_set(name, set),
            Change::DeleteSet(name) => self.named(nf::DEL_SET, Some((2, name))),
            Change::AddChain(name, base) => return self.add_chain(name, *base),
            Change::DeleteChain(name) => self.named(nf::DEL_CHAIN, Some((3, name))),
            Change::FlushChain(name) => self.named(nf::DEL_RULE, Some((2, name))),
            Change::AddRule(chain, rule) => return self.add_rule(chain, rule),
            Change::AddElements(set, all) => return self.elements(nf::NEW_ELEMENTS, set, all),
            Change::DeleteElements(set, all) => return self.elements(nf::DEL_ELEMENTS, set, all),
            Change::FlushSet(name) => self.named(nf::DEL_ELEMENTS, Some((2, name))),
        }
        true
    }

    fn add_table(&mut self, owner: bool, persist: bool) {
        let flags =
            if owner { nf::TABLE_OWNER } else { 0 } | if persist { nf::TABLE_PERSIST } else { 0 };
        self.begin(nf::NEW_TABLE, CREATE, 0);
        self.writer().be32(2, flags);
        self.writer().end();
    }

    fn add_set(&mut self, name: &str, set: &Set) -> bool {
        self.batch.set_id += 1;
        let id = self.batch.set_id;
        self.begin(nf::NEW_SET, CREATE, 0);
        let w = self.writer();
        let form = nf::set_flags(set);
        let map = if set.value == SetValue::None { 0 } else { nf::SET_MAP };
        w.string(2, name);
        w.be32(3, form | map);
        w.be32(4, nf::set_type(&set.key));
        w.be32(5, Type::total_size(&set.key) as u32);
        match &set.value {
            SetValue::None => {}
            SetValue::Data(types) => {
                w.be32(6, nf::set_type(types));
                w.be32(7, Type::total_size(types) as u32);
            }
            SetValue::Verdict => {
                w.be32(6, nf::VERDICT_TYPE);
                w.be32(7, 0);
            }
            SetValue::Foreign(_) => return false,
        }
        describe(w, set);
        w.be32(10, id);
        if let Some(userdata) = userdata::of_set(set) {
            w.attribute(13, &userdata);
        }
        w.end();
        true
    }

    fn add_chain(&mut self, name: &str, base: Option<Base>) -> bool {
        self.begin(nf::NEW_CHAIN, CREATE, 0);
        let w = self.writer();
        w.string(3, name);
        if let Some(base) = base {
            let hook = w.nest(4);
            w.be32(1, nf::hook(base.hook));
            w.be32(2, base.priority as u32);
            w.end_nest(hook);
            w.string(
                7,
                match base.kind {
                    ChainType::Filter => "filter",
                    ChainType::Nat => "nat",
                    ChainType::Route => "route",
                    ChainType::Foreign => return false,
                },
            );
        }
        w.end();
        true
    }

    fn add_rule(&mut self, chain: &str, rule: &Rule) -> bool {
        let family = self.family;
        self.begin(nf::NEW_RULE, CREATE | APPEND, 0);
        let w = self.writer();
        w.string(2, chain);
        let expressions = w.nest(4);
        for part in &rule.0 {
            if !statement(w, family, part) {
                return false;
            }
        }
        w.end_nest(expressions);
        w.end();
        true
    }

    fn elements(&mut self, kind: u16, set: &str, elements: &[Element]) -> bool {
        let flags = if kind == nf::NEW_ELEMENTS { CREATE } else { 0 };
        let mut next = 0;
        while next < elements.len() {
            self.begin(kind, flags, next);
            let w = self.writer();
            w.string(2, set);
            let list = w.nest(3);
            while let Some(each) = elements.get(next) {
                if w.message_len() > ELEMENTS_PER_MESSAGE_BYTES {
                    break;
                }
                element(w, each, kind == nf::NEW_ELEMENTS);
                next += 1;
            }
            w.end_nest(list);
            w.end();
        }
        true
    }

    /// A message that only names something.
    fn named(&mut self, kind: u16, name: Option<(u16, &str)>) {
        self.begin(kind, 0, 0);
        if let Some((attribute, name)) = name {
            self.writer().string(attribute, name);
        }
        self.writer().end();
    }

    /// Begins a message with its table's name.
    fn begin(&mut self, kind: u16, flags: u16, first_element: usize) {
        let at = self.batch.writer.as_slice().len();
        self.batch.origins.push(Origin { change: self.change, first_element, at });
        let sequence = self.batch.last_sequence();
        let header = [nf::family(self.family), 0, 0, 0];
        let table = self.table;
        let w = self.writer();
        w.begin(nf::SUBSYSTEM << 8 | kind, REQUEST | flags, sequence, &header);
        w.string(1, table);
    }

    fn writer(&mut self) -> &mut Writer {
        &mut self.batch.writer
    }
}

/// NFTA_SET_DESC: how large it may grow, or where the parts of its ranges end.
fn describe(w: &mut Writer, set: &Set) {
    const SIZE: u16 = 1;
    const CONCATENATION: u16 = 2;
    const FIELD_LENGTH: u16 = 1;
    match (set.form, &*set.key) {
        (Form::Plain, _) | (Form::Interval, [] | [_]) => {}
        (Form::Interval, parts) => {
            let description = w.nest(9);
            let list = w.nest(CONCATENATION);
            for part in parts {
                let field = w.nest(nf::LIST_ELEMENT);
                w.be32(FIELD_LENGTH, part.size() as u32);
                w.end_nest(field);
            }
            w.end_nest(list);
            w.end_nest(description);
        }
        (Form::Learned { size }, _) => {
            let description = w.nest(9);
            w.be32(SIZE, size);
            w.end_nest(description);
        }
    }
}

fn element(w: &mut Writer, element: &Element, with_value: bool) {
    let nest = w.nest(nf::LIST_ELEMENT);
    let key = w.nest(1);
    w.attribute(nf::DATA_VALUE, element.key.as_slice());
    w.end_nest(key);
    // The kernel finds a range by both of its ends.
    if let Value::Last(last) = &element.value {
        let end = w.nest(10);
        w.attribute(nf::DATA_VALUE, last.as_slice());
        w.end_nest(end);
    }
    if with_value {
        match &element.value {
            Value::None | Value::Last(_) => {}
            Value::Data(data) => {
                let value = w.nest(2);
                w.attribute(nf::DATA_VALUE, data.as_slice());
                w.end_nest(value);
            }
            Value::Verdict(verdict) => data_verdict(w, 2, verdict),
        }
    }
    if element.interval_end {
        w.be32(3, nf::ELEMENT_INTERVAL_END);
    }
    w.end_nest(nest);
}
