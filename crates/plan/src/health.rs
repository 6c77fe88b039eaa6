//! What load balancers of others ask each node about a Service.

use crate::table::ready_here;
use crate::world::{Forwarding, ServiceKind, TrafficPolicy};
use crate::{ServiceKey, World};

/// A port by which a load balancer learns whether this node serves a Service's outsiders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// `spec.healthCheckNodePort`.
    pub port: u16,
    /// The Service.
    pub service: ServiceKey,
    /// How many of its endpoints are ready here; 0: no more connections.
    pub ready_here: usize,
}

/// The health checks to answer here: of LoadBalancer Services under `externalTrafficPolicy: Local`,
/// whoever balances them. Where another proxy forwards, it answers.
pub fn health_checks(w: &World) -> Vec<HealthCheck> {
    match w.forwarding() {
        Forwarding::Vip => return Vec::new(),
        Forwarding::All => {}
    }
    let asked = w.services().filter(|s| {
        s.proxied
            && s.kind == ServiceKind::LoadBalancer
            && s.external_policy == TrafficPolicy::Local
    });
    let check = |s: &crate::world::Service| {
        let ready_here = ready_here(w, s, w.this_node());
        Some(HealthCheck { port: s.health_check_port?, service: s.key.clone(), ready_here })
    };
    asked.filter_map(check).collect()
}
