//! Small worlds, dense enough that Services share addresses, endpoints and frontends.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use signpost_plan::{Answer, Asked, Backend, Entry, Frontend, Protocol, Scope, ServiceKey, Table};

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
    (links, nets).prop_map(|(links, nets)| Scope {
        uplinks: links.into_iter().map(Into::into).collect(),
        pod_cidrs: nets.into_iter().map(|net| net.parse().unwrap()).collect(),
        ..Scope::default()
    })
}

fn entry() -> impl Strategy<Value = Entry> {
    let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)];
    (0..3u8, protocol, 80..82u16, btree_set(0..6u8, 0..6), any::<bool>()).prop_map(
        |(vip, protocol, port, backends, local)| {
            let asked = Asked::Vip(Ipv4Addr::new(203, 0, 113, vip).into());
            let frontend = Frontend { asked, protocol, port };
            let cluster = backends.into_iter().map(backend).collect();
            let mut entry = Entry::for_everybody(frontend, cluster);
            if local && !entry.cluster.is_empty() {
                entry.local = entry.cluster.iter().filter(|b| b.local).copied().collect();
                entry.outsiders = if entry.local.is_empty() { Answer::Drop } else { Answer::Local };
            }
            entry
        },
    )
}

fn backend(number: u8) -> Backend {
    let address = Ipv4Addr::new(10, 244, number % 2, number).into();
    Backend { address, port: 8080, local: number.is_multiple_of(2) }
}
