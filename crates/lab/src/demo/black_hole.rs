//! Act 1: keepalived and kube-proxy, as they are found together.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::act::Act;
use crate::probe::{self, Protocol, Target, Verdict};
use crate::stage::VIP;
use crate::{Error, Lab};

/// The Service's NodePort.
const NODE_PORT: u16 = 30080;

/// Longer than a second SYN needs.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Captured from kube-proxy v1.36.3; see `data/demo/README.md`.
const RULES: [(&str, &str); 3] = [
    ("node-a", include_str!("../../data/demo/iptables-node-a.rules")),
    ("node-b", include_str!("../../data/demo/iptables-node-b.rules")),
    ("node-c", include_str!("../../data/demo/iptables-node-c.rules")),
];

/// Plays it in a lab of the built-in topology without agents, and takes it away again.
pub fn black_hole(lab: &Lab) -> Result<Act, Error> {
    let mut act = Act::new(
        1,
        "The black hole: keepalived holds the address where no endpoint is",
        &["from client", "what", "result", "as reported"],
    );
    act.tell(format!(
        "A NodePort Service with externalTrafficPolicy: Local, endpoints on node-b and node-c. The \
         rules\nare kube-proxy's own (v1.36.3, iptables mode). keepalived holds {VIP} on node-a."
    ));
    for (node, rules) in RULES {
        lab.namespace(node)?.command("iptables-restore", &[], rules)?;
    }
    let holder = lab.namespace("node-a")?;
    holder.ip(&format!("addr add {VIP}/32 dev eth0\n"))?;
    let node = |n: &str| lab.node(n).map(|n| n.address);
    let tcp =
        |address: Ipv4Addr, port| Target { address: address.into(), port, protocol: Protocol::Tcp };
    let experiments = [
        (
            Target { address: VIP.into(), port: 0, protocol: Protocol::Ping },
            "ping the address",
            Verdict::Ok,
        ),
        (tcp(node("node-a")?, NODE_PORT), "NodePort of node-a, the holder", Verdict::Timeout),
        (tcp(node("node-b")?, NODE_PORT), "NodePort of node-b", Verdict::Ok),
        (tcp(node("node-c")?, NODE_PORT), "NodePort of node-c", Verdict::Ok),
        (tcp(VIP, NODE_PORT), "NodePort of the address", Verdict::Timeout),
        (tcp(VIP, 80), "port 80 of the address", Verdict::Refused),
    ];
    let targets: Vec<Target> = experiments.iter().map(|(t, ..)| *t).collect();
    let outcomes = probe::run(&lab.namespace("client")?, &targets, PATIENCE)?;
    for ((target, what, expected), outcome) in experiments.iter().zip(&outcomes) {
        let seen = probe::summary(std::slice::from_ref(outcome));
        act.row(
            [
                target.to_string(),
                (*what).to_owned(),
                seen.verdict.to_string(),
                expected.to_string(),
            ],
            seen.verdict == *expected,
        );
    }
    holder.ip(&format!("addr del {VIP}/32 dev eth0\n"))?;
    for (node, _) in RULES {
        lab.namespace(node)?.command("nft", &["flush", "ruleset"], "")?;
    }
    Ok(act)
}
