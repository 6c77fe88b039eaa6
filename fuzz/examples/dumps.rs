//! Writes seeds of `netlink`: what the kernel answers to dumps in the network namespace that this
//! runs in. Start it as root in a node of a lab, with the names of the table's sets:
//!
//! ```sh
//! signpost lab up && signpost lab exec node-a fuzz/target/debug/examples/dumps svc ep
//! ```

use std::io;
use std::path::Path;

use netlink_sys::Socket;
use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};

/// NLM_F_REQUEST | NLM_F_DUMP.
const REQUEST_DUMP: u16 = 0x301;
/// NFNL_SUBSYS_NFTABLES and NFNL_SUBSYS_CTNETLINK, as the high byte of a message's type.
const NFTABLES: u16 = 10 << 8;
const CTNETLINK: u16 = 1 << 8;
/// NFPROTO_IPV4 and AF_INET.
const IPV4: u8 = 2;

fn main() -> io::Result<()> {
    for (name, kind) in [("tables", 1), ("chains", 4), ("rules", 7), ("sets", 10)] {
        record(name, NETLINK_NETFILTER, NFTABLES | kind, &[IPV4, 0, 0, 0])?;
    }
    for set in std::env::args().skip(1) {
        let mut body = vec![IPV4, 0, 0, 0];
        attribute(&mut body, 1, "signpost");
        attribute(&mut body, 2, &set);
        record(&format!("elements-{set}"), NETLINK_NETFILTER, NFTABLES | 13, &body)?;
    }
    record("conntrack", NETLINK_NETFILTER, CTNETLINK | 1, &[IPV4, 0, 0, 0])?;
    for (name, kind, body) in [("links", 18, 16), ("addresses", 22, 8), ("routes", 26, 12)] {
        record(name, NETLINK_ROUTE, kind, &vec![0; body])?;
    }
    Ok(())
}

/// A string of the kernel: with its NUL, padded to four bytes.
fn attribute(body: &mut Vec<u8>, kind: u16, text: &str) {
    let length = u16::try_from(4 + text.len() + 1).expect("a name is short");
    body.extend(length.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(text.as_bytes());
    body.push(0);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Asks for a dump and writes its first datagram.
fn record(name: &str, protocol: isize, kind: u16, body: &[u8]) -> io::Result<()> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    let length = u32::try_from(16 + body.len()).expect("a request is short");
    let mut request = length.to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend(REQUEST_DUMP.to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    socket.send(&request, 0)?;
    let (mut answer, _) = socket.recv_from_full()?;
    // More of the same kind teaches a fuzzer nothing.
    answer.truncate(4096);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds/netlink");
    std::fs::write(folder.join(name), answer)
}
