//! Deployments, made by hand as people do, through the real controllers and the real kube-proxy.

use signpost_cluster::{Cluster, Mode};

use crate::bed::{Bed, SOON, await_answers, lead_to, pods_of};

pub(crate) fn is_reached(bed: &Bed, mode: Mode) {
    let cluster = bed.cluster(mode);
    deploy(&cluster, "web", "192.0.2.100");
    let pods = pods_of(&cluster, "web");
    assert_eq!(pods.len(), 2);
    let lab = cluster.lab();
    lead_to(lab, "192.0.2.100", "node-a");
    let (cluster_ip, node_port) =
        (field(&cluster, "clusterIP"), field(&cluster, "ports[0].nodePort"));
    await_answers(lab, "a1", &format!("{cluster_ip}:80/tcp"), &pods);
    await_answers(lab, "client", &format!("192.0.2.12:{node_port}/tcp"), &pods);
    await_answers(lab, "client", "192.0.2.100:80/tcp", &pods);
    await_answers(lab, "remote", &format!("192.0.2.13:{node_port}/tcp"), &pods);
    cluster.kubectl(&["delete", "service,deployment", "web"]).unwrap();
}

pub(crate) fn rolls_over(bed: &Bed) {
    let cluster = bed.cluster(Mode::Nftables);
    let lab = cluster.lab();
    deploy(&cluster, "roll", "192.0.2.101");
    lead_to(lab, "192.0.2.101", "node-b");
    let old = pods_of(&cluster, "roll");
    await_answers(lab, "client", "192.0.2.101:80/tcp", &old);

    // One that is not ready gets nothing.
    let unready = ["annotate", "pod", &old[0], "signpost.test/ready=false"];
    cluster.kubectl(&unready).unwrap();
    await_answers(lab, "client", "192.0.2.101:80/tcp", &old[1..]);
    cluster.kubectl(&["annotate", "pod", &old[0], "signpost.test/ready-"]).unwrap();
    await_answers(lab, "client", "192.0.2.101:80/tcp", &old);

    cluster.kubectl(&["rollout", "restart", "deployment/roll"]).unwrap();
    cluster.kubectl(&["rollout", "status", "deployment/roll", "--timeout=60s"]).unwrap();
    let new = pods_of(&cluster, "roll");
    assert!(new.len() == 2 && new.iter().all(|pod| !old.contains(pod)), "{old:?} then {new:?}");
    await_answers(lab, "client", "192.0.2.101:80/tcp", &new);

    cluster.kubectl(&["delete", "service,deployment", "roll"]).unwrap();
    lab.wait_until("the Pods' namespaces are gone", SOON, || {
        lab.added_pods().iter().all(|pod| !pod.starts_with("roll-"))
    })
    .unwrap();
}

/// Two Pods and a Service of type LoadBalancer, whose address is given as an allocator does it.
fn deploy(cluster: &Cluster, name: &str, address: &str) {
    let run = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        cluster.kubectl(&words).unwrap()
    };
    run(&format!("create deployment {name} --image=web --replicas=2"));
    run(&format!("rollout status deployment/{name} --timeout=60s"));
    run(&format!("expose deployment {name} --type=LoadBalancer --port=80 --target-port=8080"));
    let status = format!(r#"{{"status":{{"loadBalancer":{{"ingress":[{{"ip":"{address}"}}]}}}}}}"#);
    run(&format!("patch service {name} --subresource=status --type=merge -p {status}"));
}

fn field(cluster: &Cluster, path: &str) -> String {
    let output = format!("jsonpath={{.spec.{path}}}");
    cluster.kubectl(&["get", "service", "web", "-o", &output]).unwrap()
}
