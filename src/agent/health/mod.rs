//! What load balancers of others ask this node by HTTP, answered as kube-proxy does, byte for byte:
//! `/healthz` and `/livez` on port 10256, and each Service's `healthCheckNodePort`.

use std::time::{Duration, Instant};

use signpost_plan::HealthCheck;

mod answer;
mod server;

pub(crate) use server::Servers;

/// kube-proxy's `--healthz-bind-address`.
const HEALTHZ_PORT: u16 = 10_256;

/// Twice kube-proxy's `--sync-period`: changes that the kernel has not got by then mean that this
/// node is not healthy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Control tells how it is at least so often; who is silent for longer than [`PATIENCE`] hangs.
pub(crate) const TOLD_EVERY: Duration = Duration::from_secs(10);

/// How this node is, as control tells.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    /// The Services' health checks.
    pub(crate) checks: Vec<HealthCheck>,
    /// The Node is there, and no autoscaler is about to delete it.
    pub(crate) node_eligible: bool,
    /// When the kernel last took changes.
    pub(crate) updated: jiff::Timestamp,
    /// Since when the kernel lacks something.
    pub(crate) pending_since: Option<Instant>,
    /// When this was told.
    pub(crate) told: Instant,
}

impl Health {
    fn is_healthy(&self, now: Instant) -> bool {
        let waited = |since: Instant| now.saturating_duration_since(since) > PATIENCE;
        !waited(self.told) && !self.pending_since.is_some_and(waited)
    }
}
