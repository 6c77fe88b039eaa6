//! Rules. As nft does, `meta l4proto tcp` is left out where a later `tcp dport` says it.

use std::fmt::{self, Display, Formatter};

use super::{names, set};
use crate::{Bytes, Family, Jhash, Operand, Part, Rule, Statement, Type};

pub(super) struct Line<'a> {
    pub(super) family: Family,
    pub(super) rule: &'a Rule,
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut protocol = None;
        let mut separator = "";
        for (index, statement) in self.rule.0.iter().enumerate() {
            if let Some(matched) = protocol_match(statement) {
                protocol = Some(matched);
                if self.rule.0[index + 1..].iter().any(|later| says(later, matched)) {
                    continue;
                }
            }
            f.write_str(separator)?;
            f.write_str(&self.text(statement, protocol))?;
            separator = " ";
        }
        Ok(())
    }
}

/// The protocol that `meta l4proto P` asks for.
fn protocol_match(statement: &Statement) -> Option<u8> {
    match statement {
        Statement::Match { left: Operand::L4Proto, negated: false, right } => {
            right.as_slice().first().copied()
        }
        Statement::Match { .. }
        | Statement::MatchBits { .. }
        | Statement::InSet { .. }
        | Statement::Vmap { .. }
        | Statement::Learn { .. }
        | Statement::Dnat { .. }
        | Statement::Masquerade { .. }
        | Statement::Redirect
        | Statement::RejectTcpReset
        | Statement::RejectPortUnreachable
        | Statement::Verdict(_)
        | Statement::Foreign(_) => None,
    }
}

/// Does its text name the protocol?
fn says(statement: &Statement, protocol: u8) -> bool {
    let named = |operand: &Operand| match operand {
        Operand::ThDport => names::with_ports(protocol).is_some(),
        Operand::IcmpType => icmp_keyword(protocol).is_some(),
        Operand::IpSaddr
        | Operand::IpDaddr
        | Operand::Ip6Saddr
        | Operand::Ip6Daddr
        | Operand::AnyIpDaddr
        | Operand::AnyIp6Daddr
        | Operand::FibDaddrType
        | Operand::L4Proto
        | Operand::IifName
        | Operand::CtState
        | Operand::CtStatus
        | Operand::CtOriginalIpSaddr
        | Operand::CtOriginalIp6Saddr
        | Operand::CtOriginalIpDaddr
        | Operand::CtOriginalIp6Daddr
        | Operand::CtOriginalProtoDst
        | Operand::CtReplyIpSaddr
        | Operand::CtReplyIp6Saddr
        | Operand::CtReplyProtoSrc
        | Operand::JhashIpSaddr(_)
        | Operand::JhashIp6Saddr(_)
        | Operand::NumgenRandom(_) => false,
    };
    match statement {
        Statement::Match { left, .. } | Statement::MatchBits { left, .. } => named(left),
        Statement::InSet { key, .. }
        | Statement::Vmap { key, .. }
        | Statement::Dnat { key, .. } => key.iter().any(named),
        Statement::Learn { key, value, .. } => key.iter().chain(value).any(named),
        Statement::RejectTcpReset => protocol == names::TCP,
        Statement::Masquerade { .. }
        | Statement::Redirect
        | Statement::RejectPortUnreachable
        | Statement::Verdict(_)
        | Statement::Foreign(_) => false,
    }
}

fn icmp_keyword(protocol: u8) -> Option<&'static str> {
    match protocol {
        names::ICMP => Some("icmp"),
        names::ICMPV6 => Some("icmpv6"),
        _ => None,
    }
}

impl Line<'_> {
    fn text(&self, statement: &Statement, protocol: Option<u8>) -> String {
        let key_text = |key: &[Operand]| {
            let parts: Vec<_> = key.iter().map(|part| operand_text(*part, protocol)).collect();
            parts.join(" . ")
        };
        match statement {
            Statement::Match { left, negated, right } => format!(
                "{}{} {}",
                operand_text(*left, protocol),
                if *negated { " !=" } else { "" },
                right_text(*left, right, protocol),
            ),
            Statement::MatchBits { left, bits, any } => {
                let left_text = operand_text(*left, protocol);
                let named = match left {
                    Operand::CtStatus => names::ct_status(*bits),
                    Operand::CtState => names::ct_state(*bits),
                    _ => None,
                };
                match named {
                    Some(names) if *any => format!("{left_text} {names}"),
                    Some(names) => format!("{left_text} ! {names}"),
                    None => {
                        let operator = if *any { "!=" } else { "==" };
                        format!("{left_text} & {bits:#x} {operator} 0x0")
                    }
                }
            }
            Statement::InSet { key, set, negated } => {
                format!("{} {}@{set}", key_text(key), if *negated { "!= " } else { "" })
            }
            Statement::Vmap { key, map } => format!("{} vmap @{map}", key_text(key)),
            Statement::Learn { key, value, timeout_s, map } => format!(
                "update @{map} {{ {} timeout {} : {} }}",
                key_text(key),
                duration(*timeout_s),
                key_text(value),
            ),
            Statement::Dnat { key, map } => {
                let ipv6 = match self.family {
                    Family::Ip => false,
                    Family::Ip6 => true,
                    Family::Inet => key.iter().any(|part| part.kind() == Type::Ipv6Addr),
                };
                let family = if ipv6 { "ip6" } else { "ip" };
                format!("dnat {family} to {} map @{map}", key_text(key))
            }
            Statement::Masquerade { fully_random: true } => "masquerade fully-random".into(),
            Statement::Masquerade { fully_random: false } => "masquerade".into(),
            Statement::Redirect => "redirect".into(),
            Statement::RejectTcpReset => "reject with tcp reset".into(),
            Statement::RejectPortUnreachable => "reject".into(),
            Statement::Verdict(verdict) => set::verdict_text(verdict),
            Statement::Foreign(expressions) => format!("# not ours: {expressions}"),
        }
    }
}

fn operand_text(operand: Operand, protocol: Option<u8>) -> String {
    match operand {
        Operand::IpSaddr => "ip saddr".into(),
        Operand::IpDaddr => "ip daddr".into(),
        Operand::Ip6Saddr => "ip6 saddr".into(),
        Operand::Ip6Daddr => "ip6 daddr".into(),
        Operand::AnyIpDaddr => "ip daddr & 0.0.0.0".into(),
        Operand::AnyIp6Daddr => "ip6 daddr & ::".into(),
        Operand::FibDaddrType => "fib daddr type".into(),
        Operand::ThDport => {
            format!("{} dport", protocol.and_then(names::with_ports).unwrap_or("th"))
        }
        Operand::IcmpType => match protocol.and_then(icmp_keyword) {
            Some(keyword) => format!("{keyword} type"),
            None => "@th,0,8".into(),
        },
        Operand::L4Proto => "meta l4proto".into(),
        Operand::IifName => "iifname".into(),
        Operand::CtState => "ct state".into(),
        Operand::CtStatus => "ct status".into(),
        Operand::CtOriginalIpSaddr => "ct original ip saddr".into(),
        Operand::CtOriginalIp6Saddr => "ct original ip6 saddr".into(),
        Operand::CtOriginalIpDaddr => "ct original ip daddr".into(),
        Operand::CtOriginalIp6Daddr => "ct original ip6 daddr".into(),
        Operand::CtReplyIpSaddr => "ct reply ip saddr".into(),
        Operand::CtReplyIp6Saddr => "ct reply ip6 saddr".into(),
        Operand::CtReplyProtoSrc => "ct reply proto-src".into(),
        Operand::CtOriginalProtoDst => "ct original proto-dst".into(),
        Operand::JhashIpSaddr(Jhash { modulus, seed }) => {
            format!("jhash ip saddr mod {modulus} seed {seed:#x}")
        }
        Operand::JhashIp6Saddr(Jhash { modulus, seed }) => {
            format!("jhash ip6 saddr mod {modulus} seed {seed:#x}")
        }
        Operand::NumgenRandom(modulus) => format!("numgen random mod {modulus}"),
    }
}

/// As nft writes times: `3h`, `1m30s`.
fn duration(seconds: u32) -> String {
    let parts = [(86_400, 'd'), (3_600, 'h'), (60, 'm'), (1, 's')];
    let mut rest = seconds;
    let mut text = String::new();
    for (unit, letter) in parts {
        if rest >= unit {
            text += &format!("{}{letter}", rest / unit);
            rest %= unit;
        }
    }
    text
}

fn right_text(left: Operand, right: &Bytes, protocol: Option<u8>) -> String {
    if left == Operand::IcmpType
        && let &[number] = right.as_slice()
    {
        let name = match protocol {
            Some(names::ICMP) => names::icmp_type(number),
            Some(names::ICMPV6) => names::icmpv6_type(number),
            Some(_) | None => return format!("{number:#x}"),
        };
        return name.map_or_else(|| number.to_string(), str::to_owned);
    }
    match right.parts(&[left.kind()]).as_deref() {
        Some([Part::Number(number)]) if left == Operand::FibDaddrType => {
            names::route_type(*number).map_or_else(|| number.to_string(), str::to_owned)
        }
        Some([part]) => set::part_text(part),
        Some(_) | None => format!("{right:?}"),
    }
}
