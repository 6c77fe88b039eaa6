//! Netlink's framing (linux/netlink.h): messages and nested attributes, written and read.

use std::ffi::CStr;

/// NLMSG_ERROR: an acknowledgement, or an error.
pub(crate) const ERROR: u16 = 2;
/// NLMSG_DONE: the end of a dump.
pub(crate) const DONE: u16 = 3;

pub(crate) const REQUEST: u16 = 0x1;
pub(crate) const ACK: u16 = 0x4;
pub(crate) const DUMP: u16 = 0x300;
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const APPEND: u16 = 0x800;
/// NLM_F_DUMP_INTR: what is dumped changed meanwhile.
pub(crate) const DUMP_INTERRUPTED: u16 = 0x10;

const HEADER: usize = 16;
const ATTRIBUTE_HEADER: usize = 4;
/// NLA_F_NESTED.
const NESTED: u16 = 0x8000;
/// NLA_TYPE_MASK: without NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const TYPE_MASK: u16 = 0x3fff;

/// A message that breaks the framing or lacks what its kind must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed netlink message: {0}")]
pub struct Malformed(pub(crate) &'static str);

/// Writes messages one after the other into one buffer.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    buffer: Vec<u8>,
    message: usize,
    oversized: bool,
}

/// Where a nested attribute began.
#[must_use]
pub(crate) struct Nest(usize);

impl Writer {
    pub(crate) fn clear(&mut self) {
        self.buffer.clear();
        self.oversized = false;
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.buffer
    }

    /// An attribute was longer than its 16 bit length can say.
    pub(crate) fn is_oversized(&self) -> bool {
        self.oversized
    }

    /// Gives the room back that only a large batch needed.
    pub(crate) fn shrink_to(&mut self, capacity: usize) {
        self.buffer.shrink_to(capacity);
    }

    /// Begins a message: its header and the fixed part after it.
    pub(crate) fn begin(&mut self, kind: u16, flags: u16, sequence: u32, fixed: &[u8]) {
        self.message = self.buffer.len();
        self.buffer.extend_from_slice(&0u32.to_ne_bytes());
        self.buffer.extend_from_slice(&kind.to_ne_bytes());
        self.buffer.extend_from_slice(&flags.to_ne_bytes());
        self.buffer.extend_from_slice(&sequence.to_ne_bytes());
        self.buffer.extend_from_slice(&0u32.to_ne_bytes());
        self.buffer.extend_from_slice(fixed);
        self.pad();
    }

    /// Ends the message begun last.
    pub(crate) fn end(&mut self) {
        let length = (self.buffer.len() - self.message) as u32;
        self.buffer[self.message..][..4].copy_from_slice(&length.to_ne_bytes());
    }

    /// Adds flags to the message begun last.
    pub(crate) fn add_flags(&mut self, flags: u16) {
        let at = self.message + 6;
        let old = u16::from_ne_bytes([self.buffer[at], self.buffer[at + 1]]);
        self.buffer[at..at + 2].copy_from_slice(&(old | flags).to_ne_bytes());
    }

    /// Bytes of the message begun last.
    pub(crate) fn message_len(&self) -> usize {
        self.buffer.len() - self.message
    }

    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.attribute_header(kind, value.len());
        self.buffer.extend_from_slice(value);
        self.pad();
    }

    /// Attributes that were read elsewhere.
    pub(crate) fn raw(&mut self, attributes: &[u8]) {
        self.buffer.extend_from_slice(attributes);
        self.pad();
    }

    pub(crate) fn string(&mut self, kind: u16, value: &str) {
        self.attribute_header(kind, value.len() + 1);
        self.buffer.extend_from_slice(value.as_bytes());
        self.buffer.push(0);
        self.pad();
    }

    pub(crate) fn be32(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_be_bytes());
    }

    pub(crate) fn nest(&mut self, kind: u16) -> Nest {
        let nest = Nest(self.buffer.len());
        self.attribute_header(kind | NESTED, 0);
        nest
    }

    pub(crate) fn end_nest(&mut self, Nest(at): Nest) {
        let length = self.attribute_length(self.buffer.len() - at);
        self.buffer[at..at + 2].copy_from_slice(&length.to_ne_bytes());
    }

    fn attribute_header(&mut self, kind: u16, value_len: usize) {
        let length = self.attribute_length(ATTRIBUTE_HEADER + value_len);
        self.buffer.extend_from_slice(&length.to_ne_bytes());
        self.buffer.extend_from_slice(&kind.to_ne_bytes());
    }

    fn attribute_length(&mut self, length: usize) -> u16 {
        u16::try_from(length).unwrap_or_else(|_| {
            self.oversized = true;
            0
        })
    }

    fn pad(&mut self) {
        self.buffer.resize(self.buffer.len().next_multiple_of(4), 0);
    }
}

/// A message as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// nlmsg_type
    pub kind: u16,
    /// nlmsg_flags
    pub flags: u16,
    /// nlmsg_seq
    pub sequence: u32,
    /// nlmsg_pid: the port whose request this answers or tells of.
    pub port: u32,
    /// What follows the header.
    pub payload: &'a [u8],
}

/// The messages of one datagram. After a malformed one it ends.
#[derive(Clone, Debug)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    /// Reads a datagram.
    pub fn new(datagram: &'a [u8]) -> Self {
        Self(datagram)
    }

    fn read(&mut self) -> Result<Message<'a>, Malformed> {
        let (header, _) = self.0.split_first_chunk::<HEADER>().ok_or(Malformed("short header"))?;
        let word = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
        let length = u32::from_ne_bytes(word(0)) as usize;
        let message = self.0.get(..length).ok_or(Malformed("longer than its datagram"))?;
        let payload = message.get(HEADER..).ok_or(Malformed("shorter than its header"))?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Ok(Message {
            kind: u16::from_ne_bytes([header[4], header[5]]),
            flags: u16::from_ne_bytes([header[6], header[7]]),
            sequence: u32::from_ne_bytes(word(8)),
            port: u32::from_ne_bytes(word(12)),
            payload,
        })
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let message = self.read();
        if message.is_err() {
            self.0 = &[];
        }
        Some(message)
    }
}

/// The attributes of a message or of a nest. After a malformed one it ends.
#[derive(Clone, Debug)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// Reads attributes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The attributes of a message behind a fixed part of `size` bytes.
    pub(crate) fn after(payload: &'a [u8], size: usize) -> Result<Self, Malformed> {
        payload.get(size..).map(Self).ok_or(Malformed("fixed part is missing"))
    }

    /// The values by type, those below `N`. Of the same type the last counts, as in nla_parse().
    pub(crate) fn by_type<const N: usize>(self) -> Result<[Option<&'a [u8]>; N], Malformed> {
        let mut values = [None; N];
        for attribute in self {
            let (kind, value) = attribute?;
            if let Some(slot) = values.get_mut(usize::from(kind)) {
                *slot = Some(value);
            }
        }
        Ok(values)
    }

    fn read(&mut self) -> Result<(u16, &'a [u8]), Malformed> {
        let (header, _) =
            self.0.split_first_chunk::<ATTRIBUTE_HEADER>().ok_or(Malformed("short attribute"))?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let attribute = self.0.get(..length).ok_or(Malformed("attribute longer than its nest"))?;
        let value = attribute
            .get(ATTRIBUTE_HEADER..)
            .ok_or(Malformed("attribute shorter than its header"))?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Ok((u16::from_ne_bytes([header[2], header[3]]) & TYPE_MASK, value))
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(u16, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let attribute = self.read();
        if attribute.is_err() {
            self.0 = &[];
        }
        Some(attribute)
    }
}

/// A big-endian number.
pub(crate) fn be32(value: &[u8]) -> Result<u32, Malformed> {
    let bytes = value.try_into().map_err(|_| Malformed("a number that is not of 4 bytes"))?;
    Ok(u32::from_be_bytes(bytes))
}

/// A string that ends with a zero.
pub(crate) fn string(value: &[u8]) -> Result<&str, Malformed> {
    let text = CStr::from_bytes_until_nul(value).map_err(|_| Malformed("a string without end"))?;
    text.to_str().map_err(|_| Malformed("a string that is not UTF-8"))
}

/// The errno of an NLMSG_ERROR, 0 for an acknowledgement.
pub(crate) fn errno(payload: &[u8]) -> Result<i32, Malformed> {
    let (number, _) = payload.split_first_chunk::<4>().ok_or(Malformed("short error"))?;
    i32::from_ne_bytes(*number).checked_neg().ok_or(Malformed("impossible errno"))
}

/// Where in the request the attribute is that an NLMSG_ERROR is about.
pub(crate) fn error_offset(error: &Message<'_>) -> Option<usize> {
    /// NLM_F_CAPPED and NLM_F_ACK_TLVS: no copy of the request, but attributes.
    const CAPPED_WITH_ATTRIBUTES: u16 = 0x300;
    if error.flags & CAPPED_WITH_ATTRIBUTES != CAPPED_WITH_ATTRIBUTES {
        return None;
    }
    let [_, _, offset] = Attributes::after(error.payload, 4 + HEADER).ok()?.by_type().ok()?;
    Some(u32::from_ne_bytes(offset?.try_into().ok()?) as usize)
}

/// The errno that ended a dump, 0 if it is complete.
pub(crate) fn done_errno(payload: &[u8]) -> i32 {
    errno(payload).unwrap_or(0).max(0)
}
