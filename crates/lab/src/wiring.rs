//! Links, addresses, routes and sysctls of a lab's namespaces.

mod sysctls;

use std::fmt::Write;
use std::net::IpAddr;

use crate::topology::{CONTROL, Client, Control, Node, Pod, ROUTER, SWITCH, mac};
use crate::{Error, Family, LabName, Namespace, Topology};

/// Builds everything below the processes.
pub(crate) fn wire(name: &LabName, t: &Topology) -> Result<(), Error> {
    let members = t.members();
    let namespaces: Vec<String> = members.iter().map(|m| name.namespace(m)).collect();
    crate::namespace::change("add", &namespaces)?;
    // Before the links: an interface inherits `default` when it comes into being.
    each(&members, |member| {
        let ns = Namespace::open(&name.namespace(member))?;
        let forwards = t.node(member).is_some() || member == ROUTER;
        ns.run(|| sysctls::write(&ns, &t.families(), forwards))?
    })?;
    Namespace::open(&name.namespace(SWITCH))?.ip(&switch(name, t))?;
    if let Some(c) = &t.control {
        Namespace::open(&name.namespace(CONTROL))?.ip(&control(name, t, c))?;
    }
    let nodes: Vec<&str> = t.nodes.iter().map(|n| n.name.as_str()).collect();
    each(&nodes, |node| Namespace::open(&name.namespace(node))?.ip(&node_lines(name, t, node)))?;
    Namespace::open(&name.namespace(ROUTER))?.ip(&router(name, t))?;
    let pods: Vec<&str> =
        t.nodes.iter().flat_map(|n| n.pods.iter().map(|p| p.name.as_str())).collect();
    each(&pods, |pod| {
        let (node, pod) = t.pod(pod).expect("called for the topology's own pods");
        Namespace::open(&name.namespace(&pod.name))?.ip(&inside_pod(node, pod))
    })?;
    for client in t.outsiders() {
        Namespace::open(&name.namespace(&client.name))?.ip(&outsider(t, client))?;
    }
    Ok(())
}

/// Adds a pod to a lab that is up.
pub(crate) fn add_pod(name: &LabName, node: &Node, pod: &Pod) -> Result<(), Error> {
    let netns = name.namespace(&pod.name);
    crate::namespace::change("add", std::slice::from_ref(&netns))?;
    let ns = Namespace::open(&netns)?;
    let families: Vec<Family> = Family::ALL.into_iter().filter(|f| pod.at(*f).is_some()).collect();
    ns.run(|| sysctls::write(&ns, &families, false))??;
    // Of a Pod's name there may be more than an interface's name holds.
    let veth = format!("v-{:08x}", u32::from(pod.address));
    Namespace::open(&name.namespace(&node.name))?.ip(&to_pod(name, node, pod, &veth))?;
    ns.ip(&inside_pod(node, pod))
}

/// Runs `f` for each, on a few threads: most of the time goes to waiting for the kernel.
fn each(members: &[&str], f: impl Fn(&str) -> Result<(), Error> + Sync) -> Result<(), Error> {
    const THREADS: usize = 4;
    std::thread::scope(|s| {
        let share = members.len().div_ceil(THREADS).max(1);
        let started: Vec<_> = members
            .chunks(share)
            .map(|chunk| s.spawn(|| chunk.iter().try_for_each(|m| f(m))))
            .collect();
        started
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn switch(name: &LabName, t: &Topology) -> String {
    let mut lines = "link add br0 type bridge\nlink set br0 up\n".to_owned();
    let router = (ROUTER, t.router);
    let nodes = t.nodes.iter().map(|n| (n.name.as_str(), n.address));
    let clients = t.clients.iter().map(|c| (c.name.as_str(), c.address));
    for (member, address) in std::iter::once(router).chain(nodes).chain(clients) {
        let _ = write!(
            lines,
            "link add {port} type veth peer name eth0 address {} netns {}\n\
             link set {port} master br0 up\n",
            mac(address),
            name.namespace(member),
            port = port(member),
        );
    }
    lines
}

/// The switch's end of a member's cable.
pub(crate) fn port(member: &str) -> String {
    format!("p-{member}")
}

fn node_lines(name: &LabName, t: &Topology, node: &str) -> String {
    let node = t.node(node).expect("called for the topology's own nodes");
    let mut lines = up_with(t, "eth0", |f| Some((node.at(f)?, t.subnets(f)?.segment.prefix_len())));
    for f in t.families() {
        let Some((own, subnets)) = node.at(f).zip(t.subnets(f)) else { continue };
        let _ = writeln!(lines, "route add {} via {}", everywhere(own), subnets.router);
        for other in t.nodes.iter().filter(|o| o.name != node.name) {
            if let (Some(cidr), Some(via)) = (other.pod_subnet(f), other.at(f)) {
                let _ = writeln!(lines, "route add {cidr} via {via} dev eth0");
            }
        }
    }
    if let Some(address) = t.management(node) {
        let length = t.control.as_ref().map_or(32, |c| c.subnet.prefix_len());
        let _ = write!(
            lines,
            "addr add {address}/{length} brd + dev mgmt0\n\
             link set mgmt0 up\n",
        );
    }
    for pod in &node.pods {
        lines.push_str(&to_pod(name, node, pod, &format!("v-{}", pod.name)));
    }
    lines
}

fn outsider(t: &Topology, client: &Client) -> String {
    let on_segment = t.segment.contains(&client.address);
    let side = |f| {
        let s = t.subnets(f)?;
        Some(if on_segment { (s.segment, s.router) } else { (s.behind, s.behind_router) })
    };
    let mut lines = up_with(t, "eth0", |f| Some((client.at(f)?, side(f)?.0.prefix_len())));
    for f in t.families() {
        if let (Some(own), Some((_, router))) = (client.at(f), side(f)) {
            let _ = writeln!(lines, "route add {} via {router}", everywhere(own));
        }
    }
    lines
}

/// Addresses of each family on a link, which goes up.
fn up_with(t: &Topology, link: &str, at: impl Fn(Family) -> Option<(IpAddr, u8)>) -> String {
    let mut lines = "link set lo up\n".to_owned();
    for (address, length) in t.families().into_iter().filter_map(at) {
        let _ = writeln!(lines, "addr add {address}/{length} {} dev {link}", how(address));
    }
    let _ = writeln!(lines, "link set {link} up");
    lines
}

/// IPv6 has no broadcast, and must not wait until nobody else answers for an address.
fn how(address: IpAddr) -> &'static str {
    match Family::of(address) {
        Family::Ipv4 => "brd +",
        Family::Ipv6 => "nodad",
    }
}

fn everywhere(address: IpAddr) -> &'static str {
    match Family::of(address) {
        Family::Ipv4 => "default",
        Family::Ipv6 => "::/0",
    }
}

/// The node's end of a pod's cable, as the CNI plugin `ptp` makes it.
fn to_pod(name: &LabName, node: &Node, pod: &Pod, veth: &str) -> String {
    let mut lines =
        format!("link add {veth} type veth peer name eth0 netns {}\n", name.namespace(&pod.name));
    let both = || Family::ALL.into_iter().filter_map(|f| Some((node.gateway_at(f)?, pod.at(f)?)));
    for (gateway, _) in both() {
        let _ = writeln!(lines, "addr add {} dev {veth}", alone(gateway));
    }
    let _ = writeln!(lines, "link set {veth} up");
    for (gateway, address) in both() {
        let host = Family::of(address).host_len();
        let _ = writeln!(lines, "route add {address}/{host} dev {veth} scope link src {gateway}");
    }
    lines
}

fn inside_pod(node: &Node, pod: &Pod) -> String {
    let mut lines = "link set lo up\n".to_owned();
    let both = || Family::ALL.into_iter().filter_map(|f| Some((node.gateway_at(f)?, pod.at(f)?)));
    for (_, address) in both() {
        let _ = writeln!(lines, "addr add {} dev eth0", alone(address));
    }
    lines.push_str("link set eth0 up\n");
    for (gateway, address) in both() {
        let _ = write!(
            lines,
            "route add {gateway}/{} dev eth0 scope link\n\
             route add {} via {gateway} src {address}\n",
            Family::of(gateway).host_len(),
            everywhere(gateway),
        );
    }
    lines
}

/// An address with nobody else in its subnet.
fn alone(address: IpAddr) -> String {
    match Family::of(address) {
        Family::Ipv4 => format!("{address}/32"),
        Family::Ipv6 => format!("{address}/128 nodad"),
    }
}

fn control(name: &LabName, t: &Topology, c: &Control) -> String {
    let mut lines = format!(
        "link set lo up\n\
         link add br0 type bridge\n\
         addr add {}/{} brd + dev br0\n\
         link set br0 up\n",
        c.address,
        c.subnet.prefix_len()
    );
    for node in &t.nodes {
        let _ = write!(
            lines,
            "link add {port} type veth peer name mgmt0 netns {}\n\
             link set {port} master br0 up\n",
            name.namespace(&node.name),
            port = port(&node.name),
        );
        if let Some(address) = t.management(node) {
            let _ = writeln!(lines, "route add {} via {address}", node.pod_cidr);
        }
    }
    lines
}

fn router(name: &LabName, t: &Topology) -> String {
    let mut lines = up_with(t, "eth0", |f| {
        let s = t.subnets(f)?;
        Some((s.router, s.segment.prefix_len()))
    });
    lines.push_str("link add br1 type bridge\n");
    lines.push_str(&up_with(t, "br1", |f| {
        let s = t.subnets(f)?;
        Some((s.behind_router, s.behind.prefix_len()))
    }));
    for client in &t.behind.clients {
        let _ = write!(
            lines,
            "link add {port} type veth peer name eth0 address {} netns {}\n\
             link set {port} master br1 up\n",
            mac(client.address),
            name.namespace(&client.name),
            port = port(&client.name),
        );
    }
    for node in &t.nodes {
        for f in t.families() {
            if let (Some(cidr), Some(via)) = (node.pod_subnet(f), node.at(f)) {
                let _ = writeln!(lines, "route add {cidr} via {via}");
            }
        }
    }
    lines
}
