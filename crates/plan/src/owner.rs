//! Weighted rendezvous: every member of a segment picks the same one for an address.
//!
//! Two versions of the program may run side by side, so nothing here may ever change its result:
//! the keys, the order of the bytes and the logarithm are fixed, and no floating point is used.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use siphasher::sip::SipHasher24;

use crate::{FULL_WEIGHT, NodeName};

/// The members that can serve an address, with their weights.
pub type Members = BTreeMap<NodeName, Member>;

/// What a member offers for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// From [`FULL_WEIGHT`] up it is a share. Below it is a rank: that member owns only if none of
    /// a higher rank is there (it serves a part of the address; 0: drained, or with terminating
    /// endpoints only).
    pub weight: u16,
}

/// The member that should own an address.
pub fn owner(a: IpAddr, members: &Members) -> Option<NodeName> {
    let drawn = members.iter().map(|(name, m)| (Draw::new(a, name), m.weight, name));
    let best = drawn.reduce(|best, next| match Draw::order((best.0, best.1), (next.0, next.1)) {
        Ordering::Greater => next,
        // Names are in order: of two that draw the same, the first in the alphabet.
        Ordering::Less | Ordering::Equal => best,
    });
    best.map(|(_, _, name)| name.clone())
}

/// A node's lot for an address: -log2 of a hash in (0, 1), in 2^-32ths. To be kept beside the pair,
/// since it depends on nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Draw(u64);

/// "signpost" and "rendezvo", big-endian. Never to change.
const KEYS: (u64, u64) = (0x7369_676e_706f_7374, 0x7265_6e64_657a_766f);

impl Draw {
    /// The lot of a node for an address; an IPv4 address as ::ffff:a.b.c.d.
    pub fn new(a: IpAddr, node: &NodeName) -> Self {
        let mapped: Ipv6Addr = match a {
            IpAddr::V4(a) => a.to_ipv6_mapped(),
            IpAddr::V6(a) => a,
        };
        let mut bytes = Vec::with_capacity(16 + node.0.len());
        bytes.extend_from_slice(&mapped.octets());
        bytes.extend_from_slice(node.0.as_bytes());
        Self(minus_log2(SipHasher24::new_with_keys(KEYS.0, KEYS.1).hash(&bytes)))
    }

    /// `Less`: the left one owns. Ranks come first; among shares w each is chosen with a probability
    /// of w over their sum, and a change of one member moves only what that member gains or loses.
    pub fn order(left: (Self, u16), right: (Self, u16)) -> Ordering {
        let ((l, lw), (r, rw)) = (left, right);
        let rank = |weight: u16| weight.min(FULL_WEIGHT);
        let share = |weight: u16| u128::from(weight.max(FULL_WEIGHT));
        // l / lw <=> r / rw
        let by_lot = || (u128::from(l.0) * share(rw)).cmp(&(u128::from(r.0) * share(lw)));
        rank(rw).cmp(&rank(lw)).then_with(by_lot)
    }
}

/// -log2((h + 1) / 2^64) in 2^-32ths, rounded up; 0 only for the largest hash.
fn minus_log2(hash: u64) -> u64 {
    const FRACTION: u32 = 32;
    let x = u128::from(hash) + 1;
    let whole = x.ilog2();
    // The mantissa in [1, 2), as a number of 63 binary places; squaring it yields a bit a time.
    let mut mantissa = if whole >= 63 { x >> (whole - 63) } else { x << (63 - whole) };
    let mut log = u64::from(whole);
    for _ in 0..FRACTION {
        mantissa = (mantissa * mantissa) >> 63;
        log <<= 1;
        if mantissa >> 64 != 0 {
            mantissa >>= 1;
            log |= 1;
        }
    }
    (64 << FRACTION) - log
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(weights: &[(&str, u16)]) -> Members {
        weights.iter().map(|&(n, weight)| (n.into(), Member { weight })).collect()
    }

    fn addresses(n: u32) -> impl Iterator<Item = IpAddr> {
        (0..n).map(|i| IpAddr::V4((0x0a22_f400 + i).into()))
    }

    fn share(of: &str, m: &Members, n: u32) -> usize {
        addresses(n).filter(|&a| owner(a, m).is_some_and(|o| &*o.0 == of)).count()
    }

    #[test]
    fn the_logarithm_is_right_at_its_corners() {
        for (hash, log) in [
            (u64::MAX, 0),
            ((1 << 63) - 1, 1 << 32),
            ((1 << 62) - 1, 2 << 32),
            (0, 64 << 32),
            // log2(3) = 1.5849625007 of 64 places less, cut to 32 binary places.
            (2, (64 << 32) - 6_807_362_105),
        ] {
            assert_eq!(minus_log2(hash), log, "{hash}");
        }
    }

    /// Written once, never to be edited: a change here means that two versions disagree.
    #[test]
    fn golden() {
        for (address, node, lot) in GOLDEN_DRAWS {
            let a: IpAddr = address.parse().unwrap();
            assert_eq!(Draw::new(a, &node.into()), Draw(lot), "{address} {node}");
        }
        let nodes = members(&[("n1", 1), ("n2", 1), ("n3", 1)]);
        let owners: String =
            addresses(32).map(|a| owner(a, &nodes).unwrap().0.as_bytes()[1] as char).collect();
        assert_eq!(owners, GOLDEN_OWNERS);
    }

    const GOLDEN_DRAWS: [(&str, &str, u64); 4] = [
        ("10.34.251.210", "n1", 1_178_184_932),
        ("10.34.251.210", "n2", 179_142_378),
        ("192.0.2.1", "worker-0.example.org", 4_593_613_811),
        ("2001:db8::1", "n1", 6_855_737_766),
    ];
    const GOLDEN_OWNERS: &str = "22232223123123122122232322121223";

    #[test]
    fn nobody_owns_what_nobody_serves() {
        assert_eq!(owner([10, 0, 0, 1].into(), &Members::new()), None);
    }

    #[test]
    fn weights_are_shares() {
        let m = members(&[("n1", 100), ("n2", 100), ("n3", 200)]);
        for (node, want) in [("n1", 2500), ("n2", 2500), ("n3", 5000)] {
            let got = share(node, &m, 10_000);
            assert!(got.abs_diff(want) < 200, "{node}: {got}");
        }
    }

    #[test]
    fn without_weight_a_member_gets_nothing_until_nobody_has_one() {
        let m = members(&[("n1", 0), ("n2", 1), ("n3", 0)]);
        assert_eq!(share("n2", &m, 1000), 1000);
        let m = members(&[("n1", 0), ("n3", 0)]);
        assert!((400..600).contains(&share("n1", &m, 1000)));
    }

    #[test]
    fn who_serves_most_is_preferred_to_who_serves_less() {
        let m = members(&[("n1", 2), ("n2", 1), ("n3", 0)]);
        assert_eq!(share("n1", &m, 1000), 1000);
        let m = members(&[("n1", 2), ("n2", FULL_WEIGHT), ("n3", 99)]);
        assert_eq!(share("n2", &m, 1000), 1000);
    }

    #[test]
    fn only_what_a_lost_member_had_moves() {
        let before = members(&[("n1", 300), ("n2", 100), ("n3", 200)]);
        let after = members(&[("n1", 300), ("n3", 200)]);
        for a in addresses(1000) {
            let had = owner(a, &before);
            if had != Some("n2".into()) {
                assert_eq!(owner(a, &after), had, "{a}");
            }
        }
    }
}
