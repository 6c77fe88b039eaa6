//! What each sender gets of every kind of Service: rows of the expected matrix, in both families.

use std::io::ErrorKind;

use signpost_forward::{Forward, Options};
use signpost_plan::world::Affinity;
use signpost_plan::{Answer, Asked, Backend, Entry, Family, Sources, Table};

use crate::bed::{Addresses, Bed, V4, V6};
use crate::probe::{all, answer, asked, both_from, tcp, udp};
use crate::tables::{for_outsiders_local, here, table, there};

const SERVICES: u16 = 16;

impl Addresses {
    fn family(&self) -> Family {
        Family::of(self.node.parse().unwrap())
    }

    /// The n-th address of Services.
    fn service(&self, n: u16) -> String {
        format!("{}{n}", self.services)
    }

    fn at(&self, address: &str, port: u16) -> String {
        match self.family() {
            Family::V4 => format!("{address}:{port}"),
            Family::V6 => format!("[{address}]:{port}"),
        }
    }

    /// An address as the network that holds only it.
    fn host(&self, address: &str) -> String {
        match self.family() {
            Family::V4 => format!("{address}/32"),
            Family::V6 => format!("{address}/128"),
        }
    }

    /// The n-th address of Services, port 80.
    fn ask(&self, n: u16) -> String {
        assert!(n < SERVICES);
        self.at(&self.service(n), 80)
    }

    fn vip(&self, name: &str, n: u16, backends: &[Backend]) -> Table {
        table(name, Asked::Vip(self.service(n).parse().unwrap()), 80, backends)
    }

    fn cluster_ip(&self, name: &str, n: u16, backends: &[Backend]) -> Table {
        table(name, Asked::ClusterIp(self.service(n).parse().unwrap()), 80, backends)
    }

    fn node_port(&self, name: &str, port: u16, backends: &[Backend]) -> Table {
        table(name, Asked::NodePort(self.family()), port, backends)
    }

    fn everything(&self) -> Vec<Table> {
        let [a, b, r] = [here(self.pods[0]), here(self.pods[1]), there(self.pods[2])];
        let external = |t| with(t, for_outsiders_local);
        let internal = |t| {
            with(t, |e| {
                for_outsiders_local(e);
                (e.pods, e.processes) = (e.outsiders, e.outsiders);
            })
        };
        let only = |net: &str, processes| {
            let net = net.parse().unwrap();
            move |e: &mut Entry| {
                e.sources = Sources::Only([net].into());
                e.processes = processes;
            }
        };
        let (client, nobody) = (self.host(self.client), self.host(self.other));
        vec![
            self.vip("mixed", 1, &[a, b, r]),
            external(self.vip("local", 2, &[a, r])),
            external(self.vip("elsewhere", 3, &[r])),
            self.vip("nobody", 4, &[]),
            self.cluster_ip("inside", 5, &[a, b, r]),
            internal(self.cluster_ip("inside-local", 6, &[a, r])),
            internal(self.cluster_ip("inside-elsewhere", 7, &[r])),
            self.cluster_ip("inside-nobody", 8, &[]),
            with(self.vip("client-only", 9, &[a]), only(&client, Answer::Drop)),
            with(self.vip("nobody-may", 10, &[a]), only(&nobody, Answer::Cluster)),
            self.vip("itself", 11, &[a]),
            self.node_port("np", 30080, &[a, b, r]),
            external(self.node_port("np-local", 30081, &[a, r])),
            external(self.node_port("np-elsewhere", 30082, &[r])),
            self.node_port("np-nobody", 30083, &[]),
        ]
    }

    /// Who answers, and as whom the sender is seen.
    fn seen(&self, pods: &[&str], from: &str) -> Vec<String> {
        pods.iter().map(|pod| format!("{pod} {from}")).collect()
    }
}

fn with(mut table: Table, change: impl Fn(&mut Entry)) -> Table {
    table.entries.iter_mut().for_each(change);
    table
}

fn served() -> (Bed, Forward) {
    let bed = Bed::new();
    let mut forward = bed.inside("node", || Forward::open(Options::default()).unwrap());
    let tables = [V4.everything(), named_apart(V6.everything())].concat();
    let count = tables.len();
    let outcome = forward.sync(tables, &Bed::scope());
    assert!(outcome.is_complete, "{outcome:?}");
    assert_eq!(outcome.acknowledged.len(), count, "{outcome:?}");
    (bed, forward)
}

fn named_apart(mut tables: Vec<Table>) -> Vec<Table> {
    for table in &mut tables {
        table.service.namespace = "six".into();
    }
    tables
}

/// By TCP and by UDP alike.
#[track_caller]
fn check(bed: &Bed, machine: &str, to: &str, want: &[String]) {
    bed.inside(machine, || {
        assert_eq!(all(|| tcp(to)), want, "tcp from {machine} to {to}");
        assert_eq!(all(|| udp(to)), want, "udp from {machine} to {to}");
    });
}

#[track_caller]
fn check_from(bed: &Bed, machine: &str, from: &str, to: &str, want: &[String]) {
    bed.inside(machine, || {
        for index in [0, 1] {
            let got = all(|| both_from(from, to)[index].clone());
            assert_eq!(got, want, "{index} from {from} on {machine} to {to}");
        }
    });
}

/// Nothing comes back, while what is asked later has its answer.
#[track_caller]
fn silent(bed: &Bed, machine: &str, to: &str, later: &str) {
    bed.inside(machine, || {
        // A drop in OUTPUT fails the call.
        let silent = match asked(to) {
            Err(ErrorKind::PermissionDenied) if machine == "node" => return,
            asked => asked.unwrap(),
        };
        udp(later).unwrap();
        silent.set_nonblocking(true).unwrap();
        assert_eq!(answer(&silent), Err(ErrorKind::WouldBlock), "from {machine} to {to}");
    });
}

#[track_caller]
fn refused(bed: &Bed, machine: &str, to: &str) {
    bed.inside(machine, || {
        assert_eq!(tcp(to), Err(ErrorKind::ConnectionRefused), "tcp from {machine} to {to}");
        match udp(to) {
            Err(ErrorKind::ConnectionRefused) => {}
            Err(ErrorKind::PermissionDenied) if machine == "node" => {}
            other => panic!("udp from {machine} to {to}: {other:?}"),
        }
    });
}

#[test]
fn ipv6_addresses_serve_as_ipv4_ones_do() {
    let (bed, _forward) = served();
    let n = &V6;
    let [a, b, _] = n.pods;
    let kept = [n.seen(&["a", "b"], n.client), n.seen(&["r"], n.node)].concat();
    check(&bed, "client", &n.ask(1), &kept);
    check(&bed, "client", &n.ask(2), &n.seen(&["a"], n.client));
    check(&bed, "node", &n.ask(1), &n.seen(&["a", "b", "r"], n.node));
    check(&bed, "node", &n.ask(3), &n.seen(&["r"], n.node));
    check(&bed, "b", &n.ask(2), &n.seen(&["a", "r"], b));
    check(&bed, "a", &n.ask(11), &n.seen(&["a"], n.gateway));
    check(&bed, "a", &n.ask(3), &n.seen(&["r"], a));
    silent(&bed, "client", &n.ask(3), &n.ask(1));
    for machine in ["client", "node", "a"] {
        refused(&bed, machine, &n.ask(4));
        refused(&bed, machine, &n.at(&n.service(1), 81));
        bed.run(machine, &format!("ping -n -c 1 -W 5 {}", n.service(2)));
    }
}

#[test]
fn a_clusterip_serves_every_sender() {
    let (bed, _forward) = served();
    for n in [&V4, &V6] {
        let kept = [n.seen(&["a", "b"], n.client), n.seen(&["r"], n.node)].concat();
        check(&bed, "client", &n.ask(5), &kept);
        check(&bed, "node", &n.ask(5), &n.seen(&["a", "b", "r"], n.node));
        let own = [n.seen(&["a"], n.pods[1]), n.seen(&["b"], n.gateway), n.seen(&["r"], n.pods[1])];
        check(&bed, "b", &n.ask(5), &own.concat());
        // internalTrafficPolicy Local.
        check(&bed, "client", &n.ask(6), &n.seen(&["a"], n.client));
        check(&bed, "node", &n.ask(6), &n.seen(&["a"], n.node));
        check(&bed, "b", &n.ask(6), &n.seen(&["a"], n.pods[1]));
        for machine in ["client", "node", "b"] {
            silent(&bed, machine, &n.ask(7), &n.ask(5));
            refused(&bed, machine, &n.ask(8));
            refused(&bed, machine, &n.at(&n.service(5), 81));
        }
    }
}

#[test]
fn a_nodeport_serves_every_sender() {
    let (bed, _forward) = served();
    for n in [&V4, &V6] {
        let ask = |port| n.at(n.node, port);
        let kept = [n.seen(&["a", "b"], n.client), n.seen(&["r"], n.node)].concat();
        check(&bed, "client", &ask(30080), &kept);
        check(&bed, "node", &ask(30080), &n.seen(&["a", "b", "r"], n.node));
        let own = [n.seen(&["a"], n.pods[1]), n.seen(&["b"], n.gateway), n.seen(&["r"], n.pods[1])];
        check(&bed, "b", &ask(30080), &own.concat());
        // externalTrafficPolicy Local: senders on the node get every endpoint.
        check(&bed, "client", &ask(30081), &n.seen(&["a"], n.client));
        check(&bed, "node", &ask(30081), &n.seen(&["a", "r"], n.node));
        check(&bed, "b", &ask(30081), &n.seen(&["a", "r"], n.pods[1]));
        check(&bed, "node", &ask(30082), &n.seen(&["r"], n.node));
        silent(&bed, "client", &ask(30082), &ask(30080));
        for machine in ["client", "node", "b"] {
            refused(&bed, machine, &ask(30083));
            refused(&bed, machine, &ask(30084));
        }
        refused(&bed, "node", &n.at(n.loopback, 30080));
    }
}

// To another node's port they are outsiders: the endpoint's reply to a pod elsewhere would miss us.
#[test]
fn pods_and_processes_elsewhere_ask_a_nodeport_as_outsiders() {
    let (bed, _forward) = served();
    for n in [&V4, &V6] {
        let ask = |port| n.at(n.node, port);
        for from in [n.other, n.pods[2]] {
            let kept = [n.seen(&["a", "b"], from), n.seen(&["r"], n.node)].concat();
            check_from(&bed, "other", from, &ask(30080), &kept);
            check_from(&bed, "other", from, &ask(30081), &n.seen(&["a"], from));
        }
        bed.inside("other", || {
            let silent = asked(&ask(30082)).unwrap();
            udp(&ask(30080)).unwrap();
            silent.set_nonblocking(true).unwrap();
            assert_eq!(answer(&silent), Err(ErrorKind::WouldBlock));
        });
    }
}

// As keepalived does it.
#[test]
fn an_address_that_comes_later_answers_for_nodeports() {
    let (bed, mut forward) = served();
    for n in [&V4, &V6] {
        // As keepalived adds it: not to be a source.
        let lifetime = "valid_lft forever preferred_lft 0";
        bed.run("node", &format!("ip address add {} dev eth0 {lifetime}", n.host(n.second)));
        let kept = [n.seen(&["a", "b"], n.client), n.seen(&["r"], n.node)].concat();
        check(&bed, "client", &n.at(n.second, 30080), &kept);
    }
    // --nodeport-addresses.
    let mut scope = Bed::scope();
    scope.node_ports =
        [V4.node, V6.node].map(|a| a.parse::<std::net::IpAddr>().unwrap().into()).into();
    assert!(forward.apply(Vec::new(), &scope).is_complete);
    for n in [&V4, &V6] {
        refused(&bed, "client", &n.at(n.second, 30080));
        let kept = [n.seen(&["a", "b"], n.client), n.seen(&["r"], n.node)].concat();
        check(&bed, "client", &n.at(n.node, 30080), &kept);
    }
}

// Nobody's NodePort is refused whoever listens, and nobody's connection is cut.
#[test]
fn a_process_that_listens_on_a_nodeport_is_not_reached() {
    let (bed, mut forward) = served();
    let listening = bed.inside("node", || std::net::TcpListener::bind("0.0.0.0:30083").unwrap());
    refused(&bed, "client", &V4.at(V4.node, 30083));
    let none = V4.node_port("np-nobody", 30083, &[]).service;
    assert!(forward.apply(vec![(none, None)], &Bed::scope()).is_complete);
    bed.inside("client", || {
        std::net::TcpStream::connect(V4.at(V4.node, 30083)).unwrap();
    });
    drop(listening);
}

#[test]
fn source_ranges_let_in_whom_they_name() {
    let (bed, _forward) = served();
    for n in [&V4, &V6] {
        check(&bed, "client", &n.ask(9), &n.seen(&["a"], n.client));
        for machine in ["node", "b"] {
            silent(&bed, machine, &n.ask(9), &n.ask(1));
        }
        for machine in ["client", "b"] {
            silent(&bed, machine, &n.ask(10), &n.ask(1));
        }
        // The plan lets them: an address of the node is in the ranges.
        check(&bed, "node", &n.ask(10), &n.seen(&["a"], n.node));
    }
}

#[test]
fn large_datagrams_and_errors_come_through() {
    let (bed, mut forward) = served();
    for n in [&V4, &V6] {
        let closed = Backend { port: 9, ..here(n.pods[0]) };
        let table = n.vip("closed", 12, &[closed]);
        assert!(
            forward.apply(vec![(table.service.clone(), Some(table))], &Bed::scope()).is_complete
        );
        bed.inside("client", || {
            // The pod's own refusal, by the address that was asked.
            assert_eq!(udp(&n.ask(12)), Err(ErrorKind::ConnectionRefused));
            assert_eq!(tcp(&n.ask(12)), Err(ErrorKind::ConnectionRefused));
            let large = asked(&n.ask(11)).unwrap();
            assert!(answer(&large).is_ok());
            // In fragments.
            large.send(&[b'x'; 5000]).unwrap();
            assert_eq!(answer(&large), Ok(format!("a {}", n.client)));
        });
    }
}

/// Many clients on one machine.
fn clients(bed: &Bed, n: &Addresses) -> Vec<String> {
    let all: Vec<_> = (0..24)
        .map(|i| match n.family() {
            Family::V4 => format!("192.0.2.{}", 210 + i),
            Family::V6 => format!("2001:db8::1:{i}"),
        })
        .collect();
    for address in &all {
        // The segment's prefix: they answer for themselves.
        bed.run("client", &format!("ip address add {} dev eth0", n.host(address)));
    }
    all
}

fn sticky(n: &Addresses, backends: &[Backend]) -> Vec<Table> {
    let sticky = |e: &mut Entry| e.affinity = Affinity::ClientIp { timeout_s: 7200 };
    let tables = vec![
        with(n.vip("sticky", 13, backends), sticky),
        with(n.node_port("np-sticky", 30085, backends), sticky),
    ];
    if n.family() == Family::V6 { named_apart(tables) } else { tables }
}

/// Which pod each client gets, 12 times of 12, by TCP and UDP.
fn led(bed: &Bed, n: &Addresses, clients: &[String], to: &str) -> Vec<[String; 2]> {
    let name = |got: Result<String, ErrorKind>| got.unwrap().split(' ').next().unwrap().to_owned();
    bed.inside("client", || {
        let one = |from: &String| {
            let mut tries = (0..12).map(|_| both_from(from, to).map(name));
            let first = tries.next().unwrap();
            assert!(tries.all(|next| next == first), "{from} to {to} of {}", n.node);
            first
        };
        clients.iter().map(one).collect()
    })
}

#[test]
fn a_client_stays_with_its_endpoint() {
    let (bed, mut forward) = served();
    for n in [&V4, &V6] {
        let [a, b, r] = [here(n.pods[0]), here(n.pods[1]), there(n.pods[2])];
        let mut apply = |backends: &[Backend]| {
            let want = sticky(n, backends).into_iter().map(|t| (t.service.clone(), Some(t)));
            assert!(forward.apply(want.collect(), &Bed::scope()).is_complete);
            // A flow stays where it is, and of thousands one gets the port of an earlier one.
            bed.run("node", "conntrack --flush");
        };
        let clients = clients(&bed, n);
        for to in [n.ask(13), n.at(n.node, 30085)] {
            apply(&[a, b]);
            let before = led(&bed, n, &clients, &to);
            let pods: Vec<_> = before.iter().flatten().collect();
            assert!(["a", "b"].iter().all(|pod| pods.iter().any(|p| p == pod)), "{pods:?}");
            // What comes takes nobody who is known.
            apply(&[a, b, r]);
            assert_eq!(led(&bed, n, &clients, &to), before);
            // What goes is left at once, and nobody else moves.
            apply(&[b, r]);
            let after = led(&bed, n, &clients, &to);
            for (before, after) in before.iter().flatten().zip(after.iter().flatten()) {
                assert!(if before == "a" { after != "a" } else { after == before });
            }
            // Nobody known: the choice follows from the set, as on every other node.
            apply(&[]);
            apply(&[a, b]);
            assert_eq!(led(&bed, n, &clients, &to), before);
            apply(&[]);
        }
    }
    let listed = bed.run("node", "nft list map ip signpost learned");
    assert!(!listed.contains("elements"), "{listed}");
}

// The kernel forgets by itself what nobody renews.
#[test]
fn what_is_remembered_has_the_services_timeout() {
    let (bed, mut forward) = served();
    let want = sticky(&V4, &[here(V4.pods[0])]).into_iter().map(|t| (t.service.clone(), Some(t)));
    assert!(forward.apply(want.collect(), &Bed::scope()).is_complete);
    bed.inside("client", || udp(&V4.ask(13)).unwrap());
    let listed = bed.run("node", "nft list map ip signpost learned");
    let client = V4.client;
    assert!(
        listed.contains(&format!("{client} . 203.0.113.13 . udp . 80 timeout 2h expires ")),
        "{listed}"
    );
}

#[test]
fn a_family_without_services_has_no_table() {
    let bed = Bed::new();
    let mut forward = bed.inside("node", || Forward::open(Options::default()).unwrap());
    assert!(forward.sync(V4.everything(), &Bed::scope()).is_complete);
    assert_eq!(bed.run("node", "nft list tables"), "table ip signpost\n");
    let six = V6.vip("six", 1, &[here(V6.pods[0])]);
    let key = six.service.clone();
    assert!(forward.apply(vec![(key.clone(), Some(six))], &Bed::scope()).is_complete);
    assert_eq!(bed.run("node", "nft list tables"), "table ip signpost\ntable ip6 signpost\n");
    check(&bed, "client", &V6.ask(1), &V6.seen(&["a"], V6.client));
    assert!(forward.apply(vec![(key, None)], &Bed::scope()).is_complete);
    let listed = bed.run("node", "nft list set ip6 signpost vips");
    assert!(!listed.contains("elements"), "{listed}");
}
