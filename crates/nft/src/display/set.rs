//! Sets, maps and their elements.

use std::fmt::{self, Display, Formatter};
use std::net::{Ipv4Addr, Ipv6Addr};

use super::names;
use crate::{Bytes, Element, Form, Part, Set, SetValue, Type, Value, Verdict};

pub(super) struct Block<'a> {
    pub(super) name: &'a str,
    pub(super) set: &'a Set,
    pub(super) elements: &'a [Element],
}

impl Display for Block<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, set, elements } = *self;
        let keyword = if set.value == SetValue::None { "set" } else { "map" };
        writeln!(f, "\t{keyword} {name} {{")?;
        if let SetValue::Foreign(what) = &set.value {
            return writeln!(f, "\t\t# not ours: {what}\n\t}}");
        }
        writeln!(f, "\t\t{}", declaration(set))?;
        match set.form {
            Form::Plain => {}
            Form::Interval => writeln!(f, "\t\tflags interval")?,
            Form::Learned { size } => {
                writeln!(f, "\t\tsize {size}")?;
                writeln!(f, "\t\tflags dynamic,timeout")?;
            }
        }
        let rows = match (set.form, &*set.key) {
            (Form::Interval, [_]) => ranges(set, elements),
            (Form::Interval | Form::Plain | Form::Learned { .. }, _) => singles(set, elements),
        };
        if !rows.is_empty() {
            f.write_str("\t\telements = { ")?;
            let per_line = per_line(set);
            for (index, row) in rows.iter().enumerate() {
                match index {
                    0 => {}
                    _ if index % per_line == 0 => f.write_str(",\n\t\t\t     ")?,
                    _ => f.write_str(", ")?,
                }
                f.write_str(row)?;
            }
            writeln!(f, " }}")?;
        }
        writeln!(f, "\t}}")
    }
}

/// nft has no name for the type of a number, so it wants an example of each part.
fn declaration(set: &Set) -> String {
    let data: &[Type] = match &set.value {
        SetValue::Data(types) => types,
        SetValue::None | SetValue::Verdict | SetValue::Foreign(_) => &[],
    };
    let by_example = set.key.iter().chain(data).any(|kind| *kind == Type::Number);
    let (keyword, name): (_, fn(&Type) -> &'static str) =
        if by_example { ("typeof", example) } else { ("type", type_name) };
    let join = |types: &[Type]| types.iter().map(name).collect::<Vec<_>>().join(" . ");
    let key = join(&set.key);
    match &set.value {
        SetValue::None | SetValue::Foreign(_) => format!("{keyword} {key}"),
        SetValue::Data(types) => format!("{keyword} {key} : {}", join(types)),
        SetValue::Verdict => format!("{keyword} {key} : verdict"),
    }
}

fn type_name(kind: &Type) -> &'static str {
    match kind {
        Type::Ipv4Addr => "ipv4_addr",
        Type::Ipv6Addr => "ipv6_addr",
        Type::InetProto => "inet_proto",
        Type::InetService => "inet_service",
        Type::IfName => "ifname",
        Type::Number => "integer",
    }
}

fn example(kind: &Type) -> &'static str {
    match kind {
        Type::Ipv4Addr => "ip daddr",
        Type::Ipv6Addr => "ip6 daddr",
        Type::InetProto => "meta l4proto",
        Type::InetService => "th dport",
        Type::IfName => "iifname",
        Type::Number => "numgen random mod 65536",
    }
}

fn per_line(set: &Set) -> usize {
    match *set.key {
        [Type::InetProto | Type::InetService] => 5,
        [Type::Ipv4Addr] => 2,
        _ => 1,
    }
}

fn singles(set: &Set, elements: &[Element]) -> Vec<String> {
    let mut sorted: Vec<_> =
        elements.iter().map(|element| (order(set, &element.key), element)).collect();
    sorted.sort_by(|(left, _), (right, _)| left.cmp(right));
    sorted
        .iter()
        .map(|(_, element)| {
            let key = match &element.value {
                Value::Last(last) => spans_text(&element.key, last, &set.key),
                Value::None | Value::Data(_) | Value::Verdict(_) => {
                    key_text(&element.key, &set.key)
                }
            };
            key + &value_text(set, &element.value)
        })
        .collect()
}

/// nft sorts by the last part of a key first.
fn order(set: &Set, key: &Bytes) -> Vec<u128> {
    let parts = key.parts(&set.key).unwrap_or_default();
    parts.iter().rev().map(|part| ordinal(*part)).collect()
}

fn ranges(set: &Set, elements: &[Element]) -> Vec<String> {
    let Some(kind) = set.key.first() else { return Vec::new() };
    let place = |element: &Element| Some(ordinal(*element.key.parts(&set.key)?.first()?));
    let mut points: Vec<_> =
        elements.iter().filter_map(|element| Some((place(element)?, element))).collect();
    points.sort_by_key(|(at, element)| (*at, !element.interval_end));
    let mut rows = Vec::new();
    for (index, (first, element)) in points.iter().enumerate() {
        if element.interval_end {
            continue;
        }
        let last = points.get(index + 1).map_or(largest(*kind), |(next, _)| next - 1);
        rows.push(range_text(*kind, *first, last) + &value_text(set, &element.value));
    }
    rows
}

fn range_text(kind: Type, first: u128, last: u128) -> String {
    let text = |ordinal| part_text(&part(kind, ordinal));
    let size = last.wrapping_sub(first).wrapping_add(1);
    let aligned = size == 0 || (size.is_power_of_two() && first.is_multiple_of(size));
    let bits = kind.size() as u32 * 8;
    let address = matches!(kind, Type::Ipv4Addr | Type::Ipv6Addr);
    match size {
        1 => text(first),
        0 if address => format!("{}/0", text(first)),
        _ if address && aligned => format!("{}/{}", text(first), bits - size.trailing_zeros()),
        _ => format!("{}-{}", text(first), text(last)),
    }
}

/// The place of a value among those of its type.
fn ordinal(part: Part) -> u128 {
    match part {
        Part::Ipv4(address) => u32::from(address).into(),
        Part::Ipv6(address) => address.into(),
        Part::Proto(proto) => proto.into(),
        Part::Port(port) => port.into(),
        Part::Number(number) => number.into(),
        Part::IfName(name) => u128::from_le_bytes(name),
    }
}

fn part(kind: Type, ordinal: u128) -> Part {
    match kind {
        Type::Ipv4Addr => Part::Ipv4(Ipv4Addr::from(ordinal as u32)),
        Type::Ipv6Addr => Part::Ipv6(Ipv6Addr::from(ordinal)),
        Type::InetProto => Part::Proto(ordinal as u8),
        Type::InetService => Part::Port(ordinal as u16),
        Type::Number => Part::Number(ordinal as u32),
        Type::IfName => Part::IfName(ordinal.to_le_bytes()),
    }
}

fn largest(kind: Type) -> u128 {
    u128::MAX >> (128 - kind.size() * 8)
}

fn value_text(set: &Set, value: &Value) -> String {
    match (value, &set.value) {
        (Value::None | Value::Last(_), _) => String::new(),
        (Value::Data(data), SetValue::Data(types)) => format!(" : {}", key_text(data, types)),
        (Value::Data(data), _) => format!(" : {data:?}"),
        (Value::Verdict(verdict), _) => format!(" : {}", verdict_text(verdict)),
    }
}

/// A first and a last key: each part by itself is a range.
fn spans_text(first: &Bytes, last: &Bytes, types: &[Type]) -> String {
    let (Some(first), Some(last)) = (first.parts(types), last.parts(types)) else {
        return format!("{first:?}-{last:?}");
    };
    let parts = first.iter().zip(&last).map(|(first, last)| {
        if first == last {
            return part_text(first);
        }
        range_text(first.kind(), ordinal(*first), ordinal(*last))
    });
    parts.collect::<Vec<_>>().join(" . ")
}

fn key_text(key: &Bytes, types: &[Type]) -> String {
    match key.parts(types) {
        Some(parts) => parts.iter().map(part_text).collect::<Vec<_>>().join(" . "),
        None => format!("{key:?}"),
    }
}

pub(super) fn part_text(part: &Part) -> String {
    match part {
        Part::Ipv4(address) => address.to_string(),
        Part::Ipv6(address) => address.to_string(),
        Part::Proto(number) => {
            names::protocol(*number).map_or_else(|| number.to_string(), str::to_owned)
        }
        Part::Port(port) => port.to_string(),
        Part::Number(number) => number.to_string(),
        Part::IfName(name) => {
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            format!("\"{}\"", String::from_utf8_lossy(&name[..end]))
        }
    }
}

pub(super) fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accept => "accept".into(),
        Verdict::Drop => "drop".into(),
        Verdict::Return => "return".into(),
        Verdict::Jump(chain) => format!("jump {chain}"),
        Verdict::Goto(chain) => format!("goto {chain}"),
    }
}
