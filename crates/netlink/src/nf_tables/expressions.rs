//! A rule's expressions into statements, by following what they put into registers.

use std::collections::BTreeMap;

use signpost_nft::{Bytes, Family, Jhash, Operand, Rule, Set, SetValue, Statement, Type, Value};

use super::constants as nf;
use super::{decode, encode};
use crate::message::{Attributes, Malformed, be32, string};

/// Reads NFTA_RULE_EXPRESSIONS. A rule that Signpost would not have written so is one foreign
/// statement that names its expressions.
pub(crate) fn rule(
    family: Family,
    sets: &BTreeMap<Box<str>, Set>,
    list: &[u8],
) -> Result<Rule, Malformed> {
    let mut names = Vec::new();
    let mut reader = Reader { family, sets, loaded: vec![], mapped: None, statements: vec![] };
    let mut foreign = false;
    for attribute in Attributes::new(list) {
        let [_, name, data] = Attributes::new(attribute?.1).by_type()?;
        let name = string(name.ok_or(Malformed("an expression without name"))?)?;
        names.push(name);
        foreign = foreign || reader.expression(name, data.unwrap_or_default()).is_err();
    }
    if foreign || !reader.loaded.is_empty() || reader.mapped.is_some() {
        return Ok(Rule(vec![Statement::Foreign(names.join(" ").into())]));
    }
    Ok(Rule(reader.statements))
}

/// What Signpost doesn't write.
struct Foreign;

impl From<Malformed> for Foreign {
    fn from(_: Malformed) -> Self {
        Self
    }
}

struct Reader<'a> {
    family: Family,
    sets: &'a BTreeMap<Box<str>, Set>,
    /// By the register's first word.
    loaded: Vec<(u32, Loaded)>,
    /// What a map gave, from the first word on.
    mapped: Option<(Vec<Operand>, Box<str>, Vec<Type>)>,
    statements: Vec<Statement>,
}

#[derive(Clone, Copy)]
enum Loaded {
    Whole(Operand),
    Masked(Operand, u32),
}

impl Reader<'_> {
    fn expression(&mut self, name: &str, data: &[u8]) -> Result<(), Foreign> {
        let attributes: [Option<&[u8]>; 8] = Attributes::new(data).by_type()?;
        match name {
            "payload" => self.payload(attributes),
            "meta" => self.meta(attributes),
            "ct" => self.ct(attributes),
            "numgen" => self.numgen(attributes),
            "bitwise" => self.bitwise(attributes),
            "hash" => self.hash(attributes),
            "fib" => self.fib(attributes),
            "dynset" => self.learn(attributes),
            "cmp" => self.compare(attributes),
            "lookup" => self.lookup(attributes),
            "nat" => self.nat(attributes),
            "masq" => self.masquerade(attributes),
            "redir" => self.redirect(attributes),
            "reject" => self.reject(attributes),
            "immediate" => self.immediate(attributes),
            _ => Err(Foreign),
        }
    }

    fn payload(&mut self, a: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        let [_, register, header, offset, length, _, _, _] = a;
        let operand = match (number(header)?, number(offset)?, number(length)?) {
            (nf::NETWORK_HEADER, 12, 4) => Operand::IpSaddr,
            (nf::NETWORK_HEADER, 16, 4) => Operand::IpDaddr,
            (nf::NETWORK_HEADER, 8, 16) => Operand::Ip6Saddr,
            (nf::NETWORK_HEADER, 24, 16) => Operand::Ip6Daddr,
            (nf::TRANSPORT_HEADER, 2, 2) => Operand::ThDport,
            (nf::TRANSPORT_HEADER, 0, 1) => Operand::IcmpType,
            _ => return Err(Foreign),
        };
        self.load(register, operand)
    }

    fn meta(&mut self, [_, register, key, ..]: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        let operand = match number(key)? {
            nf::META_L4PROTO => Operand::L4Proto,
            nf::META_IIFNAME => Operand::IifName,
            _ => return Err(Foreign),
        };
        self.load(register, operand)
    }

    fn ct(&mut self, a: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        let [_, register, key, direction, ..] = a;
        let operand = match (number(key)?, direction) {
            (nf::CT_STATE, None) => Operand::CtState,
            (nf::CT_STATUS, None) => Operand::CtStatus,
            (nf::CT_SRC_IP, Some(&[nf::CT_ORIGINAL])) => Operand::CtOriginalIpSaddr,
            (nf::CT_SRC_IP6, Some(&[nf::CT_ORIGINAL])) => Operand::CtOriginalIp6Saddr,
            (nf::CT_DST_IP, Some(&[nf::CT_ORIGINAL])) => Operand::CtOriginalIpDaddr,
            (nf::CT_DST_IP6, Some(&[nf::CT_ORIGINAL])) => Operand::CtOriginalIp6Daddr,
            (nf::CT_SRC_IP, Some(&[nf::CT_REPLY])) => Operand::CtReplyIpSaddr,
            (nf::CT_SRC_IP6, Some(&[nf::CT_REPLY])) => Operand::CtReplyIp6Saddr,
            (nf::CT_PROTO_SRC, Some(&[nf::CT_REPLY])) => Operand::CtReplyProtoSrc,
            (nf::CT_PROTO_DST, Some(&[nf::CT_ORIGINAL])) => Operand::CtOriginalProtoDst,
            _ => return Err(Foreign),
        };
        self.load(register, operand)
    }

    fn numgen(&mut self, a: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        let [_, register, modulus, kind, offset, ..] = a;
        if number(kind)? != nf::NUMGEN_RANDOM || optional(offset)? != 0 {
            return Err(Foreign);
        }
        self.load(register, Operand::NumgenRandom(number(modulus)?))
    }

    fn bitwise(&mut self, a: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        let [_, source, target, length, mask, xor, operation, _] = a;
        let operand = self.take_last(source)?;
        let [_, mask] = Attributes::new(mask.ok_or(Foreign)?).by_type()?;
        let [_, xor] = Attributes::new(xor.ok_or(Foreign)?).by_type()?;
        let (mask, xor) = (mask.ok_or(Foreign)?, xor.ok_or(Foreign)?);
        let size = operand.kind().size();
        let is_whole = number(length)? as usize == size && mask.len() == size;
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        if !is_whole || optional(operation)? != 0 || !is_zero(xor) {
            return Err(Foreign);
        }
        let masked = match operand {
            Operand::IpDaddr if is_zero(mask) => Loaded::Whole(Operand::AnyIpDaddr),
            Operand::Ip6Daddr if is_zero(mask) => Loaded::Whole(Operand::AnyIp6Daddr),
            operand if operand.kind() == Type::Number => {
                let bits = mask.try_into().map_err(|_| Foreign)?;
                Loaded::Masked(operand, u32::from_ne_bytes(bits))
            }
            _ => return Err(Foreign),
        };
        self.loaded.push((word(target)?, masked));
        Ok(())
    }

    fn hash(&mut self, a: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        let [_, source, target, length, modulus, seed, offset, kind] = a;
        let into = Jhash { modulus: number(modulus)?, seed: number(seed)? };
        let operand = match (self.take_last(source)?, number(length)?) {
            (Operand::IpSaddr, 4) => Operand::JhashIpSaddr(into),
            (Operand::Ip6Saddr, 16) => Operand::JhashIp6Saddr(into),
            _ => return Err(Foreign),
        };
        if optional(offset)? != 0 || optional(kind)? != nf::HASH_JENKINS {
            return Err(Foreign);
        }
        self.load(target, operand)
    }

    fn fib(&mut self, [_, register, result, flags, ..]: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        if number(result)? != nf::FIB_TYPE || number(flags)? != nf::FIB_DADDR {
            return Err(Foreign);
        }
        self.load(register, Operand::FibDaddrType)
    }

    fn learn(&mut self, a: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        let [_, name, _, operation, key, value, timeout, expression] = a;
        let name = string(name.ok_or(Foreign)?)?;
        let map = self.sets.get(name).ok_or(Foreign)?;
        let SetValue::Data(types) = &map.value else { return Err(Foreign) };
        let timeout = timeout.ok_or(Foreign)?.try_into().map_err(|_| Foreign)?;
        let timeout_ms = u64::from_be_bytes(timeout);
        let whole = timeout_ms.is_multiple_of(1000) && expression.is_none();
        if !whole || number(operation)? != nf::DYNSET_UPDATE || self.loaded.len() < map.key.len() {
            return Err(Foreign);
        }
        let values = self.loaded.split_off(map.key.len());
        let key_words = words(&map.key);
        let key = self.take_key(key, 0, &map.key)?;
        self.loaded = values;
        let value = self.take_key(value, key_words, types)?;
        let timeout_s = u32::try_from(timeout_ms / 1000).map_err(|_| Foreign)?;
        self.push(Statement::Learn { key, value, timeout_s, map: name.into() })
    }

    fn compare(&mut self, a: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        let [_, source, operator, data, ..] = a;
        let negated = match number(operator)? {
            nf::CMP_EQ => false,
            nf::CMP_NEQ => true,
            _ => return Err(Foreign),
        };
        let [_, value] = Attributes::new(data.ok_or(Foreign)?).by_type()?;
        let value = value.ok_or(Foreign)?;
        let statement = match self.take(source)? {
            Loaded::Whole(left) if value.len() == left.kind().size() => {
                Statement::Match { left, negated, right: Bytes::from_slice(value).ok_or(Foreign)? }
            }
            Loaded::Masked(left, bits) if value == [0; 4] => {
                Statement::MatchBits { left, bits, any: negated }
            }
            Loaded::Whole(_) | Loaded::Masked(..) => return Err(Foreign),
        };
        self.push(statement)
    }

    fn lookup(&mut self, a: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        let [_, name, source, target, _, flags, ..] = a;
        let name = string(name.ok_or(Foreign)?)?;
        let set = self.sets.get(name).ok_or(Foreign)?;
        let key = self.take_key(source, 0, &set.key)?;
        let inverted = match optional(flags)? {
            0 => false,
            nf::LOOKUP_INVERTED => true,
            _ => return Err(Foreign),
        };
        match (&set.value, target) {
            (SetValue::Verdict, Some(target)) if be32(target)? == 0 && !inverted => {
                self.push(Statement::Vmap { key, map: name.into() })
            }
            (SetValue::Data(types), Some(_)) if word(target)? == 0 && !inverted => {
                self.mapped = Some((key, name.into(), types.clone()));
                Ok(())
            }
            (SetValue::None | SetValue::Data(_) | SetValue::Verdict, None) => {
                self.push(Statement::InSet { key, set: name.into(), negated: inverted })
            }
            _ => Err(Foreign),
        }
    }

    fn nat(&mut self, a: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        /// NF_NAT_RANGE_MAP_IPS and _PROTO_SPECIFIED: the kernel sets them where registers do.
        const IMPLIED: u32 = 3;
        let [_, kind, family, address, address_max, port, port_max, flags] = a;
        let (key, map, types) = self.mapped.take().ok_or(Foreign)?;
        let ipv6 = encode::nat_is_ipv6(self.family, &key);
        let (of_family, of_types) = if ipv6 {
            (Family::Ip6, [Type::Ipv6Addr, Type::InetService])
        } else {
            (Family::Ip, [Type::Ipv4Addr, Type::InetService])
        };
        let address_words = if ipv6 { 4 } else { 1 };
        let same =
            |max: Option<&[u8]>, min| max.is_none_or(|max| word(Some(max)).ok() == Some(min));
        let ours = number(kind)? == nf::NAT_DNAT
            && number(family)? == u32::from(nf::family(of_family))
            && types == of_types
            && word(address)? == 0
            && same(address_max, 0)
            && word(port)? == address_words
            && same(port_max, address_words)
            && optional(flags)? & !IMPLIED == 0;
        if !ours {
            return Err(Foreign);
        }
        self.push(Statement::Dnat { key, map })
    }

    fn masquerade(&mut self, a: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        let [_, flags, port, port_max, ..] = a;
        let fully_random = match optional(flags)? {
            0 => false,
            nf::FULLY_RANDOM => true,
            _ => return Err(Foreign),
        };
        if port.is_some() || port_max.is_some() {
            return Err(Foreign);
        }
        self.push(Statement::Masquerade { fully_random })
    }

    fn redirect(&mut self, a: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        let [_, port, port_max, flags, ..] = a;
        if port.is_some() || port_max.is_some() || optional(flags)? != 0 {
            return Err(Foreign);
        }
        self.push(Statement::Redirect)
    }

    fn reject(&mut self, a: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        let [_, kind, code, ..] = a;
        let kind = number(kind)?;
        if kind == nf::REJECT_RESET {
            return self.push(Statement::RejectTcpReset);
        }
        match code {
            Some(&[code]) if (kind, code) == encode::port_unreachable(self.family) => {
                self.push(Statement::RejectPortUnreachable)
            }
            _ => Err(Foreign),
        }
    }

    fn immediate(&mut self, a: [Option<&[u8]>; 8]) -> Result<(), Foreign> {
        let [_, target, data, ..] = a;
        if number(target)? != 0 {
            return Err(Foreign);
        }
        match decode::data(data.ok_or(Foreign)?)? {
            Some(Value::Verdict(verdict)) => self.push(Statement::Verdict(verdict)),
            Some(Value::None | Value::Data(_) | Value::Last(_)) | None => Err(Foreign),
        }
    }

    fn load(&mut self, register: Option<&[u8]>, operand: Operand) -> Result<(), Foreign> {
        self.loaded.push((word(register)?, Loaded::Whole(operand)));
        Ok(())
    }

    /// What a statement uses must be all that is loaded.
    fn take(&mut self, register: Option<&[u8]>) -> Result<Loaded, Foreign> {
        match *self.loaded {
            [(at, loaded)] if at == word(register)? => {
                self.loaded.clear();
                Ok(loaded)
            }
            _ => Err(Foreign),
        }
    }

    /// What was loaded last, to be changed in place.
    fn take_last(&mut self, register: Option<&[u8]>) -> Result<Operand, Foreign> {
        match self.loaded.pop() {
            Some((at, Loaded::Whole(operand))) if at == word(register)? => Ok(operand),
            Some(_) | None => Err(Foreign),
        }
    }

    fn take_key(
        &mut self,
        register: Option<&[u8]>,
        first_word: u32,
        types: &[Type],
    ) -> Result<Vec<Operand>, Foreign> {
        let mut next = word(register)?;
        if next != first_word || self.loaded.len() != types.len() {
            return Err(Foreign);
        }
        let mut key = Vec::with_capacity(types.len());
        for ((at, loaded), kind) in self.loaded.drain(..).zip(types) {
            let Loaded::Whole(operand) = loaded else { return Err(Foreign) };
            if at != next || operand.kind() != *kind {
                return Err(Foreign);
            }
            next += kind.size().div_ceil(4) as u32;
            key.push(operand);
        }
        Ok(key)
    }

    fn push(&mut self, statement: Statement) -> Result<(), Foreign> {
        if !self.loaded.is_empty() || self.mapped.is_some() {
            return Err(Foreign);
        }
        self.statements.push(statement);
        Ok(())
    }
}

/// How many words a key takes.
fn words(types: &[Type]) -> u32 {
    types.iter().map(|kind| kind.size().div_ceil(4) as u32).sum()
}

fn number(value: Option<&[u8]>) -> Result<u32, Foreign> {
    Ok(be32(value.ok_or(Foreign)?)?)
}

fn optional(value: Option<&[u8]>) -> Result<u32, Foreign> {
    Ok(value.map_or(Ok(0), be32)?)
}

/// The first word of a register: NFT_REG_1 to _4 are of 16 bytes, NFT_REG32_00 to _15 of 4.
fn word(register: Option<&[u8]>) -> Result<u32, Foreign> {
    match number(register)? {
        wide @ 1..=4 => Ok((wide - 1) * 4),
        narrow @ 8..=23 => Ok(narrow - 8),
        _ => Err(Foreign),
    }
}
