//! Numbers of linux/netfilter/nf_tables.h and nfnetlink.h.

use signpost_nft::{Family, Form, Hook, Set, Type};

pub(crate) const SUBSYSTEM: u16 = 10;
pub(crate) const BATCH_BEGIN: u16 = 0x10;
pub(crate) const BATCH_END: u16 = 0x11;

pub(crate) const NEW_TABLE: u16 = 0;
pub(crate) const GET_TABLE: u16 = 1;
pub(crate) const DEL_TABLE: u16 = 2;
pub(crate) const NEW_CHAIN: u16 = 3;
pub(crate) const GET_CHAIN: u16 = 4;
pub(crate) const DEL_CHAIN: u16 = 5;
pub(crate) const NEW_RULE: u16 = 6;
pub(crate) const GET_RULE: u16 = 7;
pub(crate) const DEL_RULE: u16 = 8;
pub(crate) const NEW_SET: u16 = 9;
pub(crate) const GET_SET: u16 = 10;
pub(crate) const DEL_SET: u16 = 11;
pub(crate) const NEW_ELEMENTS: u16 = 12;
pub(crate) const GET_ELEMENTS: u16 = 13;
pub(crate) const DEL_ELEMENTS: u16 = 14;
pub(crate) const NEW_GENERATION: u16 = 15;
pub(crate) const GET_GENERATION: u16 = 16;

/// NFTA_LIST_ELEM
pub(crate) const LIST_ELEMENT: u16 = 1;
/// NFTA_DATA_VALUE
pub(crate) const DATA_VALUE: u16 = 1;
/// NFTA_DATA_VERDICT
pub(crate) const DATA_VERDICT: u16 = 2;

pub(crate) const TABLE_DORMANT: u32 = 1;
pub(crate) const TABLE_OWNER: u32 = 2;
pub(crate) const TABLE_PERSIST: u32 = 4;

pub(crate) const SET_ANONYMOUS: u32 = 0x1;
pub(crate) const SET_INTERVAL: u32 = 0x4;
pub(crate) const SET_MAP: u32 = 0x8;
pub(crate) const SET_TIMEOUT: u32 = 0x10;
/// NFT_SET_EVAL: rules may add elements.
pub(crate) const SET_DYNAMIC: u32 = 0x20;
pub(crate) const SET_CONCAT: u32 = 0x80;
pub(crate) const ELEMENT_INTERVAL_END: u32 = 1;
/// NFT_DATA_VERDICT: the data type of a verdict map.
pub(crate) const VERDICT_TYPE: u32 = 0xffff_ff00;

pub(crate) const DROP: i32 = 0;
pub(crate) const ACCEPT: i32 = 1;
pub(crate) const JUMP: i32 = -3;
pub(crate) const GOTO: i32 = -4;
pub(crate) const RETURN: i32 = -5;

pub(crate) const NETWORK_HEADER: u32 = 1;
pub(crate) const TRANSPORT_HEADER: u32 = 2;
pub(crate) const META_IIFNAME: u32 = 6;
pub(crate) const META_L4PROTO: u32 = 16;
pub(crate) const CT_STATE: u32 = 0;
pub(crate) const CT_STATUS: u32 = 2;
pub(crate) const CT_PROTO_SRC: u32 = 11;
pub(crate) const CT_PROTO_DST: u32 = 12;
/// IP_CT_DIR_*
pub(crate) const CT_ORIGINAL: u8 = 0;
pub(crate) const CT_REPLY: u8 = 1;
/// NFT_CT_DST_IP: typed, so it also works in family inet.
pub(crate) const CT_DST_IP: u32 = 20;
pub(crate) const CT_DST_IP6: u32 = 22;
/// NFT_CT_SRC_IP
pub(crate) const CT_SRC_IP: u32 = 19;
pub(crate) const CT_SRC_IP6: u32 = 21;
/// NFT_FIB_RESULT_ADDRTYPE
pub(crate) const FIB_TYPE: u32 = 3;
/// NFTA_FIB_F_DADDR
pub(crate) const FIB_DADDR: u32 = 2;
/// NFT_HASH_JENKINS
pub(crate) const HASH_JENKINS: u32 = 0;
/// NFT_DYNSET_OP_UPDATE
pub(crate) const DYNSET_UPDATE: u32 = 1;
pub(crate) const NUMGEN_RANDOM: u32 = 1;
pub(crate) const LOOKUP_INVERTED: u32 = 1;
pub(crate) const CMP_EQ: u32 = 0;
pub(crate) const CMP_NEQ: u32 = 1;
pub(crate) const NAT_DNAT: u32 = 1;
pub(crate) const REJECT_ICMP: u32 = 0;
pub(crate) const REJECT_RESET: u32 = 1;
pub(crate) const REJECT_ICMPX: u32 = 2;
pub(crate) const FULLY_RANDOM: u32 = 0x10;

pub(crate) fn family(family: Family) -> u8 {
    match family {
        Family::Inet => 1,
        Family::Ip => 2,
        Family::Ip6 => 10,
    }
}

pub(crate) fn hook(hook: Hook) -> u32 {
    match hook {
        Hook::Prerouting => 0,
        Hook::Input => 1,
        Hook::Forward => 2,
        Hook::Output => 3,
        Hook::Postrouting => 4,
        Hook::Ingress => 5,
    }
}

pub(crate) fn hook_of(number: u32) -> Option<Hook> {
    use Hook::{Forward, Ingress, Input, Output, Postrouting, Prerouting};
    [Prerouting, Input, Forward, Output, Postrouting, Ingress]
        .into_iter()
        .find(|each| hook(*each) == number)
}

/// Without that of maps.
pub(crate) fn set_flags(set: &Set) -> u32 {
    match (set.form, &*set.key) {
        (Form::Plain, _) => 0,
        (Form::Interval, [] | [_]) => SET_INTERVAL,
        (Form::Interval, _) => SET_INTERVAL | SET_CONCAT,
        (Form::Learned { .. }, _) => SET_TIMEOUT | SET_DYNAMIC,
    }
}

/// nft's number of a type; the kernel only keeps it. A concatenation is 6 bits each.
pub(crate) fn set_type(types: &[Type]) -> u32 {
    types.iter().fold(0, |all, kind| all << TYPE_BITS | type_number(*kind))
}

/// Takes the number apart; `None`: it has types that Signpost never uses.
pub(crate) fn set_types(mut number: u32) -> Option<Vec<Type>> {
    use Type::{IfName, InetProto, InetService, Ipv4Addr, Ipv6Addr, Number};
    let mut types = Vec::new();
    while number != 0 {
        let last = number & ((1 << TYPE_BITS) - 1);
        number >>= TYPE_BITS;
        types.push(
            [Number, Ipv4Addr, Ipv6Addr, InetProto, InetService, IfName]
                .into_iter()
                .find(|kind| type_number(*kind) == last)?,
        );
    }
    types.reverse();
    Some(types)
}

const TYPE_BITS: u32 = 6;

fn type_number(kind: Type) -> u32 {
    match kind {
        Type::Number => 4,
        Type::Ipv4Addr => 7,
        Type::Ipv6Addr => 8,
        Type::InetProto => 12,
        Type::InetService => 13,
        Type::IfName => 41,
    }
}
