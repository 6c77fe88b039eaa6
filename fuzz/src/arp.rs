//! A frame from the segment.

use signpost_packet::Arp;

/// Reads a frame; what is understood is written and read again without a difference.
pub fn arp(data: &[u8]) {
    let Some((ethernet, arp)) = Arp::parse_frame(data) else { return };
    let (again, same) = Arp::parse_frame(&arp.frame(ethernet.destination)).expect("what we write");
    assert_eq!(same, arp);
    assert_eq!(again.destination, ethernet.destination);
}
