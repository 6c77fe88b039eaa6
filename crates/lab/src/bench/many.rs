//! One node with many Services: its memory, and the time of one change.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};

use super::{Figure, percentile};
use crate::error::At;
use crate::{Error, LabName, Namespace, Options, Scoped, Topology};

/// Endpoints of each Service.
const ENDPOINTS: u8 = 10;

/// The large cluster and the small one.
const MANY: u16 = 10_000;
const FEW: u16 = 1_000;

/// Where the endpoints of [`yaml`] lie.
const PODS: &str = "10.128.0.0/12";

/// One change after the other; enough for a p99.
const CHANGES: u16 = 300;

/// A status of 10,000 addresses is work: it is asked after every fifth change. Not after the first,
/// which pays once for memory that was given back after the load (15 ms at 10,000 Services).
const ASK_EVERY: u16 = 5;

/// Reading, planning and writing it all, on a machine that does something else as well.
const SYNCED: Duration = Duration::from_secs(120);

/// A change that is not acknowledged by then never will be.
const CHANGED: Duration = Duration::from_secs(20);

/// linux/netfilter/nfnetlink.h: `1 << (NFNLGRP_NFTABLES - 1)`.
const NFTABLES_GROUP: u32 = 1 << 6;

/// The agent's memory with 1,000 and 10,000 Services; the baseline is the agent with none.
pub fn rss(name: &LabName, program: PathBuf) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    let (mut base, _) = (0, 0);
    for count in [0, FEW, MANY] {
        let lab = crowded(name, program.clone(), count)?;
        let pid = lab.agent_process("node-a").unwrap_or_default();
        let file = format!("/proc/{pid}/status");
        let text = std::fs::read_to_string(&file).at(|| file.clone())?;
        let kib = |key: &str| -> u64 {
            let line = text.lines().find_map(|l| l.strip_prefix(key));
            line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or_default()
        };
        let (now, peak) = (kib("VmRSS:"), kib("VmHWM:"));
        if count == 0 {
            base = now;
        }
        let mb = |kib: u64| kib as f64 / 1024.0;
        figures.push(
            Figure::new(
                format!("memory at {count} Services x {ENDPOINTS}"),
                format!("{:.1} MB, peak {:.1} MB", mb(now), mb(peak)),
            )
            .against(now as f64 / base.max(1) as f64, "no Service at all"),
        );
    }
    Ok(figures)
}

/// One endpoint changes at 10,000 Services; the baseline is the same at 1,000.
pub fn change(name: &LabName, program: PathBuf) -> Result<Vec<Figure>, Error> {
    let mut figures: Vec<Figure> = Vec::new();
    let mut base = None;
    for count in [FEW, MANY] {
        let lab = crowded(name, program.clone(), count)?;
        let events = rule_events(&lab.namespace("node-a")?)?;
        let mut files = Vec::new();
        let mut inside = Vec::new();
        for n in 0..CHANGES {
            drained(&events);
            let service = n * (count / CHANGES).max(1);
            // One endpoint goes, and comes back when the Service is met again.
            lab.write_manifest(&file(service), &yaml(service, ENDPOINTS - 1))?;
            let written = Instant::now();
            if !readable(&events, CHANGED) {
                return Err(Error::Deadline {
                    what: format!("the kernel hears of {}", file(service)),
                    seconds: CHANGED.as_secs(),
                });
            }
            files.push(written.elapsed());
            if n % ASK_EVERY == ASK_EVERY - 1
                && let Some(us) = lab.status("node-a")?["rules"]["last_change_us"].as_u64()
            {
                inside.push(Duration::from_micros(us));
            }
        }
        let figure = |what: &str, values: &[Duration]| {
            let (half, most) = (percentile(values, 50), percentile(values, 99));
            let ms = |d: Duration| d.as_secs_f64() * 1000.0;
            let measured = format!("p50 {:.2} ms, p99 {:.2} ms", ms(half), ms(most));
            (Figure::new(format!("{count} Services, {what}"), measured), most.as_secs_f64())
        };
        let made = [
            figure("file written -> rules in the kernel", &files),
            figure("event in memory -> acknowledged", &inside),
        ];
        match base {
            None => {
                base = Some(made.clone().map(|(_, seconds)| seconds));
                figures.extend(made.map(|(f, _)| f));
            }
            Some(base) => figures.extend(made.into_iter().zip(base).map(|((f, s), b)| {
                f.against(s / b.max(f64::MIN_POSITIVE), "the p99 at 1,000 Services")
            })),
        }
    }
    Ok(figures)
}

/// A lab of one node whose agent serves so many Services.
fn crowded(name: &LabName, program: PathBuf, count: u16) -> Result<Scoped, Error> {
    let mut topology = Topology::of_nodes(1);
    topology.pool = "10.64.0.0-10.64.255.255".to_owned();
    // As a cluster's `podCIDRs` say it: endpoints outside all ranges are pods one by one.
    let agent_args = ["--pod-cidr", PODS].map(str::to_owned).into();
    let options = Options { program, agents: false, agent_args };
    let mut lab = Scoped::up(name, topology, options)?;
    for n in 0..count {
        lab.write_manifest(&file(n), &yaml(n, ENDPOINTS))?;
    }
    lab.start_agents(&["node-a".to_owned()])?;
    lab.wait_until("every address is owned", SYNCED, || {
        lab.status("node-a").is_ok_and(|s| {
            let addresses = s["addresses"].as_array().map_or(&[][..], Vec::as_slice);
            addresses.len() == usize::from(count) && addresses.iter().all(|a| a["verdict"] == "own")
        })
    })?;
    Ok(lab)
}

fn file(n: u16) -> String {
    format!("s{n}.yaml")
}

/// A Service and its slice; the endpoints need not exist.
fn yaml(n: u16, endpoints: u8) -> String {
    let [high, low] = n.to_be_bytes();
    let address = Ipv4Addr::new(10, 64, high, low);
    let mut text = format!(
        "apiVersion: v1
kind: Service
metadata: {{name: s{n}, namespace: demo}}
spec:
  type: LoadBalancer
  loadBalancerIP: {address}
  ports:
  - {{name: p, protocol: TCP, port: 80}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: s{n}-1
  namespace: demo
  labels: {{kubernetes.io/service-name: s{n}}}
addressType: IPv4
ports:
- {{name: p, protocol: TCP, port: 8080}}
endpoints:
"
    );
    for k in 0..endpoints {
        let (pod, node) = (Ipv4Addr::new(10, 128 + k, high, low), k % 3);
        let node = ["node-a", "node-b", "node-c"][usize::from(node)];
        let _ = writeln!(
            text,
            "- {{addresses: [{pod}], nodeName: {node}, conditions: {{ready: true}}}}"
        );
    }
    text
}

/// Hears of every committed change of a namespace's rules.
fn rule_events(ns: &Namespace) -> Result<OwnedFd, Error> {
    ns.run(|| -> nix::Result<OwnedFd> {
        let events = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_NONBLOCK,
            SockProtocol::NetlinkNetFilter,
        )?;
        bind(events.as_raw_fd(), &NetlinkAddr::new(0, NFTABLES_GROUP))?;
        Ok(events)
    })?
    .at(|| format!("a netlink socket in {}", ns.name()))
}

fn drained(events: &OwnedFd) {
    let mut bytes = [0; 16384];
    while recv(events.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT).is_ok() {}
}

fn readable(events: &OwnedFd, patience: Duration) -> bool {
    let mut fds = [PollFd::new(events.as_fd(), PollFlags::POLLIN)];
    let wait = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    poll(&mut fds, wait).is_ok_and(|n| n > 0)
}
