//! Printing as `nft list ruleset` of nft 1.0.6 does, byte for byte, with sets and chains by name.
//! What is printed can be loaded by `nft -f`.

mod names;
mod set;
mod statement;

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use crate::{Base, Chain, ChainType, Element, Family, Hook, Rule, Table};

/// The whole table. What only others write is printed as a comment.
pub fn ruleset(table: &Table, elements: &BTreeMap<Box<str>, Vec<Element>>) -> String {
    Whole { table, elements }.to_string()
}

/// A family's name.
pub fn family(family: Family) -> &'static str {
    names::family(family)
}

/// One rule.
pub fn rule(family: Family, rule: &Rule) -> String {
    statement::Line { family, rule }.to_string()
}

struct Whole<'a> {
    table: &'a Table,
    elements: &'a BTreeMap<Box<str>, Vec<Element>>,
}

impl Display for Whole<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let table = self.table;
        writeln!(f, "table {} {} {{", names::family(table.family), table.name)?;
        let flags =
            [(table.dormant, "dormant"), (table.owner, "owner"), (table.persist, "persist")];
        let flags: Vec<_> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
        let mut separator = "";
        if !flags.is_empty() {
            writeln!(f, "\tflags {}", flags.join(","))?;
            separator = "\n";
        }
        for (name, set) in &table.sets {
            let elements = self.elements.get(name).map_or(&[][..], Vec::as_slice);
            write!(f, "{separator}{}", set::Block { name, set, elements })?;
            separator = "\n";
        }
        for (name, chain) in &table.chains {
            f.write_str(separator)?;
            block(f, table.family, name, chain)?;
            separator = "\n";
        }
        writeln!(f, "}}")
    }
}

fn block(f: &mut Formatter<'_>, family: Family, name: &str, chain: &Chain) -> fmt::Result {
    writeln!(f, "\tchain {name} {{")?;
    if let Some(base) = &chain.base {
        let hook = names::hook(base.hook);
        let priority = Priority(*base);
        match base.kind {
            ChainType::Foreign => writeln!(f, "\t\t# not ours: hook {hook} priority {priority}")?,
            ChainType::Filter | ChainType::Nat | ChainType::Route => writeln!(
                f,
                "\t\ttype {} hook {hook} priority {priority}; policy accept;",
                names::chain_type(base.kind),
            )?,
        }
    }
    for rule in &chain.rules {
        writeln!(f, "\t\t{}", statement::Line { family, rule })?;
    }
    writeln!(f, "\t}}")
}

/// By the nearest of the named priorities, if one is near.
struct Priority(Base);

impl Display for Priority {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const NAMED: [(i32, &str, Option<Hook>); 6] = [
            (-300, "raw", None),
            (-150, "mangle", None),
            (-100, "dstnat", Some(Hook::Prerouting)),
            (0, "filter", None),
            (50, "security", None),
            (100, "srcnat", Some(Hook::Postrouting)),
        ];
        const REACH: u32 = 10;
        let Self(Base { priority, hook, .. }) = *self;
        for (named, name, only_at) in NAMED {
            if only_at.is_some_and(|only| only != hook) || priority.abs_diff(named) > REACH {
                continue;
            }
            return match priority - named {
                0 => f.write_str(name),
                above @ 1.. => write!(f, "{name} + {above}"),
                below => write!(f, "{name} - {}", -below),
            };
        }
        write!(f, "{priority}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Form, Operand, Part, Set, SetValue, Statement, Type, Value, Verdict};

    fn set_text(set: &Set, elements: &[Element]) -> String {
        set::Block { name: "s", set, elements }.to_string()
    }

    fn edge(part: Part, interval_end: bool) -> Element {
        Element { key: Bytes::new(&[part]), interval_end, value: Value::None }
    }

    #[test]
    fn ranges_are_printed_as_prefixes_where_they_are_and_reach_the_end_of_the_space() {
        let v4 = |octets: [u8; 4], end| edge(Part::Ipv4(octets.into()), end);
        let set = Set { key: vec![Type::Ipv4Addr], value: SetValue::None, form: Form::Interval };
        let elements = [
            v4([240, 0, 0, 0], false),
            v4([0, 0, 0, 0], false),
            v4([1, 2, 3, 5], true),
            v4([10, 0, 0, 0], false),
            v4([10, 0, 1, 0], true),
            v4([10, 0, 1, 0], false),
            v4([10, 0, 1, 1], true),
        ];
        let want = "elements = { 0.0.0.0-1.2.3.4, 10.0.0.0/24,\n\t\t\t     10.0.1.0, 240.0.0.0/4 }";
        let text = set_text(&set, &elements);
        assert!(text.contains(want), "{text}");
        assert!(set_text(&set, &[v4([0; 4], false)]).contains("{ 0.0.0.0/0 }"));

        let v6 = |text: &str, end| edge(Part::Ipv6(text.parse().unwrap()), end);
        let set = Set { key: vec![Type::Ipv6Addr], ..set };
        assert!(set_text(&set, &[v6("::", false)]).contains("{ ::/0 }"));
        let text = set_text(&set, &[v6("fd00::", false), v6("fd00:0:0:1::", true)]);
        assert!(text.contains("{ fd00::/64 }"), "{text}");

        let set = Set { key: vec![Type::InetService], ..set };
        let ports = [edge(Part::Port(1024), false), edge(Part::Port(2048), true)];
        assert!(set_text(&set, &ports).contains("{ 1024-2047 }"));
    }

    #[test]
    fn a_protocol_is_left_out_only_where_a_later_word_says_it() {
        let equal =
            |left, right| Statement::Match { left, negated: false, right: Bytes::new(&[right]) };
        let protocol = |number| equal(Operand::L4Proto, Part::Proto(number));
        let port = || equal(Operand::ThDport, Part::Port(80));
        let address = || equal(Operand::IpDaddr, Part::Ipv4([10, 0, 0, 1].into()));
        let icmp = || equal(Operand::IcmpType, Part::Proto(8));
        let drop = || Statement::Verdict(Verdict::Drop);
        let rows = [
            (vec![protocol(6), drop()], "meta l4proto tcp drop"),
            (vec![protocol(6), port(), drop()], "tcp dport 80 drop"),
            (vec![protocol(17), address(), port(), drop()], "ip daddr 10.0.0.1 udp dport 80 drop"),
            (vec![port(), drop()], "th dport 80 drop"),
            (vec![protocol(200), port(), drop()], "meta l4proto 200 th dport 80 drop"),
            (vec![protocol(1), icmp(), drop()], "icmp type echo-request drop"),
            (vec![icmp(), drop()], "@th,0,8 0x8 drop"),
            (vec![protocol(6), Statement::RejectTcpReset], "reject with tcp reset"),
            (vec![protocol(17), Statement::RejectPortUnreachable], "meta l4proto udp reject"),
        ];
        for (statements, want) in rows {
            assert_eq!(rule(Family::Ip, &Rule(statements)), want);
        }
    }
}
