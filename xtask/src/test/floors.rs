//! The least number of tests a tier may have: `xtask/floors.txt`. Raise a floor with new tests.

use anyhow::{Context, Result};

const FLOORS: &str = include_str!("../../floors.txt");

/// The floor of a tier.
pub(super) fn of(tier: &str) -> Result<u32> {
    rows()
        .find(|(name, _)| *name == tier)
        .with_context(|| format!("no floor for `{tier}` in xtask/floors.txt"))?
        .1
        .parse()
        .with_context(|| format!("the floor of `{tier}` in xtask/floors.txt is no number"))
}

fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    FLOORS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(name, floor)| (name, floor.trim()))
}

#[cfg(test)]
mod tests {
    use super::super::tiers::TIERS;

    #[test]
    fn every_tier_has_a_floor_and_every_floor_a_tier() {
        let named: Vec<_> = super::rows().map(|(name, _)| name).collect();
        let tiers: Vec<_> = TIERS.iter().map(|tier| tier.name).collect();
        assert_eq!(named, tiers);
        for tier in tiers {
            assert!(super::of(tier).unwrap() > 0, "{tier}");
        }
    }
}
