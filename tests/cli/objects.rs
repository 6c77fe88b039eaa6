//! Objects that cannot be had as they are written: what is served, and what is said.

use crate::bed::{Bed, VIP, address, diagnostics};

fn service(name: &str, address: &str, created: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\n\
         metadata: {{name: {name}, namespace: demo, creationTimestamp: {created:?}}}\n\
         spec:\n  type: LoadBalancer\n  loadBalancerIP: {address}\n  ports:\n\
         \x20 - {{name: p, port: 80, protocol: TCP}}\n"
    )
}

fn said(bed: &Bed, node: &str, words: &[&str]) {
    bed.until(node, &words.join(" "), |s| {
        let all = diagnostics(s);
        all.lines().any(|line| words.iter().all(|w| line.contains(w)))
    });
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let bed = Bed::new();
    let (_a, _b) = (bed.owner("node-a", &[]), bed.agent("node-b", &[]));
    bed.write_manifest("far.yaml", &service("far", "10.9.9.9", "2026-01-01T00:00:00Z")).unwrap();
    said(
        &bed,
        "node-a",
        &["far.yaml:1:1", "Service demo/far", "10.9.9.9 lies in no IPAddressPool"],
    );
    bed.write_manifest("twice.yaml", &service("far", "192.0.2.109", "2026-01-01T00:00:00Z"))
        .unwrap();
    said(
        &bed,
        "node-a",
        &["twice.yaml:1:1", "Service demo/far", "far.yaml:1:1", "that one counts"],
    );
    let pool = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\n\
                metadata: {name: more, namespace: metallb-system}\nspec: {addresses: [192.0.2.100/32]}\n";
    bed.write_manifest("more.yaml", pool).unwrap();
    said(&bed, "node-a", &["IPAddressPool more", "IPAddressPool lab", "pool.yaml:1:1"]);
    let other = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n";
    bed.write_manifest("other.yaml", other).unwrap();
    said(&bed, "node-a", &["other.yaml:1:1", "apps/v1 Deployment", "not read"]);
    // What was asked for in vain goes with its objects, whatever else goes with it.
    for file in ["far.yaml", "twice.yaml", "more.yaml", "other.yaml"] {
        bed.remove_manifest(file).unwrap();
    }
    let status = bed.until("node-a", "nothing is wrong", |s| diagnostics(s).is_empty());
    assert_eq!(status["addresses"].as_array().unwrap().len(), 1, "{status:#}");
    assert_eq!(address(&status, VIP)["verdict"], "own");
}

#[test]
fn the_older_of_two_services_has_a_port_everywhere() {
    let bed = Bed::new();
    let _agents = (bed.owner("node-a", &[]), bed.agent("node-b", &[]));
    bed.write_manifest("young.yaml", &service("aaa", VIP, "2026-01-01T00:00:00Z")).unwrap();
    bed.write_manifest("old.yaml", &service("zzz", VIP, "2020-01-01T00:00:00Z")).unwrap();
    for node in ["node-a", "node-b"] {
        let words = [
            "young.yaml:1:1",
            "Service demo/aaa",
            "192.0.2.100:80/TCP",
            "demo/zzz",
            "old.yaml:1:1",
        ];
        said(&bed, node, &words);
    }
}

#[test]
fn a_file_that_stops_parsing_is_served_as_it_was() {
    let bed = Bed::new();
    let _agent = bed.owner("node-a", &[]);
    let file = bed.manifests().join("service-web.yaml");
    let good = std::fs::read_to_string(&file).unwrap();
    bed.write_manifest("service-web.yaml", &good.replacen("name: web", "name: [web", 1)).unwrap();
    let broken = "service-web.yaml:";
    bed.until("node-a", "the place", |s| diagnostics(s).contains(broken));
    let status = bed.status("node-a").unwrap();
    let d = &status["diagnostics"][0];
    assert!(d["line"].as_u64() > Some(1) && d["column"].as_u64() > Some(0), "{d}");
    assert_eq!(address(&status, VIP)["verdict"], "own");
    assert_eq!(address(&status, VIP)["acknowledged"], true);
    bed.write_manifest("service-web.yaml", &good).unwrap();
    bed.until("node-a", "mended", |s| diagnostics(s).is_empty());
}
