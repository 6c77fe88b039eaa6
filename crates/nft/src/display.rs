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
