//! rtnetlink against this kernel.

#![allow(clippy::unwrap_used)]

mod namespace;

use std::os::fd::AsFd;

use namespace::{in_new, sh};
use nix::poll::{PollFd, PollFlags, poll};
use signpost_netlink::route::{
    DefaultRoute, Event, Kind, Link, Monitor, read_default_routes, read_links,
};

fn link(name: &str) -> Link {
    read_links().unwrap().into_iter().find(|link| &*link.name == name).unwrap()
}

#[test]
fn links_are_read_with_addresses_carrier_and_forwarding() {
    in_new(|| {
        sh("ip link add up0 address 02:00:00:00:00:01 type veth peer name peer0
            ip link add br0 type bridge
            ip link set up0 up
            ip addr add 192.0.2.1/24 dev up0
            ip addr add 2001:db8::1/64 dev up0 nodad");
        let up0 = link("up0");
        assert_eq!(up0.mac, Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(up0.kind, Kind::Virtual("veth".into()));
        assert_eq!(link("lo").kind, Kind::Loopback);
        assert!(up0.addresses.contains(&("192.0.2.1".parse().unwrap(), 24)));
        assert!(up0.addresses.contains(&("2001:db8::1".parse().unwrap(), 64)));
        assert!(!up0.up, "its peer is down: no carrier");
        sh("ip link set peer0 up; ip link set peer0 master br0");
        assert!(link("up0").up);
        assert_eq!(link("peer0").master, Some(link("br0").index));

        for (v4, v6) in [(false, true), (true, false)] {
            sh(&format!(
                "echo {} > /proc/sys/net/ipv4/conf/up0/forwarding
                 echo {} > /proc/sys/net/ipv6/conf/up0/forwarding",
                u8::from(v4),
                u8::from(v6)
            ));
            let up0 = link("up0");
            assert_eq!((up0.forwarding, up0.forwarding_v6), (v4, v6));
        }
    });
}

#[test]
fn default_routes_are_read_with_their_gateways() {
    in_new(|| {
        assert_eq!(read_default_routes().unwrap(), []);
        sh("ip link add up0 type veth peer name peer0
            ip link set up0 up; ip link set peer0 up
            ip addr add 192.0.2.1/24 dev up0
            ip addr add 198.51.100.1/24 dev peer0
            ip addr add 2001:db8::1/64 dev up0 nodad
            ip route add 203.0.113.0/24 via 192.0.2.9
            ip route add default table 7 via 192.0.2.9
            ip route add default nexthop via 192.0.2.254 nexthop via 198.51.100.254
            ip route add default dev peer0 metric 77
            ip -6 route add default via 2001:db8::fe");
        let (a, b) = (link("up0").index, link("peer0").index);
        let route = |ipv6, link, gateway: Option<&str>| DefaultRoute {
            ipv6,
            link,
            gateway: gateway.map(|gateway| gateway.parse().unwrap()),
        };
        assert_eq!(
            read_default_routes().unwrap(),
            [
                route(false, a, Some("192.0.2.254")),
                route(false, b, Some("198.51.100.254")),
                route(false, b, None),
                route(true, a, Some("2001:db8::fe")),
            ]
        );
    });
}

#[test]
fn the_monitor_tells_of_carrier_addresses_routes_and_forwarding() {
    in_new(|| {
        sh("ip link add up0 address 02:00:00:00:00:01 type veth peer name peer0
            ip link set up0 up; ip link set peer0 up");
        let index = link("up0").index;
        let mut monitor = Monitor::open().unwrap();
        let mut tells = |command: &str, event: Event| {
            sh(command);
            while !monitor.drain().unwrap().contains(&event) {
                // linkwatch may hold the news of a carrier back for a second.
                let mut fds = [PollFd::new(monitor.as_fd(), PollFlags::POLLIN)];
                assert_eq!(poll(&mut fds, 10_000u16).unwrap(), 1, "{command}: no {event:?}");
            }
        };
        let mac = Some([2, 0, 0, 0, 0, 1]);
        tells("ip link set peer0 down", Event::Link { index, up: false, mac });
        tells("ip link set peer0 up", Event::Link { index, up: true, mac });
        let mac = Some([2, 0, 0, 0, 0, 2]);
        let changed = Event::Link { index, up: true, mac };
        tells("ip link set up0 address 02:00:00:00:00:02", changed);
        tells("ip addr add 192.0.2.1/24 dev up0", Event::Address(index));
        tells("ip route add default via 192.0.2.9", Event::DefaultRoute);
        tells("ip route del default", Event::DefaultRoute);
        let sysctl = "echo 1 > /proc/sys/net/ipv4/conf/up0/forwarding";
        tells(sysctl, Event::Forwarding(index));
        tells("ip link del up0", Event::LinkGone(index));
    });
}
