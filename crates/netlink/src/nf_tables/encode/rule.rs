//! Statements as the kernel's expressions.

use signpost_nft::{Family, Jhash, Operand, Statement, Type, Verdict};

use crate::message::Writer;
use crate::nf_tables::constants as nf;

/// False: it can't be written.
pub(super) fn statement(w: &mut Writer, family: Family, statement: &Statement) -> bool {
    match statement {
        Statement::Match { left, negated, right } => {
            load(w, *left, FIRST_WORD);
            compare(w, if *negated { nf::CMP_NEQ } else { nf::CMP_EQ }, right.as_slice());
        }
        Statement::MatchBits { left, bits, any } => {
            load(w, *left, FIRST_WORD);
            bitwise_and(w, register(FIRST_WORD), &bits.to_ne_bytes());
            compare(w, if *any { nf::CMP_NEQ } else { nf::CMP_EQ }, &[0; 4]);
        }
        Statement::InSet { key, set, negated } => {
            load_all(w, key, FIRST_WORD);
            lookup(w, set, None, *negated);
        }
        Statement::Vmap { key, map } => {
            load_all(w, key, FIRST_WORD);
            lookup(w, map, Some(VERDICT_REGISTER), false);
        }
        Statement::Dnat { key, map } => {
            load_all(w, key, FIRST_WORD);
            lookup(w, map, Some(register(FIRST_WORD)), false);
            dnat(w, nat_is_ipv6(family, key));
        }
        Statement::Learn { key, value, timeout_s, map } => {
            let after = load_all(w, key, FIRST_WORD);
            load_all(w, value, after);
            expression(w, "dynset", |w| {
                w.string(1, map);
                w.be32(3, nf::DYNSET_UPDATE);
                w.be32(4, register(FIRST_WORD));
                w.be32(5, register(after));
                w.attribute(6, &(u64::from(*timeout_s) * 1000).to_be_bytes());
            });
        }
        Statement::Masquerade { fully_random } => expression(w, "masq", |w| {
            if *fully_random {
                w.be32(1, nf::FULLY_RANDOM);
            }
        }),
        Statement::Redirect => expression(w, "redir", |_| {}),
        Statement::RejectTcpReset => reject(w, nf::REJECT_RESET, 0),
        Statement::RejectPortUnreachable => {
            let (kind, code) = port_unreachable(family);
            reject(w, kind, code);
        }
        Statement::Verdict(verdict) => expression(w, "immediate", |w| {
            w.be32(1, VERDICT_REGISTER);
            data_verdict(w, 2, verdict);
        }),
        Statement::Foreign(_) => return false,
    }
    true
}

/// NFT_REG_VERDICT
const VERDICT_REGISTER: u32 = 0;
/// Registers are counted in words of 4 bytes.
const FIRST_WORD: u32 = 0;

/// As nft numbers them: a word at the start of 16 bytes by NFT_REG_1 for the first, else
/// NFT_REG32_00 and up.
fn register(word: u32) -> u32 {
    if word == 0 { 1 } else { 8 + word }
}

/// The first word after the key.
fn load_all(w: &mut Writer, key: &[Operand], mut word: u32) -> u32 {
    for operand in key {
        load(w, *operand, word);
        word += operand.kind().size().div_ceil(4) as u32;
    }
    word
}

fn load(w: &mut Writer, operand: Operand, word: u32) {
    let register = register(word);
    match operand {
        Operand::IpSaddr => payload(w, register, nf::NETWORK_HEADER, 12, 4),
        Operand::IpDaddr => payload(w, register, nf::NETWORK_HEADER, 16, 4),
        Operand::Ip6Saddr => payload(w, register, nf::NETWORK_HEADER, 8, 16),
        Operand::Ip6Daddr => payload(w, register, nf::NETWORK_HEADER, 24, 16),
        Operand::AnyIpDaddr => {
            payload(w, register, nf::NETWORK_HEADER, 16, 4);
            bitwise_and(w, register, &[0; 4]);
        }
        Operand::AnyIp6Daddr => {
            payload(w, register, nf::NETWORK_HEADER, 24, 16);
            bitwise_and(w, register, &[0; 16]);
        }
        Operand::FibDaddrType => expression(w, "fib", |w| {
            w.be32(1, register);
            w.be32(2, nf::FIB_TYPE);
            w.be32(3, nf::FIB_DADDR);
        }),
        Operand::JhashIpSaddr(into) => {
            payload(w, register, nf::NETWORK_HEADER, 12, 4);
            hash(w, register, 4, into);
        }
        Operand::JhashIp6Saddr(into) => {
            payload(w, register, nf::NETWORK_HEADER, 8, 16);
            hash(w, register, 16, into);
        }
        Operand::ThDport => payload(w, register, nf::TRANSPORT_HEADER, 2, 2),
        Operand::IcmpType => payload(w, register, nf::TRANSPORT_HEADER, 0, 1),
        Operand::L4Proto => meta(w, register, nf::META_L4PROTO),
        Operand::IifName => meta(w, register, nf::META_IIFNAME),
        Operand::CtState => conntrack(w, register, nf::CT_STATE, None),
        Operand::CtStatus => conntrack(w, register, nf::CT_STATUS, None),
        Operand::CtReplyIpSaddr => {
            conntrack(w, register, nf::CT_SRC_IP, Some(nf::CT_REPLY));
        }
        Operand::CtReplyIp6Saddr => {
            conntrack(w, register, nf::CT_SRC_IP6, Some(nf::CT_REPLY));
        }
        Operand::CtReplyProtoSrc => {
            conntrack(w, register, nf::CT_PROTO_SRC, Some(nf::CT_REPLY));
        }
        Operand::CtOriginalIpSaddr => conntrack(w, register, nf::CT_SRC_IP, Some(nf::CT_ORIGINAL)),
        Operand::CtOriginalIp6Saddr => {
            conntrack(w, register, nf::CT_SRC_IP6, Some(nf::CT_ORIGINAL))
        }
        Operand::CtOriginalIpDaddr => conntrack(w, register, nf::CT_DST_IP, Some(nf::CT_ORIGINAL)),
        Operand::CtOriginalIp6Daddr => {
            conntrack(w, register, nf::CT_DST_IP6, Some(nf::CT_ORIGINAL))
        }
        Operand::CtOriginalProtoDst => {
            conntrack(w, register, nf::CT_PROTO_DST, Some(nf::CT_ORIGINAL))
        }
        Operand::NumgenRandom(modulus) => expression(w, "numgen", |w| {
            w.be32(1, register);
            w.be32(2, modulus);
            w.be32(3, nf::NUMGEN_RANDOM);
            w.be32(4, 0);
        }),
    }
}

fn conntrack(w: &mut Writer, register: u32, key: u32, direction: Option<u8>) {
    expression(w, "ct", |w| {
        w.be32(1, register);
        w.be32(2, key);
        if let Some(direction) = direction {
            w.attribute(3, &[direction]);
        }
    });
}

/// In place.
fn hash(w: &mut Writer, register: u32, length: u32, Jhash { modulus, seed }: Jhash) {
    expression(w, "hash", |w| {
        w.be32(1, register);
        w.be32(2, register);
        w.be32(3, length);
        w.be32(4, modulus);
        w.be32(5, seed);
        w.be32(7, nf::HASH_JENKINS);
    });
}

fn payload(w: &mut Writer, register: u32, header: u32, offset: u32, length: u32) {
    expression(w, "payload", |w| {
        w.be32(1, register);
        w.be32(2, header);
        w.be32(3, offset);
        w.be32(4, length);
    });
}

fn meta(w: &mut Writer, register: u32, key: u32) {
    expression(w, "meta", |w| {
        w.be32(1, register);
        w.be32(2, key);
    });
}

fn compare(w: &mut Writer, operator: u32, with: &[u8]) {
    expression(w, "cmp", |w| {
        w.be32(1, register(FIRST_WORD));
        w.be32(2, operator);
        let data = w.nest(3);
        w.attribute(nf::DATA_VALUE, with);
        w.end_nest(data);
    });
}

/// In place.
fn bitwise_and(w: &mut Writer, register: u32, mask: &[u8]) {
    let zero = [0; 16];
    expression(w, "bitwise", |w| {
        w.be32(1, register);
        w.be32(2, register);
        w.be32(3, mask.len() as u32);
        for (attribute, value) in [(4, mask), (5, &zero[..mask.len()])] {
            let data = w.nest(attribute);
            w.attribute(nf::DATA_VALUE, value);
            w.end_nest(data);
        }
    });
}

fn lookup(w: &mut Writer, set: &str, into: Option<u32>, inverted: bool) {
    expression(w, "lookup", |w| {
        w.string(1, set);
        w.be32(2, register(FIRST_WORD));
        if let Some(register) = into {
            w.be32(3, register);
        }
        if inverted {
            w.be32(5, nf::LOOKUP_INVERTED);
        }
    });
}

fn dnat(w: &mut Writer, ipv6: bool) {
    expression(w, "nat", |w| {
        w.be32(1, nf::NAT_DNAT);
        w.be32(2, u32::from(nf::family(if ipv6 { Family::Ip6 } else { Family::Ip })));
        w.be32(3, register(FIRST_WORD));
        w.be32(5, register(if ipv6 { 4 } else { 1 }));
    });
}

/// In family inet the key says of which family an address is.
pub(in crate::nf_tables) fn nat_is_ipv6(family: Family, key: &[Operand]) -> bool {
    match family {
        Family::Ip => false,
        Family::Ip6 => true,
        Family::Inet => key.iter().any(|part| part.kind() == Type::Ipv6Addr),
    }
}

/// The reject expression's type and code.
pub(in crate::nf_tables) fn port_unreachable(family: Family) -> (u32, u8) {
    match family {
        Family::Ip => (nf::REJECT_ICMP, 3),
        Family::Ip6 => (nf::REJECT_ICMP, 4),
        Family::Inet => (nf::REJECT_ICMPX, 1),
    }
}

fn reject(w: &mut Writer, kind: u32, code: u8) {
    expression(w, "reject", |w| {
        w.be32(1, kind);
        w.attribute(2, &[code]);
    });
}

pub(super) fn data_verdict(w: &mut Writer, attribute: u16, verdict: &Verdict) {
    let (code, chain) = match verdict {
        Verdict::Accept => (nf::ACCEPT, None),
        Verdict::Drop => (nf::DROP, None),
        Verdict::Return => (nf::RETURN, None),
        Verdict::Jump(chain) => (nf::JUMP, Some(chain)),
        Verdict::Goto(chain) => (nf::GOTO, Some(chain)),
    };
    let data = w.nest(attribute);
    let nest = w.nest(nf::DATA_VERDICT);
    w.be32(1, code as u32);
    if let Some(chain) = chain {
        w.string(2, chain);
    }
    w.end_nest(nest);
    w.end_nest(data);
}

fn expression(w: &mut Writer, name: &str, attributes: impl FnOnce(&mut Writer)) {
    let nest = w.nest(nf::LIST_ELEMENT);
    w.string(1, name);
    let data = w.nest(2);
    attributes(w);
    w.end_nest(data);
    w.end_nest(nest);
}
