//! Messages into tables, chains, sets and elements.

use signpost_nft::{Base, Bytes, ChainType, Element, Form, Set, SetValue, Type, Value, Verdict};

use super::constants as nf;
use crate::message::{Attributes, Malformed, be32, string};

/// struct nfgenmsg.
const GENERIC_HEADER: usize = 4;

/// The address family and the attributes of a message.
pub(crate) fn split(payload: &[u8]) -> Result<(u8, Attributes<'_>), Malformed> {
    let family = *payload.first().ok_or(Malformed("family is missing"))?;
    Ok((family, Attributes::after(payload, GENERIC_HEADER)?))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableHeader<'a> {
    pub(crate) name: &'a str,
    pub(crate) owner: bool,
    pub(crate) persist: bool,
    pub(crate) dormant: bool,
}

pub(crate) fn table(attributes: Attributes<'_>) -> Result<TableHeader<'_>, Malformed> {
    let [_, name, flags] = attributes.by_type()?;
    let flags = flags.map_or(Ok(0), be32)?;
    Ok(TableHeader {
        name: required(name)?,
        owner: flags & nf::TABLE_OWNER != 0,
        persist: flags & nf::TABLE_PERSIST != 0,
        dormant: flags & nf::TABLE_DORMANT != 0,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainHeader<'a> {
    pub(crate) table: &'a str,
    pub(crate) name: &'a str,
    pub(crate) base: Option<Base>,
}

pub(crate) fn chain(attributes: Attributes<'_>) -> Result<ChainHeader<'_>, Malformed> {
    let [_, table, _, name, hook, policy, _, kind, _, _, flags] = attributes.by_type()?;
    let base = hook.map(|hook| base(hook, policy, kind, flags)).transpose()?;
    Ok(ChainHeader { table: required(table)?, name: required(name)?, base })
}

fn base(
    hook: &[u8],
    policy: Option<&[u8]>,
    kind: Option<&[u8]>,
    flags: Option<&[u8]>,
) -> Result<Base, Malformed> {
    const BASE: u32 = 1;
    let [_, number, priority, device, devices] = Attributes::new(hook).by_type()?;
    let hook = nf::hook_of(number.map_or(Ok(0), be32)?).ok_or(Malformed("unknown hook"))?;
    let accept = policy.map_or(Ok(nf::ACCEPT as u32), be32)? == nf::ACCEPT as u32;
    let plain = flags.map_or(Ok(0), be32)? & !BASE == 0;
    let of_all_devices = device.is_none() && devices.is_none();
    let kind = match kind.map(string).transpose()? {
        Some("filter") if accept && plain && of_all_devices => ChainType::Filter,
        Some("nat") if accept && plain => ChainType::Nat,
        Some("route") if accept && plain => ChainType::Route,
        Some(_) | None => ChainType::Foreign,
    };
    Ok(Base { kind, hook, priority: priority.map_or(Ok(0), be32)? as i32 })
}

pub(crate) struct RuleHeader<'a> {
    pub(crate) table: &'a str,
    pub(crate) chain: &'a str,
    pub(crate) expressions: &'a [u8],
}

pub(crate) fn rule(attributes: Attributes<'_>) -> Result<RuleHeader<'_>, Malformed> {
    let [_, table, chain, _, expressions] = attributes.by_type()?;
    Ok(RuleHeader {
        table: required(table)?,
        chain: required(chain)?,
        expressions: expressions.unwrap_or_default(),
    })
}

pub(crate) struct SetHeader<'a> {
    pub(crate) table: &'a str,
    pub(crate) name: &'a str,
    /// It belongs to one rule and has no name of its own.
    pub(crate) anonymous: bool,
    pub(crate) set: Set,
}

pub(crate) fn set(attributes: Attributes<'_>) -> Result<SetHeader<'_>, Malformed> {
    let [_, table, name, flags, key_type, key_len, data_type, data_len, _, description] =
        attributes.by_type()?;
    let number = |value: Option<&[u8]>| value.map_or(Ok(0), be32);
    let flags = number(flags)?;
    let [_, size] = Attributes::new(description.unwrap_or_default()).by_type()?;
    let form = if flags & nf::SET_INTERVAL != 0 {
        Form::Interval
    } else if flags & nf::SET_DYNAMIC != 0 {
        Form::Learned { size: number(size)? }
    } else {
        Form::Plain
    };
    let key = types(number(key_type)?, number(key_len)?);
    let (data_type, data_len) = (number(data_type)?, number(data_len)?);
    let mut read = Set { key: key.clone().unwrap_or_default(), value: SetValue::None, form };
    let strange = flags & !nf::SET_MAP != nf::set_flags(&read);
    read.value = match (flags & nf::SET_MAP != 0, data_type) {
        _ if key.is_none() => SetValue::Foreign("key".into()),
        _ if strange => SetValue::Foreign(format!("flags {flags:#x}").into()),
        (false, _) => SetValue::None,
        (true, nf::VERDICT_TYPE) => SetValue::Verdict,
        (true, data_type) => types(data_type, data_len)
            .map_or_else(|| SetValue::Foreign("data".into()), SetValue::Data),
    };
    Ok(SetHeader {
        table: required(table)?,
        name: required(name)?,
        anonymous: flags & nf::SET_ANONYMOUS != 0,
        set: read,
    })
}

/// `None`: types of which Signpost has none, or of another size.
fn types(number: u32, len: u32) -> Option<Vec<Type>> {
    nf::set_types(number)
        .filter(|types| !types.is_empty() && Type::total_size(types) == len as usize)
}

pub(crate) struct ElementList<'a> {
    pub(crate) set: &'a str,
    pub(crate) elements: Vec<Element>,
    /// That a rule added: with a timeout.
    pub(crate) learned: Vec<Element>,
    /// Some have what no element of ours has, as an expression.
    pub(crate) foreign: bool,
}

pub(crate) fn elements(attributes: Attributes<'_>) -> Result<ElementList<'_>, Malformed> {
    let [_, _, set, list] = attributes.by_type()?;
    let (mut elements, mut learned) = (Vec::new(), Vec::new());
    let mut foreign = false;
    for attribute in Attributes::new(list.unwrap_or_default()) {
        match element(Attributes::new(attribute?.1))? {
            Some((element, false)) => elements.push(element),
            Some((element, true)) => learned.push(element),
            None => foreign = true,
        }
    }
    Ok(ElementList { set: required(set)?, elements, learned, foreign })
}

/// An element, and whether it has a timeout; `None`: a foreign one.
fn element(attributes: Attributes<'_>) -> Result<Option<(Element, bool)>, Malformed> {
    let [_, key, value, flags, timeout, _, _, expression, _, object, key_end, expressions] =
        attributes.by_type()?;
    let flags = flags.map_or(Ok(0), be32)?;
    let strange = [expression, object, expressions];
    if strange.iter().any(Option::is_some) || flags & !nf::ELEMENT_INTERVAL_END != 0 {
        return Ok(None);
    }
    let [_, key] = Attributes::new(key.ok_or(Malformed("an element without key"))?).by_type()?;
    let Some(key) = key.and_then(Bytes::from_slice) else { return Ok(None) };
    let last = key_end.map(|end| Attributes::new(end).by_type()).transpose()?;
    let last = last.map(|[_, last]: [Option<&[u8]>; 2]| last.and_then(Bytes::from_slice));
    let value = match (value.map(data).transpose()?, last) {
        (None, None) => Value::None,
        (None, Some(Some(last))) => Value::Last(last),
        (Some(Some(value)), None) => value,
        (None | Some(_), Some(_)) | (Some(None), None) => return Ok(None),
    };
    let interval_end = flags & nf::ELEMENT_INTERVAL_END != 0;
    Ok(Some((Element { key, interval_end, value }, timeout.is_some())))
}

/// NFTA_DATA_*; `None`: a verdict or data that none of ours has.
pub(crate) fn data(nest: &[u8]) -> Result<Option<Value>, Malformed> {
    let [_, value, verdict] = Attributes::new(nest).by_type()?;
    if let Some(verdict) = verdict {
        return Ok(self::verdict(verdict)?.map(Value::Verdict));
    }
    Ok(value.and_then(Bytes::from_slice).map(Value::Data))
}

fn verdict(nest: &[u8]) -> Result<Option<Verdict>, Malformed> {
    let [_, code, chain] = Attributes::new(nest).by_type()?;
    let code = be32(code.ok_or(Malformed("a verdict without code"))?)? as i32;
    let chain = chain.map(string).transpose()?;
    Ok(match (code, chain) {
        (nf::ACCEPT, _) => Some(Verdict::Accept),
        (nf::DROP, _) => Some(Verdict::Drop),
        (nf::RETURN, _) => Some(Verdict::Return),
        (nf::JUMP, Some(chain)) => Some(Verdict::Jump(chain.into())),
        (nf::GOTO, Some(chain)) => Some(Verdict::Goto(chain.into())),
        _ => None,
    })
}

fn required(name: Option<&[u8]>) -> Result<&str, Malformed> {
    string(name.ok_or(Malformed("a name is missing"))?)
}
