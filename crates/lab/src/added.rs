//! Pods that come and go while a lab is up: a cluster's own, beside those of the topology.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::lab::await_server;
use crate::topology::Pod;
use crate::{Error, Lab, Namespace, namespace, process, wiring};

/// A file name has 255 bytes at most, and the lab's prefix is part of it.
const NAME_MAX: usize = 200;

/// A pod to add.
#[derive(Clone, Debug)]
pub struct Added<'a> {
    /// Its name: a DNS name that no other member has.
    pub name: &'a str,
    /// Its node.
    pub node: &'a str,
    /// Its address, in its node's subnet for pods.
    pub address: Ipv4Addr,
    /// Its address in IPv6, in its node's subnet of that family.
    pub ipv6: Option<Ipv6Addr>,
    /// The ports that it serves, TCP and UDP.
    pub ports: &'a [u16],
    /// What it says that it is.
    pub says: &'a str,
}

impl Lab {
    /// Adds a pod, and waits until it serves. On failure nothing is left of it.
    pub fn add_pod(&self, added: &Added<'_>) -> Result<(), Error> {
        let node = self.node(added.node)?;
        let fault = |m: String| Err(Error::Topology(format!("pod {}: {m}", added.name)));
        if !is_dns_name(added.name) {
            return fault(format!("its name is not 1 to {NAME_MAX} of a-z, 0-9, '-' and '.'"));
        }
        if self.namespace(added.name).is_ok() {
            return fault("the lab has a member of this name already".to_owned());
        }
        if !node.pod_cidr.contains(&added.address) || added.address == node.gateway() {
            return fault(format!("{} is no pod's address in {}", added.address, node.pod_cidr));
        }
        if let Some(v6) = added.ipv6
            && !node.pod_cidr6.is_some_and(|cidr| cidr.contains(&v6))
        {
            let cidr = node.pod_cidr6.map_or("no subnet".to_owned(), |cidr| cidr.to_string());
            return fault(format!("{v6} is no pod's address in {cidr}"));
        }
        let pod = Pod { name: added.name.to_owned(), address: added.address, ipv6: added.ipv6 };
        let up = wiring::add_pod(&self.name(), node, &pod).and_then(|()| {
            let server = self.spawn_server(added.name, &node.name, added.says, added.ports)?;
            await_server(added.name, server)
        });
        if up.is_err() {
            // What failed is told; that not all of it was there is no news.
            let _ = self.remove_pod(added.name);
        }
        up
    }

    /// Ends a pod that was added, with its servers and its cable.
    pub fn remove_pod(&self, pod: &str) -> Result<(), Error> {
        let added = self.added_pods();
        if !added.iter().any(|p| p == pod) {
            let known = added.iter().map(String::as_str);
            return Err(self.unknown(&format!("added pod {pod}"), known));
        }
        let name = self.name().namespace(pod);
        let ns = Namespace::open(&name)?;
        process::end(&BTreeSet::from([ns.inode()?]))?;
        // A namespace goes some time after its name, and its cable with it; the next pod of this
        // address needs the cable's name now. One that was never wired has none.
        let _ = ns.ip("link del eth0\n");
        namespace::change("del", &[name])
    }

    /// The pods that were added.
    pub fn added_pods(&self) -> Vec<String> {
        let prefix = self.name().prefix();
        let members = self.topology().members();
        namespace::with_prefix(&prefix)
            .into_iter()
            .filter_map(|ns| Some(ns.strip_prefix(&prefix)?.to_owned()))
            .filter(|member| !members.contains(&member.as_str()))
            .collect()
    }
}

fn is_dns_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}
