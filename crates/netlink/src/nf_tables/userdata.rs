//! What the nft program keeps with a set (libnftnl's udata.h, nftables' src/netlink.c): an example
//! of each part of its keys and data, and their byte order. Without it, nft 1.0.6 aborts on listing a
//! map with a number in its key, and lists a set of interface names as empty strings.

use signpost_nft::{Set, SetValue, Type};

/// NFTA_SET_USERDATA; `None`: nft finds out all of it from the types.
pub(crate) fn of_set(set: &Set) -> Option<Vec<u8>> {
    const KEY_BYTE_ORDER: u8 = 0;
    const DATA_BYTE_ORDER: u8 = 1;
    const KEY_EXAMPLE: u8 = 3;
    const DATA_EXAMPLE: u8 = 4;
    const DATA_INTERVAL: u8 = 6;
    const HOST: u32 = 1;
    let data: &[Type] = match &set.value {
        SetValue::Data(types) => types,
        SetValue::None | SetValue::Verdict | SetValue::Foreign(_) => &[],
    };
    if set.key == [Type::IfName] {
        let mut userdata = Vec::new();
        number(&mut userdata, KEY_BYTE_ORDER, HOST);
        return Some(userdata);
    }
    if !set.key.iter().chain(data).any(|kind| *kind == Type::Number) {
        return None;
    }
    let mut userdata = Vec::new();
    number(&mut userdata, KEY_BYTE_ORDER, 0);
    number(&mut userdata, DATA_BYTE_ORDER, 0);
    field(&mut userdata, KEY_EXAMPLE, &example(&set.key));
    if !data.is_empty() {
        field(&mut userdata, DATA_EXAMPLE, &example(data));
        number(&mut userdata, DATA_INTERVAL, 0);
    }
    Some(userdata)
}

fn example(types: &[Type]) -> Vec<u8> {
    const CONCATENATION: u32 = 13;
    match types {
        [single] => expression_of(*single),
        parts => {
            let mut all = Vec::new();
            for (index, part) in (0..).zip(parts) {
                field(&mut all, index, &expression_of(*part));
            }
            expression(CONCATENATION, &all)
        }
    }
}

/// The expression that the printed declaration shows.
fn expression_of(kind: Type) -> Vec<u8> {
    const PAYLOAD: u32 = 7;
    const META: u32 = 9;
    const NUMGEN: u32 = 23;
    const TH: u32 = 11;
    const IP: u32 = 12;
    const IP6: u32 = 13;
    let numbers = |values: &[u32]| {
        let mut data = Vec::new();
        for (index, value) in (0..).zip(values) {
            number(&mut data, index, *value);
        }
        data
    };
    match kind {
        Type::Ipv4Addr => expression(PAYLOAD, &numbers(&[IP, 12])),
        Type::Ipv6Addr => expression(PAYLOAD, &numbers(&[IP6, 9])),
        Type::InetService => expression(PAYLOAD, &numbers(&[TH, 2])),
        Type::InetProto => expression(META, &numbers(&[super::constants::META_L4PROTO])),
        Type::IfName => expression(META, &numbers(&[super::constants::META_IIFNAME])),
        Type::Number => expression(NUMGEN, &numbers(&[super::constants::NUMGEN_RANDOM, 65_536, 0])),
    }
}

fn expression(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut expression = Vec::new();
    number(&mut expression, 0, kind);
    field(&mut expression, 1, data);
    expression
}

fn number(into: &mut Vec<u8>, kind: u8, value: u32) {
    field(into, kind, &value.to_ne_bytes());
}

/// A field's length is one byte: a key of four parts takes 96.
fn field(into: &mut Vec<u8>, kind: u8, value: &[u8]) {
    into.extend([kind, value.len() as u8]);
    into.extend(value);
}
