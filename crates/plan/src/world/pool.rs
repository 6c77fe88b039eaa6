//! metallb.io/v1beta1 IPAddressPool and L2Advertisement.

use std::collections::BTreeMap;
use std::net::IpAddr;

use signpost_report::Span;

use super::{Touched, World};

/// A metallb.io/v1beta1 IPAddressPool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// `metadata.name`.
    pub name: Box<str>,
    /// Where it was written.
    pub span: Option<Span>,
    /// The labels, for an advertisement's selectors.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Inclusive ranges, first and last of one family.
    pub ranges: Vec<(IpAddr, IpAddr)>,
}

/// A metallb.io/v1beta1 L2Advertisement. Selectors are a disjunction; none selects everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct L2Advertisement {
    /// `metadata.name`.
    pub name: Box<str>,
    /// Where it was written.
    pub span: Option<Span>,
    /// `ipAddressPools`.
    pub pools: Vec<Box<str>>,
    /// `ipAddressPoolSelectors`.
    pub pool_selectors: Vec<LabelSelector>,
    /// `nodeSelectors`.
    pub node_selectors: Vec<LabelSelector>,
    /// `interfaces`.
    pub interfaces: Vec<Box<str>>,
}

/// A meta/v1 LabelSelector: all requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(pub Vec<Requirement>);

/// One requirement of a [`LabelSelector`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The label has one of the values (`matchLabels` is the case of one).
    In(Box<str>, Vec<Box<str>>),
    /// It has none of them, or is absent.
    NotIn(Box<str>, Vec<Box<str>>),
    /// It is there.
    Exists(Box<str>),
    /// It is not.
    DoesNotExist(Box<str>),
}

impl Pool {
    /// Whether an address lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&address))
    }
}

impl L2Advertisement {
    /// Whether it is for a pool: by name, by a selector, or because it names none.
    pub fn selects_pool(&self, pool: &Pool) -> bool {
        (self.pools.is_empty() && self.pool_selectors.is_empty())
            || self.pools.contains(&pool.name)
            || self.pool_selectors.iter().any(|s| s.matches(&pool.labels))
    }

    /// Whether it is for a node with these labels: by any selector, or because it has none.
    pub fn selects_node(&self, labels: &BTreeMap<Box<str>, Box<str>>) -> bool {
        self.node_selectors.is_empty() || self.node_selectors.iter().any(|s| s.matches(labels))
    }
}

impl LabelSelector {
    /// Whether all requirements hold.
    pub fn matches(&self, labels: &BTreeMap<Box<str>, Box<str>>) -> bool {
        self.0.iter().all(|r| match r {
            Requirement::In(key, values) => labels.get(key).is_some_and(|v| values.contains(v)),
            Requirement::NotIn(key, values) => !labels.get(key).is_some_and(|v| values.contains(v)),
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::DoesNotExist(key) => !labels.contains_key(key),
        })
    }
}

impl World {
    /// Adds or replaces a pool.
    pub fn set_pool(&mut self, pool: Pool) -> Touched {
        let same = |old: Pool| Pool { span: pool.span.clone(), ..old } == pool;
        let same = self.pools.get(&pool.name).cloned().is_some_and(same);
        self.pools.insert(pool.name.clone(), pool);
        if same { Touched::default() } else { Touched::everything() }
    }

    /// Removes a pool.
    pub fn remove_pool(&mut self, name: &str) -> Touched {
        self.pools.remove(name).map_or_else(Touched::default, |_| Touched::everything())
    }

    /// Adds or replaces an L2Advertisement.
    pub fn set_advertisement(&mut self, ad: L2Advertisement) -> Touched {
        let same = |old: L2Advertisement| L2Advertisement { span: ad.span.clone(), ..old } == ad;
        let same = self.advertisements.get(&ad.name).cloned().is_some_and(same);
        self.advertisements.insert(ad.name.clone(), ad);
        if same { Touched::default() } else { Touched::everything() }
    }

    /// Removes an L2Advertisement.
    pub fn remove_advertisement(&mut self, name: &str) -> Touched {
        self.advertisements.remove(name).map_or_else(Touched::default, |_| Touched::everything())
    }
}
