//! Small worlds, dense enough that Services share addresses, endpoints and frontends.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use signpost_plan::world::Affinity;
use signpost_plan::{
    Answer, Asked, Backend, Entry, Family, Frontend, Protocol, Scope, ServiceKey, Sources, Table,
};

pub(crate) fn key(number: u8) -> ServiceKey {
    ServiceKey { namespace: "default".into(), name: format!("s{number}").into() }
}

/// Tables by Service, such that no two have the same frontend.
pub(crate) fn tables() -> impl Strategy<Value = BTreeMap<ServiceKey, Table>> {
    vec((0..4u8, entry()), 0..8).prop_map(|entries| {
        let mut tables: BTreeMap<ServiceKey, Table> = BTreeMap::new();
        let mut taken = std::collections::BTreeSet::new();
        for (service, entry) in entries {
            if taken.insert(entry.frontend) {
                let service = key(service);
                let empty = Table { service: service.clone(), entries: Vec::new() };
                tables.entry(service).or_insert(empty).entries.push(entry);
            }
        }
        for table in tables.values_mut() {
            table.entries.sort_by_key(|e| e.frontend);
        }
        tables
    })
}

pub(crate) fn scope() -> impl Strategy<Value = Scope> {
    let links = prop::sample::subsequence(vec!["eth0", "eth1", "eth2"], 0..=3);
    let nets =
        vec!["10.244.0.0/24", "10.244.1.0/24", "10.244.0.0/16", "10.9.0.7/32", "10.9.0.8/32"];
    let nets = prop::sample::subsequence(nets, 0..=5);
    let nodes = prop::sample::subsequence(vec!["0.0.0.0/1", "128.0.0.0/1", "::/0"], 0..=3);
    (links, nets, nodes).prop_map(|(links, nets, nodes)| Scope {
        uplinks: links.into_iter().map(Into::into).collect(),
        pod_cidrs: nets.into_iter().map(|net| net.parse().unwrap()).collect(),
        node_ports: nodes.into_iter().map(|net| net.parse().unwrap()).collect(),
    })
}

fn entry() -> impl Strategy<Value = Entry> {
    let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)];
    let frontend = (asked(), protocol, 80..82u16).prop_map(|(asked, protocol, port)| Frontend {
        asked,
        protocol,
        port,
    });
    // Sticky ones have 1024 elements.
    let affinity = prop_oneof![
        12 => Just(Affinity::None),
        1 => (1..3u32).prop_map(|timeout_s| Affinity::ClientIp { timeout_s }),
    ];
    let answers = (any::<bool>(), any::<bool>());
    (frontend, btree_set(0..6u8, 0..6), answers, affinity, sources()).prop_map(
        |(frontend, backends, (outsiders, everybody), affinity, sources)| {
            let cluster = backends.into_iter().map(|n| backend(frontend.family(), n)).collect();
            let mut entry = Entry::for_everybody(frontend, cluster);
            entry.affinity = affinity;
            if entry.cluster.is_empty() {
                return entry;
            }
            let local: Vec<_> = entry.cluster.iter().filter(|b| b.local).copied().collect();
            let answer = if local.is_empty() { Answer::Drop } else { Answer::Local };
            if outsiders || everybody {
                (entry.local, entry.outsiders) = (local, answer);
            }
            if everybody {
                (entry.pods, entry.processes) = (answer, answer);
            }
            if let (Asked::Vip(_), Family::V4, Some(nets)) =
                (frontend.asked, frontend.family(), sources)
            {
                entry.sources = Sources::Only(nets.into());
                entry.processes = Answer::Drop;
            }
            entry
        },
    )
}

fn asked() -> impl Strategy<Value = Asked> {
    let v4 = |n: u8| Ipv4Addr::new(203, 0, 113, n).into();
    let v6 = |n: u8| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n.into()).into();
    prop_oneof![
        4 => (0..3u8).prop_map(move |n| Asked::Vip(v4(n))),
        1 => (0..3u8).prop_map(move |n| Asked::Vip(v6(n))),
        // No address is both.
        2 => (10..12u8).prop_map(move |n| Asked::ClusterIp(v4(n))),
        1 => Just(Asked::NodePort(Family::V4)),
        1 => Just(Asked::NodePort(Family::V6)),
    ]
}

/// Some inside others of the other choices.
fn sources() -> impl Strategy<Value = Option<Vec<IpNet>>> {
    let net = |text: &str| text.parse().unwrap();
    prop_oneof![
        6 => Just(None),
        1 => Just(Some(vec![net("10.0.0.0/8")])),
        1 => Just(Some(vec![net("10.1.0.0/16"), net("192.0.2.7/32")])),
    ]
}

fn backend(family: Family, number: u8) -> Backend {
    let address = match family {
        Family::V4 => Ipv4Addr::new(10, 244, number % 2, number).into(),
        Family::V6 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()).into(),
    };
    Backend { address, port: 8080, local: number.is_multiple_of(2) }
}
