//! A datagram from the kernel.

/// Runs every parser of netlink messages over it.
pub fn netlink(data: &[u8]) {
    signpost_netlink::fuzz_read(data);
}
