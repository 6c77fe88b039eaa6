//! Pods on the node's network whose image is ours: the real agent, run as a kubelet would run it.

use std::net::Ipv4Addr;
use std::time::Duration;

use signpost_cluster::{Cluster, Mode};
use signpost_lab::arp;
use signpost_lab::manifest::{Policy, Service, State};

use crate::bed::{Bed, SOON, static_binary};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 120);

/// What answers ARP answers at once.
const ARP: Duration = Duration::from_millis(50);

const DAEMON_SET: &str = r#"
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: signpost}
spec:
  selector: {matchLabels: {app: signpost}}
  template:
    metadata: {labels: {app: signpost}}
    spec:
      hostNetwork: true
      terminationGracePeriodSeconds: 20
      containers:
      - name: agent
        image: registry.test/signpost:latest
        args: [agent, --source, "dir:/manifests", --node, $(NODE), --mesh-key, /mesh/key]
        env:
        - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        securityContext: {capabilities: {drop: [ALL], add: [NET_ADMIN, NET_RAW]}}
        readinessProbe: {exec: {command: [/signpost, status]}, periodSeconds: 1}
        volumeMounts:
        - {name: manifests, mountPath: /manifests}
        - {name: mesh, mountPath: /mesh}
      volumes:
      - {name: manifests, configMap: {name: manifests}}
      - {name: mesh, secret: {secretName: mesh, defaultMode: 0400}}
"#;

pub(crate) fn are_the_real_agent(bed: &Bed) {
    assert!(
        static_binary().is_some(),
        "a Pod has no libraries: SIGNPOST_STATIC must name a static binary, as \
         `cargo xtask test --tier cluster` has it"
    );
    let cluster = bed.cluster(Mode::Nftables);
    let lab = cluster.lab();
    let service = Service {
        name: "ours",
        address: ADDRESS,
        policy: Policy::Local,
        endpoints: vec![("a1", State::Ready), ("b1", State::Ready)],
    };
    lab.write_manifest(&service.file(), &service.yaml(lab.topology())).unwrap();
    let from = |what: &str, from: &std::path::Path| format!("--from-file={what}{}", from.display());
    let manifests = from("", &lab.manifests());
    let key = from("key=", &lab.mesh_key());
    cluster.kubectl(&["create", "configmap", "manifests", &manifests]).unwrap();
    cluster.kubectl(&["create", "secret", "generic", "mesh", &key]).unwrap();
    cluster.kubectl_with(&["create", "-f", "-"], DAEMON_SET).unwrap();
    cluster.kubectl(&["rollout", "status", "daemonset/signpost", "--timeout=60s"]).unwrap();
    let owner = one_owner(&cluster);
    assert!(owner == "node-a" || owner == "node-b", "{owner} has no endpoint");

    // The Pod of the owner is deleted: its controller makes another, and the address has an owner.
    let old = pod_of(&cluster, &owner);
    cluster.kubectl(&["delete", "pod", &old]).unwrap();
    lab.wait_until("the DaemonSet has a new Pod there", SOON, || {
        let now = pod_of(&cluster, &owner);
        !now.is_empty() && now != old
    })
    .unwrap();
    cluster.kubectl(&["rollout", "status", "daemonset/signpost", "--timeout=60s"]).unwrap();
    let owner = one_owner(&cluster);
    assert!(owner == "node-a" || owner == "node-b", "{owner} has no endpoint");

    cluster
        .kubectl(&["delete", "daemonset/signpost", "configmap/manifests", "secret/mesh"])
        .unwrap();
    lab.wait_until("nobody owns it", SOON, || owners(&cluster).is_empty()).unwrap();
    lab.remove_manifest(&service.file()).unwrap();
}

fn one_owner(cluster: &Cluster) -> String {
    let mut found = None;
    cluster
        .lab()
        .wait_until("one node owns the address", SOON, || {
            if let [one] = &owners(cluster)[..] {
                found = Some(one.clone());
            }
            found.is_some()
        })
        .unwrap();
    found.unwrap()
}

/// Who answers the client's ARP.
fn owners(cluster: &Cluster) -> Vec<String> {
    let (lab, t) = (cluster.lab(), cluster.lab().topology());
    let client = lab.namespace("client").unwrap();
    let macs = arp::who_has(&client, t.clients[0].address, ADDRESS, ARP).unwrap();
    let answering = t.nodes.iter().filter(|n| macs.iter().any(|m| m.to_string() == n.mac()));
    answering.map(|n| n.name.clone()).collect()
}

fn pod_of(cluster: &Cluster, node: &str) -> String {
    let at = format!("--field-selector=spec.nodeName={node}");
    let output = "jsonpath={.items[*].metadata.name}";
    cluster.kubectl(&["get", "pods", "-l", "app=signpost", &at, "-o", output]).unwrap()
}
