//! Links, addresses, routes and sysctls of a lab's namespaces.

use std::fmt::Write;

use crate::topology::{CONTROL, Control, Node, Pod, ROUTER, SWITCH, mac};
use crate::{Error, LabName, Namespace, Topology};

/// Builds everything below the processes.
pub(crate) fn wire(name: &LabName, t: &Topology) -> Result<(), Error> {
    let members = t.members();
    let namespaces: Vec<String> = members.iter().map(|m| name.namespace(m)).collect();
    crate::namespace::change("add", &namespaces)?;
    // Before the links: an interface inherits `default` when it comes into being.
    each(&members, |member| {
        let ns = Namespace::open(&name.namespace(member))?;
        ns.run(|| sysctls(&ns, t.node(member).is_some() || member == ROUTER))?
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
        let gateway = if t.segment.contains(&client.address) { t.router } else { t.behind.router };
        let subnet = if t.segment.contains(&client.address) { t.segment } else { t.behind.subnet };
        let lines = format!(
            "link set lo up\n\
             addr add {}/{} brd + dev eth0\n\
             link set eth0 up\n\
             route add default via {gateway}\n",
            client.address,
            subnet.prefix_len()
        );
        Namespace::open(&name.namespace(&client.name))?.ip(&lines)?;
    }
    Ok(())
}

/// Adds a pod to a lab that is up.
pub(crate) fn add_pod(name: &LabName, node: &Node, pod: &Pod) -> Result<(), Error> {
    let netns = name.namespace(&pod.name);
    crate::namespace::change("add", std::slice::from_ref(&netns))?;
    let ns = Namespace::open(&netns)?;
    ns.run(|| sysctls(&ns, false))??;
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

/// Runs in the namespace: what is written to `/proc/sys/net` is the writing thread's.
fn sysctls(ns: &Namespace, forwards: bool) -> Result<(), Error> {
    let mut wanted = vec![
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
        ("ipv4/conf/all/accept_redirects", "0"),
        ("ipv4/conf/default/accept_redirects", "0"),
        ("ipv4/conf/all/send_redirects", "0"),
        ("ipv4/conf/default/send_redirects", "0"),
        // Every refusal must be seen, or a probe takes it for a timeout.
        ("ipv4/icmp_ratelimit", "0"),
        // Echo sockets for the probes' pings.
        ("ipv4/ping_group_range", "0 2147483647"),
    ];
    if forwards {
        wanted.push(("ipv4/ip_forward", "1"));
    }
    for (path, value) in wanted {
        std::fs::write(format!("/proc/sys/net/{path}"), value)
            .map_err(|cause| Error::Io { what: format!("net/{path} in {}", ns.name()), cause })?;
    }
    // Of a namespace since Linux 6.14; before, the machine's, and none of our business.
    for (path, value) in [("ipv4/icmp_msgs_per_sec", "100000"), ("ipv4/icmp_msgs_burst", "10000")] {
        let _ = std::fs::write(format!("/proc/sys/net/{path}"), value);
    }
    Ok(())
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
    let mut lines = format!(
        "link set lo up\n\
         addr add {}/{} brd + dev eth0\n\
         link set eth0 up\n\
         route add default via {}\n",
        node.address,
        t.segment.prefix_len(),
        t.router
    );
    for other in t.nodes.iter().filter(|o| o.name != node.name) {
        let _ = writeln!(lines, "route add {} via {} dev eth0", other.pod_cidr, other.address);
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

/// The node's end of a pod's cable, as the CNI plugin `ptp` makes it.
fn to_pod(name: &LabName, node: &Node, pod: &Pod, veth: &str) -> String {
    let gateway = node.gateway();
    format!(
        "link add {veth} type veth peer name eth0 netns {}\n\
         addr add {gateway}/32 dev {veth}\n\
         link set {veth} up\n\
         route add {}/32 dev {veth} scope link src {gateway}\n",
        name.namespace(&pod.name),
        pod.address,
    )
}

fn inside_pod(node: &Node, pod: &Pod) -> String {
    let gateway = node.gateway();
    format!(
        "link set lo up\n\
         addr add {}/32 dev eth0\n\
         link set eth0 up\n\
         route add {gateway}/32 dev eth0 scope link\n\
         route add default via {gateway} src {}\n",
        pod.address, pod.address
    )
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
    let mut lines = format!(
        "link set lo up\n\
         addr add {}/{} brd + dev eth0\n\
         link set eth0 up\n\
         link add br1 type bridge\n\
         addr add {}/{} brd + dev br1\n\
         link set br1 up\n",
        t.router,
        t.segment.prefix_len(),
        t.behind.router,
        t.behind.subnet.prefix_len()
    );
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
        let _ = writeln!(lines, "route add {} via {}", node.pod_cidr, node.address);
    }
    lines
}
