//! Names that nft prints for numbers.

use crate::{ChainType, Family, Hook};

pub(super) fn family(family: Family) -> &'static str {
    match family {
        Family::Ip => "ip",
        Family::Ip6 => "ip6",
        Family::Inet => "inet",
    }
}

pub(super) fn hook(hook: Hook) -> &'static str {
    match hook {
        Hook::Prerouting => "prerouting",
        Hook::Input => "input",
        Hook::Forward => "forward",
        Hook::Output => "output",
        Hook::Postrouting => "postrouting",
        Hook::Ingress => "ingress",
    }
}

pub(super) fn chain_type(kind: ChainType) -> &'static str {
    match kind {
        ChainType::Filter => "filter",
        ChainType::Nat => "nat",
        ChainType::Route => "route",
        ChainType::Foreign => "unknown",
    }
}

/// The protocols of /etc/protocols that a Service or a health protocol can have.
pub(super) fn protocol(number: u8) -> Option<&'static str> {
    find(
        number.into(),
        &[
            (1, "icmp"),
            (2, "igmp"),
            (4, "ipencap"),
            (6, "tcp"),
            (17, "udp"),
            (33, "dccp"),
            (41, "ipv6"),
            (47, "gre"),
            (50, "esp"),
            (51, "ah"),
            (58, "ipv6-icmp"),
            (89, "ospf"),
            (112, "vrrp"),
            (132, "sctp"),
            (136, "udplite"),
        ],
    )
}

/// Protocols with ports, whose name then stands for `th`.
pub(super) fn with_ports(protocol: u8) -> Option<&'static str> {
    find(protocol.into(), &[(6, "tcp"), (17, "udp"), (33, "dccp"), (132, "sctp"), (136, "udplite")])
}

pub(super) const ICMP: u8 = 1;
pub(super) const ICMPV6: u8 = 58;
pub(super) const TCP: u8 = 6;

pub(super) fn icmp_type(number: u8) -> Option<&'static str> {
    find(
        number.into(),
        &[
            (0, "echo-reply"),
            (3, "destination-unreachable"),
            (4, "source-quench"),
            (5, "redirect"),
            (8, "echo-request"),
            (9, "router-advertisement"),
            (10, "router-solicitation"),
            (11, "time-exceeded"),
            (12, "parameter-problem"),
            (13, "timestamp-request"),
            (14, "timestamp-reply"),
            (15, "info-request"),
            (16, "info-reply"),
            (17, "address-mask-request"),
            (18, "address-mask-reply"),
        ],
    )
}

pub(super) fn icmpv6_type(number: u8) -> Option<&'static str> {
    find(
        number.into(),
        &[
            (1, "destination-unreachable"),
            (2, "packet-too-big"),
            (3, "time-exceeded"),
            (4, "parameter-problem"),
            (128, "echo-request"),
            (129, "echo-reply"),
            (130, "mld-listener-query"),
            (131, "mld-listener-report"),
            (132, "mld-listener-done"),
            (133, "nd-router-solicit"),
            (134, "nd-router-advert"),
            (135, "nd-neighbor-solicit"),
            (136, "nd-neighbor-advert"),
            (137, "nd-redirect"),
            (138, "router-renumbering"),
            (141, "ind-neighbor-solicit"),
            (142, "ind-neighbor-advert"),
            (143, "mld2-listener-report"),
        ],
    )
}

/// RTN_*, as `fib daddr type` tells them.
pub(super) fn route_type(number: u32) -> Option<&'static str> {
    find(number, &[(1, "unicast"), (2, "local"), (3, "broadcast"), (5, "multicast")])
}

/// The bits of `ct state`, by name; `None`: one has no name.
pub(super) fn ct_state(bits: u32) -> Option<String> {
    bit_names(
        bits,
        &[
            (0x1, "invalid"),
            (0x2, "established"),
            (0x4, "related"),
            (0x8, "new"),
            (0x40, "untracked"),
        ],
    )
}

/// The bits of `ct status`, by name; `None`: one has no name.
pub(super) fn ct_status(bits: u32) -> Option<String> {
    const NAMED: [(u32, &str); 7] = [
        (0x1, "expected"),
        (0x2, "seen-reply"),
        (0x4, "assured"),
        (0x8, "confirmed"),
        (0x10, "snat"),
        (0x20, "dnat"),
        (0x200, "dying"),
    ];
    bit_names(bits, &NAMED)
}

fn bit_names(bits: u32, named: &[(u32, &str)]) -> Option<String> {
    let known = named.iter().fold(0, |all, (bit, _)| all | bit);
    let names: Vec<_> =
        named.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    (bits != 0 && bits & !known == 0).then(|| names.join(","))
}

fn find(number: u32, names: &[(u32, &'static str)]) -> Option<&'static str> {
    names.iter().find(|(each, _)| *each == number).map(|(_, name)| *name)
}
