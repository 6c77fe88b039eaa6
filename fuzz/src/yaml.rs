//! A manifest, through everything that is decided from it.

use signpost_plan::world::Forwarding;
use signpost_plan::{
    Observed, World, diagnostics, eligible, explain, health_checks, scope, table, unserved,
};

/// Parses a file, puts its objects into a world, and decides all there is to decide.
pub fn yaml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let parsed = signpost_api::parse("fuzz.yaml", text);
    let mut world = World::new("n1".into());
    for object in parsed.objects {
        world.apply(object.into_change());
    }
    let observed = Observed::default();
    for forwarding in [Forwarding::All, Forwarding::Vip] {
        world.set_forwarding(forwarding);
        for service in world.services() {
            let _ = table(&world, &service.key, &"n1".into());
        }
        let _ = (health_checks(&world), scope(&world));
    }
    for address in world.addresses() {
        let _ = eligible(&world, &observed, address);
        let _ = explain(&world, &observed, address);
        let _ = unserved(&world, address);
    }
    for diagnostic in parsed.diagnostics.into_iter().chain(diagnostics(&world)) {
        assert!(!diagnostic.to_string().is_empty());
    }
}
