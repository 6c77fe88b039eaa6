//! A cluster's state as files.

use signpost_cluster::{Mode, snapshot};

use crate::bed::Bed;

pub(crate) fn has_what_a_case_has(bed: &Bed) {
    let cluster = bed.cluster(Mode::Nftables);
    let folder = cluster.lab().directory().join("snapshot");
    let count = snapshot::write(&cluster, &folder).unwrap();
    let read = |file: &str| {
        std::fs::read_to_string(folder.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
    };
    assert!(read("cluster/services.yaml").contains("name: kubernetes"));
    assert!(read("cluster/nodes.yaml").contains("podCIDR: 198.19.3.0/24"));
    for node in ["node-a", "node-b", "node-c"] {
        let of_node = |file: &str| read(&format!("nodes/{node}/{file}"));
        assert!(of_node("nft-list-ruleset.txt").contains("table ip kube-proxy"), "{node}");
        assert!(of_node("nft-list-ruleset.json").starts_with("{\"nftables\""), "{node}");
        assert!(of_node("ip-addr.txt").contains("192.0.2.1"), "{node}");
        assert!(!of_node("ip-addr.txt").contains("signpost-lab"), "{node} names our namespaces");
        assert!(of_node("ip-route-main.txt").contains("default via 192.0.2.1"), "{node}");
        assert!(of_node("ip-rule.txt").contains("lookup main"), "{node}");
        assert!(of_node("sysctl.txt").contains("net.ipv4.ip_forward = 1"), "{node}");
        assert!(of_node("kube-proxy-configz.json").contains("\"mode\":\"nftables\""), "{node}");
        assert!(of_node("kube-proxy-healthz.txt").contains("\"healthy\":true"), "{node}");
    }
    assert!(read("cluster/kube-proxy.yaml").contains("mode: nftables"));
    assert!(read("nodes/node-a/kube-proxy-cmdline.txt").contains("--proxy-mode=nftables"));
    assert!(read("probe/client-ip-route.txt").contains("default via 192.0.2.1"));
    assert!(read("source.txt").contains("v1.36.3"));
    assert!(count > 60, "{count} files");
    // What is there is not overwritten.
    let again = snapshot::write(&cluster, &folder).unwrap_err().to_string();
    assert!(again.contains("name a new folder"), "{again}");
}
