//! Short words for rules.

use signpost_nft::{Bytes, Operand, Part, Rule, Statement, Verdict};
use signpost_plan::Protocol;

pub(crate) fn rule<const N: usize>(statements: [Statement; N]) -> Rule {
    Rule(statements.into())
}

pub(crate) fn goto(chain: &str) -> Statement {
    Statement::Verdict(Verdict::Goto(chain.into()))
}

pub(crate) fn keep() -> Statement {
    Statement::Verdict(Verdict::Return)
}

pub(crate) fn drop() -> Statement {
    Statement::Verdict(Verdict::Drop)
}

pub(crate) fn equals(left: Operand, right: Part) -> Statement {
    Statement::Match { left, negated: false, right: Bytes::new(&[right]) }
}

/// nft wants to know the protocol before `ct original proto-dst`, and can load what it lists then.
pub(crate) fn is(protocol: Protocol) -> Statement {
    equals(Operand::L4Proto, Part::Proto(protocol.number()))
}

pub(crate) fn in_set<const N: usize>(key: [Operand; N], set: &str) -> Statement {
    Statement::InSet { key: key.into(), set: set.into(), negated: false }
}

pub(crate) fn not_in_set<const N: usize>(key: [Operand; N], set: &str) -> Statement {
    Statement::InSet { key: key.into(), set: set.into(), negated: true }
}
