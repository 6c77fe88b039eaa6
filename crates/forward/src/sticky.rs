//! Which endpoint a client gets that has none yet: the same one on every node.
//!
//! A client's address is hashed to a slot, and each slot goes to the endpoint that draws highest for
//! it (rendezvous hashing). So a slot depends on nothing but the set: when an endpoint goes, only its
//! clients move, and one that comes takes its share from all others.

use std::net::IpAddr;

use signpost_plan::Backend;

/// With 10 endpoints each has 102 of them, give or take 10. In the kernel one takes some 130 bytes.
pub(crate) const SLOTS: u32 = 1024;

/// `sign`. Every node must hash alike.
pub(crate) const SEED: u32 = 0x7369_676e;

/// The endpoint of each slot; none of none.
pub(crate) fn slots(backends: &[Backend]) -> Vec<Backend> {
    let keys: Vec<_> = backends.iter().map(|b| (key(b), b)).collect();
    let best = |slot: u32| {
        let draw = |(key, _): &&(u64, &Backend)| mix(key ^ mix(u64::from(slot) + 1));
        // Of two that draw the same the first by address.
        keys.iter().rev().max_by_key(draw).map(|(_, b)| **b)
    };
    (0..SLOTS).filter_map(best).collect()
}

fn key(b: &Backend) -> u64 {
    let octets = match b.address {
        IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
        IpAddr::V6(a) => a.octets(),
    };
    let [high, low] = [&octets[..8], &octets[8..]]
        .map(|half| u64::from_be_bytes(half.try_into().expect("half of 16 bytes are 8")));
    mix(mix(mix(high) ^ low) ^ u64::from(b.port))
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014). Never to change: nodes with another
/// version must choose alike.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backends(count: u8) -> Vec<Backend> {
        let one = |n| Backend { address: [10, 244, 0, n].into(), port: 8080, local: n % 2 == 0 };
        (1..=count).map(one).collect()
    }

    fn share(slots: &[Backend], of: &Backend) -> u32 {
        slots.iter().filter(|b| *b == of).count() as u32
    }

    #[test]
    fn every_endpoint_has_its_share() {
        for count in [1, 2, 3, 10, 30] {
            let all = backends(count);
            let slots = slots(&all);
            assert_eq!(slots.len(), SLOTS as usize);
            let even = SLOTS / u32::from(count);
            for b in &all {
                let share = share(&slots, b);
                assert!(share * 2 > even && share < even * 2, "{share} of {count}");
            }
        }
        assert!(slots(&[]).is_empty());
    }

    #[test]
    fn a_change_of_one_moves_no_more_than_twice_its_share() {
        for count in 2..=30 {
            let all = backends(count);
            let before = slots(&all);
            for gone in 0..all.len() {
                let mut fewer = all.clone();
                fewer.remove(gone);
                let after = slots(&fewer);
                let moved = before.iter().zip(&after).filter(|(b, a)| a != b).count() as u32;
                // Exactly those that it had: read backwards, those that it takes when it comes.
                assert_eq!(moved, share(&before, &all[gone]));
                assert!(moved * u32::from(count) <= 2 * SLOTS, "{moved} of {count}");
            }
        }
    }

    /// Written once, never to be edited: a change here means that two versions disagree.
    #[test]
    fn golden() {
        let slots = slots(&backends(5));
        let hosts: String = slots[..32]
            .iter()
            .map(|b| match b.address {
                IpAddr::V4(a) => char::from(b'0' + a.octets()[3]),
                IpAddr::V6(_) => '?',
            })
            .collect();
        assert_eq!(hosts, "33441433345254144552135243453512");
    }
}
