//! The wire thread against other kernels: what a neighbour finds, and what its switch forwards.
//!
//! Needs root, and fails without: each test makes network namespaces of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod agent;
mod bed;

use std::net::{Ipv6Addr, UdpSocket};

use bed::{Bed, Question, vip};
use signpost_packet::{Mac, Ndp, solicited_node};
use signpost_plan::LinkIndex;
use signpost_speaker::Link;

/// Its kernel has the address, but not on the segment: who asks there is not answered by it.
fn serve(bed: &Bed, address: Ipv6Addr) -> UdpSocket {
    bed.node.ip(&format!("addr add {address}/128 dev lo nodad\n")).unwrap();
    bed.node.run(|| UdpSocket::bind((address, 9)).unwrap()).unwrap()
}

/// A datagram of a client that must find the address first.
fn knock(bed: &Bed, address: Ipv6Addr) {
    let sent = || UdpSocket::bind("[::]:0").unwrap().send_to(b"knock", (address, 9));
    bed.client.run(sent).unwrap().unwrap();
}

#[test]
fn a_client_finds_an_address_while_its_gate_is_open() {
    let mut bed = Bed::new();
    let (eth0, address) = (bed.eth0(), vip(1));
    bed.links(&[&eth0]);
    let service = serve(&bed, address);
    service.set_read_timeout(Some(bed::SOON)).unwrap();
    assert_eq!(bed.solicit(address), [], "nobody has it");

    bed.open(address, &eth0);
    bed.until_owned(address, true);
    knock(&bed, address);
    assert_eq!(service.recv(&mut [0; 16]).unwrap(), 5);
    assert!(bed.neighbour(address).contains(&Mac(eth0.mac).to_string()));

    bed.shut(address);
    bed.until_owned(address, false);
    assert_eq!(bed.solicit(address), []);
    bed.client.ip("neigh flush dev eth0\n").unwrap();
    knock(&bed, address);
    bed.until("the client gives up", || bed.neighbour(address).contains("FAILED"));
}

#[test]
fn each_way_of_asking_has_its_answer() {
    let mut bed = Bed::new();
    let (eth0, address) = (bed.eth0(), vip(2));
    bed.links(&[&eth0]);
    bed.open(address, &eth0);
    bed.until_owned(address, true);
    let mac = Mac(eth0.mac);
    let source = "2001:db8:5::100".parse().unwrap();
    let asked = Ndp::solicitation(Mac([2, 0, 0, 0, 0, 9]), source, address);
    let (to_one, to_all) = (Ndp::answer_to(&asked, mac), Ndp::announcement(mac, address));
    let ask = |source, to| bed.ask("eth0", Question { target: address, source, to });
    assert_eq!(ask(source, None), [to_one]);
    assert_eq!(ask(source, Some(mac)), [to_one]);
    assert_eq!(ask(Ipv6Addr::UNSPECIFIED, None), [to_all]);
}

#[test]
fn nobody_else_on_the_segment_can_take_an_address() {
    let mut bed = Bed::new();
    let (eth0, ours, free) = (bed.eth0(), vip(3), vip(4));
    bed.links(&[&eth0]);
    bed.open(ours, &eth0);
    bed.until_owned(ours, true);
    let state = |address: Ipv6Addr| {
        let to = address.to_string();
        bed.client.command("ip", &["-6", "-o", "addr", "show", "to", &to], "").unwrap()
    };
    for address in [ours, free] {
        bed.client.ip(&format!("addr add {address}/64 dev eth0\n")).unwrap();
        bed.until("it is decided", || {
            let state = state(address);
            state.contains("dadfailed") || !state.contains("tentative")
        });
        assert_eq!(state(address).contains("dadfailed"), address == ours, "{}", state(address));
    }
}

#[test]
fn a_claim_moves_what_a_client_believes() {
    let mut bed = Bed::new();
    let (eth0, address) = (bed.eth0(), vip(5));
    bed.links(&[&eth0]);
    bed.client
        .ip(&format!("neigh add {address} lladdr 02:00:00:00:00:99 nud reachable dev eth0\n"))
        .unwrap();
    assert!(bed.neighbour(address).contains("02:00:00:00:00:99"));
    bed.open(address, &eth0);
    bed.until("the entry moves", || bed.neighbour(address).contains(&Mac(eth0.mac).to_string()));
}

#[test]
fn groups_are_joined_where_and_while_an_address_may_be_answered() {
    let mut bed = Bed::new();
    // The first two have the last 24 bits in common, and so their group.
    let (eth0, one, two) = (bed.eth0(), vip(6), vip((1 << 24) + 6));
    let other = vip(7);
    let (group, others) = (solicited_node(one), solicited_node(other));
    assert_eq!(group, solicited_node(two));
    let joined = |bed: &Bed| [group, others].map(|g| bed.is_joined("eth0", g));
    bed.open(one, &eth0);
    assert_eq!(joined(&bed), [false; 2], "no interface is known");
    bed.links(&[&eth0]);
    assert_eq!(joined(&bed), [true, false]);
    bed.open(two, &eth0);
    bed.open(other, &eth0);
    bed.shut(one);
    assert_eq!(joined(&bed), [true, true], "another address is asked for there");
    bed.shut(two);
    assert_eq!(joined(&bed), [false, true]);
    bed.links(&[]);
    assert_eq!(joined(&bed), [false; 2]);
    bed.links(&[&eth0]);
    assert_eq!(joined(&bed), [false, true]);
    bed.open(other, &Link { index: LinkIndex(99), ..eth0 });
    assert_eq!(joined(&bed), [false; 2]);
}

#[test]
fn more_groups_are_joined_than_one_socket_holds() {
    let mut bed = Bed::new();
    let eth0 = bed.eth0();
    bed.links(&[&eth0]);
    let count = 3000;
    for n in 0..count {
        bed.open(vip(n), &eth0);
    }
    let all = |bed: &Bed| {
        let shown = bed.node.command("ip", &["-6", "maddr", "show", "dev", "eth0"], "").unwrap();
        shown.matches("ff02::1:ff64:").count() + shown.matches("ff02::1:ff00:").count()
    };
    let before = all(&bed);
    assert!(before >= count as usize, "{before}");
    for n in 0..count {
        bed.shut(vip(n));
    }
    assert_eq!(all(&bed), before - count as usize);
}

#[test]
fn a_switch_that_snoops_hears_of_an_address() {
    let mut bed = Bed::new();
    let switch = bed.lab.namespace("switch").unwrap();
    let snoops = "link set br0 type bridge mcast_snooping 1 mcast_querier 1\n";
    switch.ip(snoops).unwrap();
    let (eth0, address) = (bed.eth0(), vip(8));
    bed.links(&[&eth0]);
    bed.open(address, &eth0);
    let group = solicited_node(address).to_string();
    bed.until("the switch forwards the group to the node", || {
        let shown = switch.command("bridge", &["mdb", "show", "dev", "br0"], "").unwrap();
        shown.lines().any(|line| line.contains(&group) && line.contains("p-node-a"))
    });
    bed.until_owned(address, true);
    assert_eq!(bed.solicit(address).len(), 1);
}

#[test]
fn an_interface_that_comes_after_its_name_is_used_with_the_next_lease() {
    let mut bed = Bed::new();
    let address = vip(9);
    let index = LinkIndex(77);
    let late = Link { index, mac: [2, 0, 0, 0, 0, 0x77], ..bed.eth0() };
    bed.links(&[&late]);
    bed.open(address, &late);
    bed.until_owned(address, true);
    let client = bed.client.name();
    bed.node
        .ip(&format!(
            "link add late0 index {} address {} type veth peer name late1 netns {client}\n\
             link set late0 up\n",
            index.0,
            Mac(late.mac)
        ))
        .unwrap();
    bed.client.ip("link set late1 up\n").unwrap();
    let source = "fe80::100".parse().unwrap();
    let ask = |bed: &Bed| bed.ask("late1", Question { target: address, source, to: None });
    assert_eq!(ask(&bed), []);
    assert!(!bed.is_joined("late0", solicited_node(address)));
    bed.renew();
    assert!(bed.is_joined("late0", solicited_node(address)));
    bed.until("it is answered", || ask(&bed).len() == 1);
}

/// Below IPv6's least MTU the kernel takes IPv6 from an interface, groups and all.
#[test]
fn a_group_that_could_not_be_joined_is_joined_with_the_next_lease() {
    let mut bed = Bed::new();
    let (eth0, address) = (bed.eth0(), vip(10));
    let group = solicited_node(address);
    bed.node.ip("link set eth0 mtu 1000\n").unwrap();
    bed.links(&[&eth0]);
    bed.open(address, &eth0);
    bed.renew();
    assert!(!bed.is_joined("eth0", group));
    bed.node.ip("link set eth0 mtu 1500\n").unwrap();
    assert!(!bed.is_joined("eth0", group));
    bed.renew();
    assert!(bed.is_joined("eth0", group));

    bed.node.ip("link set eth0 mtu 1000\nlink set eth0 mtu 1500\n").unwrap();
    assert!(!bed.is_joined("eth0", group), "gone with all IPv6 of the interface");
    bed.links(&[&Link { address_v6: Some("fe80::1".parse().unwrap()), ..eth0 }]);
    assert!(bed.is_joined("eth0", group));
}
