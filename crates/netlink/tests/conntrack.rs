//! Conntrack entries of real UDP flows through real NAT.

#![allow(clippy::unwrap_used)]

mod namespace;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use namespace::{in_new, nft_load, sh};
use signpost_netlink::conntrack::{UdpFlows, delete_udp};
use signpost_nft::Family;

/// Long enough for a datagram within one machine, whatever else it does.
const TIMEOUT: Duration = Duration::from_secs(10);

struct Addresses {
    family: Family,
    nft_family: &'static str,
    service: SocketAddr,
    endpoints: [SocketAddr; 2],
    set_up: &'static str,
}

fn a_flow_leaves_its_dead_endpoint(addresses: Addresses) {
    let Addresses { family, nft_family, service, endpoints, set_up } = addresses;
    sh(set_up);
    let [old, new] = endpoints.map(|endpoint| {
        let socket = UdpSocket::bind(endpoint).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket
    });
    let translate = |endpoint: SocketAddr| {
        nft_load(&format!(
            "add table {nft_family} t
             add chain {nft_family} t out {{ type nat hook output priority -100; }}
             flush chain {nft_family} t out
             add rule {nft_family} t out meta l4proto udp {nft_family} daddr {} dnat to {endpoint}",
            service.ip()
        ));
    };
    let unspecified = if service.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let client = UdpSocket::bind(unspecified).unwrap();
    let other_client = UdpSocket::bind(unspecified).unwrap();
    let received = |server: &UdpSocket| {
        let mut buffer = [0; 16];
        let length = server.recv(&mut buffer).unwrap();
        buffer[..length].to_vec()
    };

    translate(endpoints[1]);
    other_client.send_to(b"other", service).unwrap();
    assert_eq!(received(&new), b"other");
    translate(endpoints[0]);
    client.send_to(b"first", service).unwrap();
    assert_eq!(received(&old), b"first");
    translate(endpoints[1]);
    client.send_to(b"pinned", service).unwrap();
    assert_eq!(received(&old), b"pinned");

    let flows =
        |endpoint| [UdpFlows { address: Some(service.ip()), port: service.port(), endpoint }];
    assert_eq!(delete_udp(family, &flows(service)).unwrap(), 0);
    assert_eq!(delete_udp(family, &flows(endpoints[0])).unwrap(), 1);
    assert_eq!(delete_udp(family, &flows(endpoints[0])).unwrap(), 0);
    client.send_to(b"moved", service).unwrap();
    assert_eq!(received(&new), b"moved");
    // Both clients' flows, and those only, go to the new one.
    assert_eq!(delete_udp(family, &flows(endpoints[1])).unwrap(), 2);
    // By whatever address they ask the port.
    client.send_to(b"again", service).unwrap();
    assert_eq!(received(&new), b"again");
    let any = |port| UdpFlows { address: None, port, endpoint: endpoints[1] };
    assert_eq!(delete_udp(family, &[any(service.port() + 1)]).unwrap(), 0);
    assert_eq!(delete_udp(family, &[any(service.port())]).unwrap(), 1);
}

#[test]
fn a_udp_flow_leaves_its_dead_endpoint() {
    in_new(|| {
        a_flow_leaves_its_dead_endpoint(Addresses {
            family: Family::Ip,
            nft_family: "ip",
            service: "198.51.100.1:53".parse().unwrap(),
            endpoints: ["192.0.2.1:5301", "192.0.2.1:5302"].map(|text| text.parse().unwrap()),
            set_up: "ip link set lo up; ip addr add 192.0.2.1/32 dev lo
                     ip route add 198.51.100.0/24 dev lo",
        });
    });
}

#[test]
fn an_ipv6_udp_flow_leaves_its_dead_endpoint() {
    in_new(|| {
        a_flow_leaves_its_dead_endpoint(Addresses {
            family: Family::Ip6,
            nft_family: "ip6",
            service: "[2001:db8:1::1]:53".parse().unwrap(),
            endpoints: ["[2001:db8::1]:5301", "[2001:db8::1]:5302"]
                .map(|text| text.parse().unwrap()),
            set_up: "ip link set lo up; ip addr add 2001:db8::1/128 dev lo nodad
                     ip route add 2001:db8:1::/64 dev lo",
        });
    });
}
