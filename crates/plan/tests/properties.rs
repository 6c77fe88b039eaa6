//! What holds of every table, whatever the world.
#![allow(clippy::unwrap_used)]

mod cluster;

use cluster::{key, service, slice, world};
use proptest::prelude::*;
use signpost_plan::{Answer, NodeName, Table, table};

const NODES: [&str; 3] = ["a", "b", "c"];

fn endpoint() -> impl Strategy<Value = (String, String, String)> {
    let state =
        prop::sample::select(vec!["ready", "terminating", "draining", "unready", "unknown"]);
    let node = prop::sample::select(vec!["a", "b", "c", "-"]);
    (1u8..4, 2u8..8, node, state).prop_map(|(net, host, node, state)| {
        (format!("198.19.{net}.{host}"), node.into(), state.into())
    })
}

fn slices() -> impl Strategy<Value = Vec<Vec<(String, String, String)>>> {
    prop::collection::vec(prop::collection::vec(endpoint(), 0..8), 0..4)
}

fn yaml(
    policy: &str,
    slices: &[Vec<(String, String, String)>],
    order: impl Iterator<Item = usize>,
) -> String {
    let mut yaml = service("web", policy, &["192.0.2.100"], "2026-01-01T00:00:00Z");
    for i in order {
        let lines: Vec<_> = slices[i].iter().map(|(a, n, s)| format!("{a} {n} {s}")).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        yaml += &slice(&format!("web-{i}"), "web", &lines);
    }
    yaml
}

fn of(yaml: &str, node: &str) -> Table {
    table(&world(node, yaml), &key("web"), &node.into()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tables_hold_what_they_promise(slices in slices(), local in any::<bool>(), node in 0usize..3) {
        let policy = if local { "Local" } else { "Cluster" };
        let (n, node) = (slices.len(), NODES[node]);
        let forward = of(&yaml(policy, &slices, 0..n), node);
        // The order in which objects come does not matter.
        prop_assert_eq!(&forward, &of(&yaml(policy, &slices, (0..n).rev()), node));
        let entry = &forward.entries[0];
        let listed: Vec<_> = slices.iter().flatten().collect();
        let serves = |a: &str| listed.iter().any(|(b, _, s)| a == b && s != "draining" && s != "unready");
        prop_assert!(entry.cluster.is_sorted());
        prop_assert!(entry.cluster.windows(2).all(|w| (w[0].address, w[0].port) != (w[1].address, w[1].port)));
        for b in entry.cluster.iter().chain(&entry.local) {
            prop_assert!(serves(&b.address.to_string()));
            let here = listed.iter().any(|(a, n, _)| *a == b.address.to_string() && n == node);
            prop_assert_eq!(b.local, here);
        }
        match entry.outsiders {
            Answer::Cluster => prop_assert!(!local && !entry.cluster.is_empty()),
            Answer::Refuse => prop_assert!(entry.cluster.is_empty() && entry.pods == Answer::Refuse),
            Answer::Local => {
                prop_assert!(local && !entry.local.is_empty());
                prop_assert!(entry.local.iter().all(|b| b.local) && entry.local.is_sorted());
            }
            Answer::Drop => prop_assert!(local && entry.local.is_empty()),
        }
        // Nobody inside is refused while an endpoint serves, wherever it is.
        if listed.iter().any(|(a, _, _)| undisputed(&listed, a)) {
            prop_assert!(!entry.cluster.is_empty());
        }
    }

    // An endpoint that serves outsiders under Local does so on the node that it is on, and every
    // ready endpoint is reached through some node.
    #[test]
    fn local_sets_cover_the_ready_endpoints(slices in slices()) {
        let yaml = yaml("Local", &slices, 0..slices.len());
        let w = world("a", &yaml);
        let tables: Vec<_> = NODES.iter().map(|n| table(&w, &key("web"), &NodeName::from(*n)).unwrap()).collect();
        let ready = slices.iter().flatten().filter(|(_, n, s)| n != "-" && (s == "ready" || s == "unknown"));
        for (address, node, _) in ready {
            let at = NODES.iter().position(|n| n == node).unwrap();
            let entry = &tables[at].entries[0];
            prop_assert!(entry.backends(entry.outsiders).iter().any(|b| b.address.to_string() == *address));
        }
    }
}

/// Whether every slice that lists an address says that it serves. (A copy on this node that does
/// not serve hides one elsewhere that does, as in kube-proxy.)
fn undisputed(listed: &[&(String, String, String)], address: &str) -> bool {
    let mut copies = listed.iter().filter(|(a, _, _)| a == address).map(|(_, _, s)| s.as_str());
    copies.all(|s| matches!(s, "ready" | "unknown" | "terminating"))
}
