//! The sysctls of a lab's namespaces.

use crate::{Error, Family, Namespace};

/// Every refusal must be seen, or a probe takes it for a timeout; echo sockets are for its pings.
const ALL: [(&str, &str); 8] = [
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/accept_redirects", "0"),
    ("ipv4/conf/default/accept_redirects", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
    ("ipv4/icmp_ratelimit", "0"),
    // Of IPv6 too.
    ("ipv4/ping_group_range", "0 2147483647"),
];

/// Of a namespace since Linux 6.14; before, the machine's, and none of our business.
const OF_THE_MACHINE: [(&str, &str); 2] =
    [("ipv4/icmp_msgs_per_sec", "100000"), ("ipv4/icmp_msgs_burst", "10000")];

/// An address is there when it was added: nobody waits for those who might have it already.
const IPV6: [(&str, &str); 9] = [
    ("ipv6/conf/all/disable_ipv6", "0"),
    ("ipv6/conf/default/disable_ipv6", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/all/accept_ra", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/all/accept_redirects", "0"),
    ("ipv6/conf/default/accept_redirects", "0"),
    ("ipv6/icmp/ratelimit", "0"),
];

/// Runs in the namespace: what is written to `/proc/sys/net` is the writing thread's.
pub(super) fn write(ns: &Namespace, families: &[Family], forwards: bool) -> Result<(), Error> {
    let mut wanted = ALL.to_vec();
    if families.contains(&Family::Ipv6) {
        wanted.extend(IPV6);
    }
    for family in families.iter().filter(|_| forwards) {
        wanted.extend(match family {
            Family::Ipv4 => [("ipv4/ip_forward", "1")].as_slice(),
            Family::Ipv6 => {
                &[("ipv6/conf/all/forwarding", "1"), ("ipv6/conf/default/forwarding", "1")]
            }
        });
    }
    for (path, value) in wanted {
        std::fs::write(format!("/proc/sys/net/{path}"), value)
            .map_err(|cause| Error::Io { what: format!("net/{path} in {}", ns.name()), cause })?;
    }
    for (path, value) in OF_THE_MACHINE {
        let _ = std::fs::write(format!("/proc/sys/net/{path}"), value);
    }
    Ok(())
}
