//! One entry to every parser of this crate.

use std::collections::BTreeMap;

use signpost_nft::{Family, Form, Operand, Set, SetValue, Type};

use crate::message::{self, Messages};
use crate::nf_tables::parse_anything;
use crate::{conntrack, route};

/// Runs every parser over a datagram, whatever its messages claim to be. It returns, or there is a
/// bug.
pub fn fuzz_read(datagram: &[u8]) {
    let key = vec![Operand::IpDaddr.kind(), Type::InetService];
    let value = SetValue::Data(vec![Type::Ipv4Addr, Type::InetService]);
    let sets = BTreeMap::from([("a".into(), Set { key, value, form: Form::Plain })]);
    for message in Messages::new(datagram).map_while(Result::ok) {
        let _ = message::errno(message.payload);
        let _ = message::done_errno(message.payload);
        let _ = message::error_offset(&message);
        for family in [Family::Ip, Family::Ip6, Family::Inet] {
            parse_anything(&message, family, &sets);
        }
        route::parse_anything(&message);
        conntrack::parse_anything(&message);
    }
}
