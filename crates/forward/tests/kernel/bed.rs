//! A client, a node with two pods, and another machine with a pod, each a network namespace.
//!
//! ```text
//! client 192.0.2.200 ─┐
//! node   192.0.2.11 ──┼─ switch       pods a 198.19.1.5, b 198.19.1.6 on the node
//! other  192.0.2.12 ──┘               pod  r 198.19.2.5 on the other machine
//! ```
//! The client reaches 203.0.113.0/24 by the node. The other machine answers the client directly.
//! The same with IPv6: 2001:db8::, fd00:1:: and fd00:2:: for the pods, 2001:db8:113::/64.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sched::{CloneFlags, setns};
use signpost_plan::Scope;

pub(crate) const CLIENT: &str = "192.0.2.200";
pub(crate) const NODE: &str = "192.0.2.11";
pub(crate) const A: &str = "198.19.1.5";
pub(crate) const B: &str = "198.19.1.6";
pub(crate) const R: &str = "198.19.2.5";
pub(crate) const V4: Addresses = Addresses {
    client: CLIENT,
    node: NODE,
    other: "192.0.2.12",
    pods: [A, B, R],
    gateway: "198.19.1.1",
    services: "203.0.113.",
    second: "192.0.2.99",
    loopback: "127.0.0.1",
};

pub(crate) const V6: Addresses = Addresses {
    client: "2001:db8::200",
    node: "2001:db8::11",
    other: "2001:db8::12",
    pods: ["fd00:1::5", "fd00:1::6", "fd00:2::5"],
    gateway: "fd00:1::1",
    services: "2001:db8:113::",
    second: "2001:db8::99",
    loopback: "::1",
};

/// Who has which address, in one family.
pub(crate) struct Addresses {
    pub(crate) client: &'static str,
    pub(crate) node: &'static str,
    pub(crate) other: &'static str,
    /// a, b, r
    pub(crate) pods: [&'static str; 3],
    /// As which the node is seen by its pods.
    pub(crate) gateway: &'static str,
    /// The beginning of addresses that are reached by the node.
    pub(crate) services: &'static str,
    /// Of the node, once somebody adds it.
    pub(crate) second: &'static str,
    pub(crate) loopback: &'static str,
}

/// Where every pod listens.
pub(crate) const POD_PORT: u16 = 8080;

pub(crate) struct Bed {
    prefix: String,
}

const MACHINES: [&str; 6] = ["switch", "client", "node", "other", "a", "b"];

impl Bed {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let bed = Self { prefix: format!("fw{}x{count}-", std::process::id()) };
        for machine in MACHINES {
            ip(&format!("netns add {}", bed.name(machine)));
            // An address may be used at once.
            bed.inside(machine, || {
                std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0").unwrap();
            });
            bed.ip(machine, "link set lo up");
        }
        bed.ip("switch", "link add br0 type bridge");
        bed.ip("switch", "link set br0 up");
        for (machine, address) in [("client", CLIENT), ("node", NODE), ("other", "192.0.2.12")] {
            let peer = bed.name(machine);
            bed.ip("switch", &format!("link add port-{machine} type veth peer eth0 netns {peer}"));
            bed.ip("switch", &format!("link set port-{machine} master br0 up"));
            bed.ip(machine, &format!("address add {address}/24 dev eth0"));
            bed.ip(machine, "link set eth0 up");
        }
        for (machine, address) in [("client", V6.client), ("node", V6.node), ("other", V6.other)] {
            bed.ip(machine, &format!("address add {address}/64 dev eth0 nodad"));
        }
        for (pod, address) in [("a", A), ("b", B)] {
            let peer = bed.name(pod);
            bed.ip("node", &format!("link add pod-{pod} type veth peer eth0 netns {peer}"));
            bed.ip("node", &format!("address add 198.19.1.1/32 dev pod-{pod}"));
            bed.ip("node", &format!("link set pod-{pod} up"));
            bed.ip("node", &format!("route add {address} dev pod-{pod}"));
            bed.ip(pod, &format!("address add {address}/32 dev eth0"));
            bed.ip(pod, "link set eth0 up");
            bed.ip(pod, "route add default via 198.19.1.1 dev eth0 onlink");
        }
        for (pod, address) in [("a", V6.pods[0]), ("b", V6.pods[1])] {
            let gateway = V6.gateway;
            bed.ip("node", &format!("address add {gateway}/128 dev pod-{pod} nodad"));
            bed.ip("node", &format!("route add {address} dev pod-{pod}"));
            bed.ip(pod, &format!("address add {address}/128 dev eth0 nodad"));
            bed.ip(pod, &format!("route add default via {gateway} dev eth0 onlink"));
        }
        bed.ip("other", &format!("address add {}/128 dev lo nodad", V6.pods[2]));
        bed.ip("node", "route add default via 2001:db8::1 dev eth0");
        bed.ip("node", &format!("route add fd00:2::/64 via {}", V6.other));
        bed.ip("other", &format!("route add fd00:1::/64 via {}", V6.node));
        bed.ip("client", &format!("route add 2001:db8:113::/64 via {}", V6.node));
        bed.ip("other", &format!("address add {R}/32 dev lo"));
        bed.ip("node", "route add default via 192.0.2.1 dev eth0");
        bed.ip("node", "route add 198.19.2.0/24 via 192.0.2.12");
        bed.ip("other", &format!("route add 198.19.1.0/24 via {NODE}"));
        bed.ip("client", &format!("route add 203.0.113.0/24 via {NODE}"));
        bed.inside("node", || {
            for (name, value) in [("ip_forward", "1"), ("icmp_ratelimit", "0")] {
                std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap();
            }
            for (name, value) in [("conf/all/forwarding", "1"), ("icmp/ratelimit", "0")] {
                std::fs::write(format!("/proc/sys/net/ipv6/{name}"), value).unwrap();
            }
        });
        let pods = [("a", "a"), ("b", "b"), ("other", "r")];
        for ((machine, name), at) in pods.into_iter().zip(0..) {
            bed.serve(machine, name, V4.pods[at]);
            bed.serve(machine, name, V6.pods[at]);
        }
        bed
    }

    /// The scope that the plan would give the node.
    pub(crate) fn scope() -> Scope {
        Scope {
            uplinks: vec!["eth0".into()],
            pod_cidrs: vec!["198.19.0.0/16".parse().unwrap(), "fd00::/16".parse().unwrap()],
            // All but loopback.
            node_ports: ["128.0.0.0/1", "2000::/3"].map(|net| net.parse().unwrap()).into(),
        }
    }

    /// Runs something in a machine's namespace.
    pub(crate) fn inside<T: Send>(&self, machine: &str, run: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name(machine))).unwrap();
        std::thread::scope(|scope| {
            let entered = scope.spawn(|| {
                setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
                run()
            });
            entered.join().unwrap()
        })
    }

    /// Runs a command in a machine's namespace and gives its standard output.
    pub(crate) fn run(&self, machine: &str, command: &str) -> String {
        let (status, output) = self.try_run(machine, command);
        assert!(status, "{machine}: {command}: {output}");
        output
    }

    /// Whether a command succeeds, and what it says.
    pub(crate) fn try_run(&self, machine: &str, command: &str) -> (bool, String) {
        let mut all = Command::new("ip");
        all.args(["netns", "exec", &self.name(machine), "sh", "-c", command]);
        let output = all.output().unwrap();
        let said = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8(said).unwrap())
    }

    fn ip(&self, machine: &str, command: &str) {
        ip(&format!("-n {} {command}", self.name(machine)));
    }

    fn name(&self, machine: &str) -> String {
        format!("{}{machine}", self.prefix)
    }

    /// Answers by TCP and UDP with its name and whom it sees, until the process ends.
    fn serve(&self, machine: &str, name: &'static str, address: &str) {
        let to: (IpAddr, u16) = (address.parse().unwrap(), POD_PORT);
        let (tcp, udp) =
            self.inside(machine, || (TcpListener::bind(to).unwrap(), UdpSocket::bind(to).unwrap()));
        std::thread::spawn(move || {
            for stream in tcp.incoming() {
                let mut stream = stream.unwrap();
                let seen = stream.peer_addr().unwrap().ip();
                let _ = writeln!(stream, "{name} {seen}");
                // Reset instead of TIME_WAIT, and hear a client that holds on.
                let _ = BufReader::new(stream).read_line(&mut String::new());
            }
        });
        std::thread::spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((_, from)) = udp.recv_from(&mut buffer) {
                let _ = udp.send_to(format!("{name} {}", from.ip()).as_bytes(), from);
            }
        });
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for machine in MACHINES {
            ip(&format!("netns delete {}", self.name(machine)));
        }
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}
