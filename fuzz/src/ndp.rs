//! A frame of IPv6 from the segment.

use signpost_packet::Ndp;

/// Where an ICMPv6 message begins in a frame, behind the headers of Ethernet and IPv6.
const ICMP: usize = 14 + 40;

/// Reads a frame; what is understood is written and read again without a difference.
pub fn ndp(data: &[u8]) {
    read(data);
    if let Some(summed) = summed(data) {
        read(&summed);
    }
}

fn read(data: &[u8]) {
    let Some((ethernet, ndp)) = Ndp::parse_frame(data) else { return };
    let written = ndp.frame(ethernet.source, ethernet.destination);
    let (again, same) = Ndp::parse_frame(&written).expect("what we write");
    assert_eq!(same, ndp);
    assert_eq!(again, ethernet);
}

/// With the right checksum: else nothing behind its check would be reached.
fn summed(data: &[u8]) -> Option<Vec<u8>> {
    let mut frame = data.to_vec();
    frame.get_mut(ICMP + 2..ICMP + 4)?.fill(0);
    let len = usize::from(u16::from_be_bytes([frame[18], frame[19]]));
    let message = frame.get(ICMP..ICMP + len)?;
    // The pseudo-header: both addresses, the length, and 58 for ICMPv6.
    let parts = [&frame[22..ICMP], message].concat();
    let pairs = parts.chunks(2).map(|p| u32::from(p[0]) << 8 | p.get(1).map_or(0, |&b| b.into()));
    let mut sum = pairs.sum::<u32>() + len as u32 + 58;
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    let sum = !(sum as u16);
    frame[ICMP + 2..ICMP + 4].copy_from_slice(&sum.to_be_bytes());
    Some(frame)
}
