//! As much of SCTP (RFC 9260) as a probe needs: the first message of an association, and the answer
//! to it. Over raw sockets: many a kernel has no others.
//!
//! The answer's state cookie, which is the answering side's own, says who answers and whom it saw.

use std::net::{SocketAddr, UdpSocket};

use nix::errno::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use crate::Family;

/// The number of the protocol.
pub(crate) const PROTOCOL: Protocol = Protocol::SCTP;

/// Bytes of the common header: ports, verification tag, checksum.
const HEADER: usize = 12;
/// Bytes of an INIT chunk up to its parameters.
const CHUNK: usize = 20;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
/// The type of the state cookie's parameter.
const COOKIE: u16 = 7;

/// The window and the number of streams that both sides offer.
const OFFER: [u8; 8] = [0, 1, 0, 0, 0, 1, 0, 1];

/// An association that a probe asks for.
pub(crate) struct Init {
    from: u16,
    to: u16,
    tag: u32,
}

impl Init {
    /// To a port, from one that no other probe of this process has at that time.
    pub(crate) fn new(to: u16) -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed) ^ std::process::id() << 12;
        let from = 1024 + u16::try_from(count % 60_000).expect("60,000 are less than 2^16");
        // Not 0, which no tag may be.
        Self { from, to, tag: count | 1 << 31 }
    }

    /// The first message.
    pub(crate) fn packet(&self) -> Vec<u8> {
        write([self.from, self.to], 0, INIT, self.tag, &[])
    }

    /// What the answer's cookie says, if a packet is the answer.
    pub(crate) fn answer(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let ports = [self.to, self.from].map(u16::to_be_bytes).concat();
        let ours = packet.get(..4)? == ports
            && packet.get(4..8)? == self.tag.to_be_bytes()
            && packet.get(HEADER)? == &INIT_ACK
            && is_whole(packet);
        let cookie = packet.get(HEADER + CHUNK..)?;
        let length = usize::from(u16::from_be_bytes([*cookie.get(2)?, *cookie.get(3)?]));
        let is_cookie = cookie.get(..2)? == COOKIE.to_be_bytes();
        (ours && is_cookie).then(|| cookie.get(4..length).map(<[u8]>::to_vec)).flatten()
    }
}

/// What a raw socket of a family received, without the header that one of IPv4 shows.
pub(crate) fn packet(family: Family, bytes: &[u8]) -> Option<&[u8]> {
    match family {
        Family::Ipv4 => bytes.get(usize::from(bytes.first()? & 15) * 4..),
        Family::Ipv6 => Some(bytes),
    }
}

/// Hears every SCTP packet of a family for its namespace; there may be no IPv6.
pub(crate) fn listen(family: Family) -> std::io::Result<Option<UdpSocket>> {
    let domain = match family {
        Family::Ipv4 => Domain::IPV4,
        Family::Ipv6 => Domain::IPV6,
    };
    match Socket::new(domain, Type::RAW, Some(PROTOCOL)) {
        // The standard library's type for sockets that send and receive whole messages.
        Ok(socket) => Ok(Some(socket.into())),
        Err(e) if e.raw_os_error() == Some(Errno::EAFNOSUPPORT as i32) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Answers every first message to one of the ports.
pub(crate) fn serve(
    family: Family,
    socket: &UdpSocket,
    ports: &[u16],
    answer: impl Fn(SocketAddr) -> String,
) {
    let mut bytes = [0; 2048];
    loop {
        // An ICMP error of an earlier answer comes out here.
        let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
        let Some(asked) = packet(family, &bytes[..length]).and_then(Asked::read) else { continue };
        if ports.contains(&asked.to) {
            let client = SocketAddr::new(from.ip(), asked.from);
            let _ = socket.send_to(&asked.answer(&answer(client)), SocketAddr::new(from.ip(), 0));
        }
    }
}

/// A first message, as the other side has it.
struct Asked {
    from: u16,
    to: u16,
    tag: u32,
}

impl Asked {
    fn read(packet: &[u8]) -> Option<Self> {
        let [a, b, c, d, ..] = *packet.first_chunk::<{ HEADER + CHUNK }>()?;
        let tag = u32::from_be_bytes(*packet.get(HEADER + 4..)?.first_chunk()?);
        let (from, to) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        (packet[HEADER] == INIT && is_whole(packet)).then_some(Self { from, to, tag })
    }

    fn answer(&self, cookie: &str) -> Vec<u8> {
        let length = u16::try_from(4 + cookie.len()).expect("a line is shorter than 1 KiB");
        let parameter = [&COOKIE.to_be_bytes(), &length.to_be_bytes(), cookie.as_bytes()].concat();
        write([self.to, self.from], self.tag, INIT_ACK, self.tag, &parameter)
    }
}

fn write(ports: [u16; 2], tag: u32, chunk: u8, own_tag: u32, parameter: &[u8]) -> Vec<u8> {
    let length = u16::try_from(CHUNK + parameter.len()).expect("a line is shorter than 1 KiB");
    let mut packet = ports.map(u16::to_be_bytes).concat();
    packet.extend(tag.to_be_bytes());
    packet.extend([0; 4]);
    packet.extend([chunk, 0]);
    packet.extend(length.to_be_bytes());
    packet.extend(own_tag.to_be_bytes());
    packet.extend(OFFER);
    // Where its numbers begin.
    packet.extend(own_tag.to_be_bytes());
    packet.extend(parameter);
    packet.resize(packet.len().next_multiple_of(4), 0);
    let sum = crc32c(&packet);
    packet[8..HEADER].copy_from_slice(&sum.to_le_bytes());
    packet
}

/// Whether the checksum fits.
fn is_whole(packet: &[u8]) -> bool {
    let Some(sum) = packet.get(8..HEADER) else { return false };
    let mut rest = packet.to_vec();
    rest[8..HEADER].fill(0);
    sum == crc32c(&rest).to_le_bytes()
}

/// RFC 9260, appendix A: Castagnoli's polynomial, bits in reverse.
fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_rfc() {
        // RFC 3720, B.4, which SCTP shares it with.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn an_answer_is_for_the_probe_that_asked() {
        let (one, other) = (Init::new(80), Init::new(80));
        let asked = Asked::read(&one.packet()).unwrap();
        assert_eq!((asked.from, asked.to, asked.tag), (one.from, 80, one.tag));
        let answer = asked.answer("it is me");
        assert_eq!(one.answer(&answer), Some(b"it is me".to_vec()));
        assert_eq!(other.answer(&answer), None);
        let mut damaged = answer.clone();
        damaged[HEADER + CHUNK + 5] ^= 1;
        assert_eq!(one.answer(&damaged), None);
        for length in 0..answer.len() {
            assert_eq!(one.answer(&answer[..length]), None);
            assert!(Asked::read(&one.packet()[..length.min(31)]).is_none());
        }
    }
}
