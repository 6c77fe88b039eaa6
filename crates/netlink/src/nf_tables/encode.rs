//! Changes into the messages of one batch.

use std::ops::Range;

use signpost_nft::{
    Base, ChainType, Change, Element, Family, Operand, Rule, Set, SetValue, Statement, Type, Value,
    Verdict,
};

use super::{constants as nf, userdata};
use crate::message::{ACK, APPEND, Attributes, CREATE, Messages, REQUEST, Writer};

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
        let interval = if set.interval { nf::SET_INTERVAL } else { 0 };
        let map = if set.value == SetValue::None { 0 } else { nf::SET_MAP };
        w.string(2, name);
        w.be32(3, interval | map);
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

fn element(w: &mut Writer, element: &Element, with_value: bool) {
    let nest = w.nest(nf::LIST_ELEMENT);
    let key = w.nest(1);
    w.attribute(nf::DATA_VALUE, element.key.as_slice());
    w.end_nest(key);
    if with_value {
        match &element.value {
            Value::None => {}
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

/// False: it can't be written.
fn statement(w: &mut Writer, family: Family, statement: &Statement) -> bool {
    match statement {
        Statement::Match { left, negated, right } => {
            load(w, *left, FIRST_WORD);
            compare(w, if *negated { nf::CMP_NEQ } else { nf::CMP_EQ }, right.as_slice());
        }
        Statement::MatchBits { left, bits, any } => {
            load(w, *left, FIRST_WORD);
            bitwise_and(w, *bits);
            compare(w, if *any { nf::CMP_NEQ } else { nf::CMP_EQ }, &[0; 4]);
        }
        Statement::InSet { key, set, negated } => {
            load_all(w, key);
            lookup(w, set, None, *negated);
        }
        Statement::Vmap { key, map } => {
            load_all(w, key);
            lookup(w, map, Some(VERDICT_REGISTER), false);
        }
        Statement::Dnat { key, map } => {
            load_all(w, key);
            lookup(w, map, Some(register(FIRST_WORD)), false);
            dnat(w, nat_is_ipv6(family, key));
        }
        Statement::Masquerade { fully_random } => expression(w, "masq", |w| {
            if *fully_random {
                w.be32(1, nf::FULLY_RANDOM);
            }
        }),
        Statement::Redirect => expression(w, "redir", |_| {}),
        Statement::RejectTcpReset => reject(w, nf::REJECT_RESET, 0),
        Statement::RejectPortUnreachable => {
            let (kind, code) = port_unreachable(family);
            reject(w, kind, code);
        }
        Statement::Verdict(verdict) => expression(w, "immediate", |w| {
            w.be32(1, VERDICT_REGISTER);
            data_verdict(w, 2, verdict);
        }),
        Statement::Foreign(_) => return false,
    }
    true
}

/// NFT_REG_VERDICT
const VERDICT_REGISTER: u32 = 0;
/// Registers are counted in words of 4 bytes.
const FIRST_WORD: u32 = 0;

/// As nft numbers them: a word at the start of 16 bytes by NFT_REG_1 for the first, else
/// NFT_REG32_00 and up.
fn register(word: u32) -> u32 {
    if word == 0 { 1 } else { 8 + word }
}

fn load_all(w: &mut Writer, key: &[Operand]) {
    let mut word = FIRST_WORD;
    for operand in key {
        load(w, *operand, word);
        word += operand.kind().size().div_ceil(4) as u32;
    }
}

fn load(w: &mut Writer, operand: Operand, word: u32) {
    let register = register(word);
    match operand {
        Operand::IpSaddr => payload(w, register, nf::NETWORK_HEADER, 12, 4),
        Operand::IpDaddr => payload(w, register, nf::NETWORK_HEADER, 16, 4),
        Operand::Ip6Saddr => payload(w, register, nf::NETWORK_HEADER, 8, 16),
        Operand::Ip6Daddr => payload(w, register, nf::NETWORK_HEADER, 24, 16),
        Operand::ThDport => payload(w, register, nf::TRANSPORT_HEADER, 2, 2),
        Operand::IcmpType => payload(w, register, nf::TRANSPORT_HEADER, 0, 1),
        Operand::L4Proto => meta(w, register, nf::META_L4PROTO),
        Operand::IifName => meta(w, register, nf::META_IIFNAME),
        Operand::CtStatus => expression(w, "ct", |w| {
            w.be32(1, register);
            w.be32(2, nf::CT_STATUS);
        }),
        Operand::CtOriginalIpDaddr => expression(w, "ct", |w| {
            w.be32(1, register);
            w.be32(2, nf::CT_DST_IP);
            w.attribute(3, &[0]);
        }),
        Operand::NumgenRandom(modulus) => expression(w, "numgen", |w| {
            w.be32(1, register);
            w.be32(2, modulus);
            w.be32(3, nf::NUMGEN_RANDOM);
            w.be32(4, 0);
        }),
    }
}

fn payload(w: &mut Writer, register: u32, header: u32, offset: u32, length: u32) {
    expression(w, "payload", |w| {
        w.be32(1, register);
        w.be32(2, header);
        w.be32(3, offset);
        w.be32(4, length);
    });
}

fn meta(w: &mut Writer, register: u32, key: u32) {
    expression(w, "meta", |w| {
        w.be32(1, register);
        w.be32(2, key);
    });
}

fn compare(w: &mut Writer, operator: u32, with: &[u8]) {
    expression(w, "cmp", |w| {
        w.be32(1, register(FIRST_WORD));
        w.be32(2, operator);
        let data = w.nest(3);
        w.attribute(nf::DATA_VALUE, with);
        w.end_nest(data);
    });
}

fn bitwise_and(w: &mut Writer, bits: u32) {
    expression(w, "bitwise", |w| {
        w.be32(1, register(FIRST_WORD));
        w.be32(2, register(FIRST_WORD));
        w.be32(3, 4);
        for (attribute, value) in [(4, bits), (5, 0)] {
            let data = w.nest(attribute);
            w.attribute(nf::DATA_VALUE, &value.to_ne_bytes());
            w.end_nest(data);
        }
    });
}

fn lookup(w: &mut Writer, set: &str, into: Option<u32>, inverted: bool) {
    expression(w, "lookup", |w| {
        w.string(1, set);
        w.be32(2, register(FIRST_WORD));
        if let Some(register) = into {
            w.be32(3, register);
        }
        if inverted {
            w.be32(5, nf::LOOKUP_INVERTED);
        }
    });
}

fn dnat(w: &mut Writer, ipv6: bool) {
    expression(w, "nat", |w| {
        w.be32(1, nf::NAT_DNAT);
        w.be32(2, u32::from(nf::family(if ipv6 { Family::Ip6 } else { Family::Ip })));
        w.be32(3, register(FIRST_WORD));
        w.be32(5, register(if ipv6 { 4 } else { 1 }));
    });
}

/// In family inet the key says of which family an address is.
pub(crate) fn nat_is_ipv6(family: Family, key: &[Operand]) -> bool {
    match family {
        Family::Ip => false,
        Family::Ip6 => true,
        Family::Inet => key.iter().any(|part| part.kind() == Type::Ipv6Addr),
    }
}

/// The reject expression's type and code.
pub(crate) fn port_unreachable(family: Family) -> (u32, u8) {
    match family {
        Family::Ip => (nf::REJECT_ICMP, 3),
        Family::Ip6 => (nf::REJECT_ICMP, 4),
        Family::Inet => (nf::REJECT_ICMPX, 1),
    }
}

fn reject(w: &mut Writer, kind: u32, code: u8) {
    expression(w, "reject", |w| {
        w.be32(1, kind);
        w.attribute(2, &[code]);
    });
}

fn data_verdict(w: &mut Writer, attribute: u16, verdict: &Verdict) {
    let (code, chain) = match verdict {
        Verdict::Accept => (nf::ACCEPT, None),
        Verdict::Drop => (nf::DROP, None),
        Verdict::Return => (nf::RETURN, None),
        Verdict::Jump(chain) => (nf::JUMP, Some(chain)),
        Verdict::Goto(chain) => (nf::GOTO, Some(chain)),
    };
    let data = w.nest(attribute);
    let nest = w.nest(nf::DATA_VERDICT);
    w.be32(1, code as u32);
    if let Some(chain) = chain {
        w.string(2, chain);
    }
    w.end_nest(nest);
    w.end_nest(data);
}

fn expression(w: &mut Writer, name: &str, attributes: impl FnOnce(&mut Writer)) {
    let nest = w.nest(nf::LIST_ELEMENT);
    w.string(1, name);
    let data = w.nest(2);
    attributes(w);
    w.end_nest(data);
    w.end_nest(nest);
}
