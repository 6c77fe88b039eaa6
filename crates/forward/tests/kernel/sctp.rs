//! SCTP, by raw packets: this kernel may have no sockets for it.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use signpost_forward::{Forward, Options};
use signpost_plan::{Asked, Protocol};
use socket2::{Domain, Socket, Type};

use crate::bed::{Bed, POD_PORT, V4, V6};
use crate::tables::{here, table};

const SCTP: i32 = 132;
const CLIENT_PORT: u16 = 40_000;
const PORT: u16 = 80;

/// RFC 9260, 3.3.2: a common header and an INIT chunk.
fn init() -> Vec<u8> {
    let mut packet = Vec::new();
    packet.extend(CLIENT_PORT.to_be_bytes());
    packet.extend(PORT.to_be_bytes());
    // Verification tag, checksum.
    packet.extend([0; 8]);
    // INIT, flags, length; initiate tag, window, streams, first number.
    packet.extend([1, 0, 0, 20]);
    packet.extend(0x1234_5678_u32.to_be_bytes());
    packet.extend(65_536_u32.to_be_bytes());
    packet.extend([0, 1, 0, 1]);
    packet.extend(1_u32.to_be_bytes());
    let checksum = crc32c(&packet);
    packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    packet
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 }
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}

fn raw(address: &str) -> Socket {
    let address: IpAddr = address.parse().unwrap();
    let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::RAW, Some(SCTP.into())).unwrap();
    socket.bind(&SocketAddr::new(address, 0).into()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

#[test]
fn an_association_is_led_to_an_endpoint() {
    let bed = Bed::new();
    let mut forward = bed.inside("node", || Forward::open(Options::default()).unwrap());
    let mut tables = Vec::new();
    for n in [&V4, &V6] {
        let vip: IpAddr = format!("{}1", n.services).parse().unwrap();
        let mut one = table(n.node, Asked::Vip(vip), PORT, &[here(n.pods[0])]);
        one.entries.truncate(1);
        one.entries[0].frontend.protocol = Protocol::Sctp;
        tables.push(one);
    }
    assert!(forward.sync(tables, &Bed::scope()).is_complete);
    for n in [&V4, &V6] {
        let vip: IpAddr = format!("{}1", n.services).parse().unwrap();
        let mut pod = bed.inside("a", || raw(n.pods[0]));
        bed.inside("client", || {
            let to = SocketAddr::new(vip, 0);
            raw(n.client).send_to(&init(), &to.into()).unwrap();
        });
        let mut buffer = [0; 128];
        let length = pod.read(&mut buffer).unwrap();
        // IPv4 comes with its header.
        let packet = if vip.is_ipv4() { &buffer[20..length] } else { &buffer[..length] };
        let mut want = init();
        want[2..4].copy_from_slice(&POD_PORT.to_be_bytes());
        want[8..12].fill(0);
        let checksum = crc32c(&want);
        want[8..12].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(packet, want, "{vip}");
    }
}
