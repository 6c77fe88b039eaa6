//! Rules. As nft does, `meta l4proto tcp` is left out where a later `tcp dport` says it.

use std::fmt::{self, Display, Formatter};

use super::{names, set};
use crate::{Bytes, Family, Operand, Rule, Statement, Type};

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
        | Operand::L4Proto
        | Operand::IifName
        | Operand::CtStatus
        | Operand::CtOriginalIpDaddr
        | Operand::NumgenRandom(_) => false,
    };
    match statement {
        Statement::Match { left, .. } | Statement::MatchBits { left, .. } => named(left),
        Statement::InSet { key, .. }
        | Statement::Vmap { key, .. }
        | Statement::Dnat { key, .. } => key.iter().any(named),
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
                match names::ct_status(*bits).filter(|_| *left == Operand::CtStatus) {
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
        Operand::ThDport => {
            format!("{} dport", protocol.and_then(names::with_ports).unwrap_or("th"))
        }
        Operand::IcmpType => match protocol.and_then(icmp_keyword) {
            Some(keyword) => format!("{keyword} type"),
            None => "@th,0,8".into(),
        },
        Operand::L4Proto => "meta l4proto".into(),
        Operand::IifName => "iifname".into(),
        Operand::CtStatus => "ct status".into(),
        Operand::CtOriginalIpDaddr => "ct original ip daddr".into(),
        Operand::NumgenRandom(modulus) => format!("numgen random mod {modulus}"),
    }
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
        Some([part]) => set::part_text(part),
        Some(_) | None => format!("{right:?}"),
    }
}
