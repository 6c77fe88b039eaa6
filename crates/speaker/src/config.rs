//! What a speaker is started with.

use std::time::Duration;

use signpost_plan::NodeName;

use crate::mesh::auth::Key;

/// What a speaker is started with.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node.
    pub node: NodeName,
    /// A number that no earlier process of this node had: random.
    pub boot: u64,
    /// What the members share; `None`: datagrams are not authenticated (`--insecure-mesh`).
    pub key: Option<Key>,
    /// A heartbeat each.
    pub interval: Duration,
    /// That many intervals without one and a member is gone.
    pub multiplier: u8,
    /// How long a silent member whose kernel answers keeps what it owns, from its last heartbeat.
    pub grace: Duration,
    /// How long a returning member waits before it takes what hashing gives it.
    pub preempt_delay: Duration,
    /// For nonces and jitter: random, or fixed in a simulation.
    pub seed: u64,
}

impl Config {
    /// With the defaults: 3 x 100 ms, a grace of 1 s, a preempt delay of 10 s.
    pub fn new(node: NodeName, boot: u64, key: Option<Key>, seed: u64) -> Self {
        Self {
            node,
            boot,
            key,
            interval: Duration::from_millis(100),
            multiplier: 3,
            grace: Duration::from_secs(1),
            preempt_delay: Duration::from_secs(10),
            seed,
        }
    }

    /// How long a silent member lives.
    pub fn detection(&self) -> Duration {
        self.interval * u32::from(self.multiplier)
    }

    /// How long a process may stand still and still be believed by the others.
    pub(crate) fn stall_limit(&self) -> Duration {
        self.interval * u32::from(self.multiplier.saturating_sub(1).max(1))
    }
}
