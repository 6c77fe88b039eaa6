//! The mesh's datagrams, both ways.
//!
//! ```text
//! "SGN" version=1 | kind | flags | name length | name | boot 8 | sequence 8 | body | tag 32
//! ```
//! All numbers are big-endian. The tag is there if a flag says so, and covers all before it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use signpost_packet::Mac;

use super::auth::{Key, TAG_LEN};

/// What is sent at most: fits any path's MTU unfragmented.
pub(crate) const DATAGRAM_MAX: usize = 1200;
/// RFC 1123: a name's limit, and Kubernetes' for a Node.
const NAME_MAX: usize = 253;
/// Interfaces that a heartbeat names.
pub(crate) const MACS_MAX: usize = 16;
/// 65,536 IPv6 entries in datagrams that a long name leaves the least room in.
pub(crate) const PARTS_MAX: u16 = 2048;

const MAGIC: [u8; 4] = *b"SGN\x01";
const FLAG_AUTHENTICATED: u8 = 1;
const FLAG_LISTENING: u8 = 2;
const FLAG_MULTICAST: u8 = 4;
const FLAG_WANTED: u8 = 8;
const ENTRY_V6: u8 = 1;
const ENTRY_OWNED: u8 = 2;
const ENTRY_REMOVED: u8 = 4;

/// Who says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header<'a> {
    pub(crate) name: &'a str,
    pub(crate) boot: u64,
    pub(crate) sequence: u64,
    pub(crate) flags: Flags,
}

/// What holds for every datagram of a member at that moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// It has just started, or stood still: it claims nothing, and what it owns only if nobody
    /// else does.
    pub(crate) listening: bool,
    /// This copy went to the group.
    pub(crate) multicast: bool,
    /// It does not hear the receiver by multicast.
    pub(crate) wanted: bool,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    Heartbeat(Heartbeat),
    /// The set that was `base` is `epoch` after these.
    Delta {
        base: u32,
        epoch: u32,
        entries: Entries<'a>,
    },
    /// Part `index` of `count` of the whole set.
    Part {
        epoch: u32,
        index: u16,
        count: u16,
        entries: Entries<'a>,
    },
    /// Send me your whole set.
    Pull {
        boot: u64,
    },
    /// Prove that you live now.
    Challenge {
        boot: u64,
        nonce: u64,
    },
    Response {
        boot: u64,
        nonce: u64,
    },
    /// The process ends; `None`: for good.
    Leave {
        back: Option<Duration>,
    },
    /// What your node owned before you started, kept for you for that long.
    Yours {
        boot: u64,
        remaining: Duration,
        entries: Entries<'a>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    pub(crate) interval: Duration,
    pub(crate) multiplier: u8,
    pub(crate) epoch: u32,
    pub(crate) macs: Macs,
}

/// The Ethernet addresses of a member's interfaces, without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Macs {
    count: u8,
    macs: [Mac; MACS_MAX],
}

impl Macs {
    pub(crate) fn collect(macs: impl Iterator<Item = Mac>) -> Self {
        let mut all = Self { count: 0, macs: [Mac::ZERO; MACS_MAX] };
        for (slot, mac) in all.macs.iter_mut().zip(macs) {
            *slot = mac;
            all.count += 1;
        }
        all
    }

    pub(crate) fn as_slice(&self) -> &[Mac] {
        &self.macs[..usize::from(self.count)]
    }
}

/// What a member offers for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) address: IpAddr,
    pub(crate) weight: u16,
    pub(crate) owned: bool,
    pub(crate) removed: bool,
}

impl Entry {
    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&[flags, w0, w1], rest) = bytes.split_first_chunk()?;
        let (address, rest) = if flags & ENTRY_V6 == 0 {
            let (&a, rest) = rest.split_first_chunk::<4>()?;
            (IpAddr::V4(Ipv4Addr::from(a)), rest)
        } else {
            let (&a, rest) = rest.split_first_chunk::<16>()?;
            (IpAddr::V6(Ipv6Addr::from(a)), rest)
        };
        let entry = Self {
            address,
            weight: u16::from_be_bytes([w0, w1]),
            owned: flags & ENTRY_OWNED != 0,
            removed: flags & ENTRY_REMOVED != 0,
        };
        Some((entry, rest))
    }

    pub(crate) fn len(&self) -> usize {
        3 + match self.address {
            IpAddr::V4(_) => 4,
            IpAddr::V6(_) => 16,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let v6 = if self.address.is_ipv6() { ENTRY_V6 } else { 0 };
        let owned = if self.owned { ENTRY_OWNED } else { 0 };
        let removed = if self.removed { ENTRY_REMOVED } else { 0 };
        out.push(v6 | owned | removed);
        out.extend_from_slice(&self.weight.to_be_bytes());
        match self.address {
            IpAddr::V4(a) => out.extend_from_slice(&a.octets()),
            IpAddr::V6(a) => out.extend_from_slice(&a.octets()),
        }
    }
}

/// Entries that were checked, still as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entries<'a>(&'a [u8]);

impl<'a> Entries<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = Entry::parse(rest)?.1;
        }
        Some(Self(bytes))
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let (entry, rest) = Entry::parse(self.0)?;
        self.0 = rest;
        Some(entry)
    }
}

/// Why a datagram says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Not ours, another version, or cut short.
    Malformed,
    /// Signed by another key, or only one side has one.
    Unauthenticated,
}

/// Checks the tag before anything is believed.
pub(crate) fn parse<'a>(
    datagram: &'a [u8],
    key: Option<&Key>,
) -> Result<(Header<'a>, Body<'a>), Refused> {
    let (head, _) = datagram.split_first_chunk::<6>().ok_or(Refused::Malformed)?;
    if head[..4] != MAGIC {
        return Err(Refused::Malformed);
    }
    let signed = match (head[5] & FLAG_AUTHENTICATED != 0, key) {
        (false, None) => datagram,
        (true, Some(key)) => {
            let at = datagram.len().checked_sub(TAG_LEN).ok_or(Refused::Malformed)?;
            let (signed, tag) = datagram.split_at(at);
            if !key.verify(signed, tag) {
                return Err(Refused::Unauthenticated);
            }
            signed
        }
        (true, None) | (false, Some(_)) => return Err(Refused::Unauthenticated),
    };
    read(signed).ok_or(Refused::Malformed)
}

fn read(signed: &[u8]) -> Option<(Header<'_>, Body<'_>)> {
    let mut at = Reader(signed.get(4..)?);
    let [kind, flags, name_len] = at.take()?;
    let name = at.slice(usize::from(name_len))?;
    if name.is_empty() || name.len() > NAME_MAX {
        return None;
    }
    let header = Header {
        name: std::str::from_utf8(name).ok()?,
        boot: at.u64()?,
        sequence: at.u64()?,
        flags: Flags {
            listening: flags & FLAG_LISTENING != 0,
            multicast: flags & FLAG_MULTICAST != 0,
            wanted: flags & FLAG_WANTED != 0,
        },
    };
    let body = match kind {
        1 => Body::Heartbeat(Heartbeat {
            interval: Duration::from_millis(u64::from(at.u32()?)),
            multiplier: at.take::<1>()?[0],
            epoch: at.u32()?,
            macs: {
                let count = usize::from(at.take::<1>()?[0]).min(MACS_MAX);
                let bytes = at.slice(6 * count)?;
                Macs::collect(bytes.as_chunks::<6>().0.iter().map(|&m| Mac(m)))
            },
        }),
        2 => Body::Delta { base: at.u32()?, epoch: at.u32()?, entries: Entries::parse(at.0)? },
        3 => {
            let (epoch, index, count) = (at.u32()?, at.u16()?, at.u16()?);
            if index >= count || count > PARTS_MAX {
                return None;
            }
            Body::Part { epoch, index, count, entries: Entries::parse(at.0)? }
        }
        4 => Body::Pull { boot: at.u64()? },
        5 => Body::Challenge { boot: at.u64()?, nonce: at.u64()? },
        6 => Body::Response { boot: at.u64()?, nonce: at.u64()? },
        7 => {
            let back = at.u32()?;
            Body::Leave { back: (back > 0).then(|| Duration::from_millis(u64::from(back))) }
        }
        8 => Body::Yours {
            boot: at.u64()?,
            remaining: Duration::from_millis(u64::from(at.u32()?)),
            entries: Entries::parse(at.0)?,
        },
        _ => return None,
    };
    Some((header, body))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (&head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(head)
    }

    fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

/// Appends a datagram to an empty buffer.
pub(crate) fn write(out: &mut Vec<u8>, header: &Header<'_>, body: &Message<'_>, key: Option<&Key>) {
    let name = &header.name.as_bytes()[..header.name.len().min(NAME_MAX)];
    let bit = |set: bool, flag: u8| if set { flag } else { 0 };
    let flags = bit(key.is_some(), FLAG_AUTHENTICATED)
        | bit(header.flags.listening, FLAG_LISTENING)
        | bit(header.flags.multicast, FLAG_MULTICAST)
        | bit(header.flags.wanted, FLAG_WANTED);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[body.kind(), flags, name.len() as u8]);
    out.extend_from_slice(name);
    out.extend_from_slice(&header.boot.to_be_bytes());
    out.extend_from_slice(&header.sequence.to_be_bytes());
    body.write(out);
    if let Some(key) = key {
        key.sign(out);
    }
}

/// The bytes that a member of that name has for entries in one datagram.
pub(crate) fn room(name: &str) -> usize {
    const BODY_HEAD_MAX: usize = 16;
    DATAGRAM_MAX - 7 - name.len().min(NAME_MAX) - 16 - BODY_HEAD_MAX - TAG_LEN
}

/// [`Body`] before it is bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message<'a> {
    Heartbeat(&'a Heartbeat),
    Delta { base: u32, epoch: u32, entries: &'a [Entry] },
    Part { epoch: u32, index: u16, count: u16, entries: &'a [Entry] },
    Pull { boot: u64 },
    Challenge { boot: u64, nonce: u64 },
    Response { boot: u64, nonce: u64 },
    Leave { back: Option<Duration> },
    Yours { boot: u64, remaining: Duration, entries: &'a [Entry] },
}

impl Message<'_> {
    fn kind(&self) -> u8 {
        match self {
            Self::Heartbeat(_) => 1,
            Self::Delta { .. } => 2,
            Self::Part { .. } => 3,
            Self::Pull { .. } => 4,
            Self::Challenge { .. } => 5,
            Self::Response { .. } => 6,
            Self::Leave { .. } => 7,
            Self::Yours { .. } => 8,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Heartbeat(h) => {
                out.extend_from_slice(&millis(h.interval).to_be_bytes());
                out.push(h.multiplier);
                out.extend_from_slice(&h.epoch.to_be_bytes());
                out.push(h.macs.count);
                h.macs.as_slice().iter().for_each(|m| out.extend_from_slice(&m.0));
            }
            Self::Delta { base, epoch, entries } => {
                out.extend_from_slice(&base.to_be_bytes());
                out.extend_from_slice(&epoch.to_be_bytes());
                entries.iter().for_each(|e| e.write(out));
            }
            Self::Part { epoch, index, count, entries } => {
                out.extend_from_slice(&epoch.to_be_bytes());
                out.extend_from_slice(&index.to_be_bytes());
                out.extend_from_slice(&count.to_be_bytes());
                entries.iter().for_each(|e| e.write(out));
            }
            Self::Pull { boot } => out.extend_from_slice(&boot.to_be_bytes()),
            Self::Challenge { boot, nonce } | Self::Response { boot, nonce } => {
                out.extend_from_slice(&boot.to_be_bytes());
                out.extend_from_slice(&nonce.to_be_bytes());
            }
            Self::Leave { back } => {
                out.extend_from_slice(&back.map_or(0, |b| millis(b).max(1)).to_be_bytes());
            }
            Self::Yours { boot, remaining, entries } => {
                out.extend_from_slice(&boot.to_be_bytes());
                out.extend_from_slice(&millis(remaining).to_be_bytes());
                entries.iter().for_each(|e| e.write(out));
            }
        }
    }
}

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
