//! Who may speak: HMAC-SHA256 over every datagram, by a key that the members share.

use std::fmt;

use ring::hmac;

/// Bytes of the tag at the end of an authenticated datagram.
pub(crate) const TAG_LEN: usize = 32;

/// The fewest bytes of a key: fewer can be searched through.
pub const KEY_MIN: usize = 16;
/// The most bytes of a key: a larger file is not a key.
pub const KEY_MAX: usize = 4096;

/// The key that all members share.
#[derive(Clone)]
pub struct Key(hmac::Key);

/// Why a file's contents cannot be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Too short.
    #[error("a mesh key needs at least {KEY_MIN} bytes, this one has {0}: `openssl rand -hex 32`")]
    Short(usize),
    /// Too long.
    #[error("a mesh key has at most {KEY_MAX} bytes, this one has {0}")]
    Long(usize),
}

impl Key {
    /// A key file's contents; white space around them is not part of the key.
    pub fn parse(contents: &[u8]) -> Result<Self, KeyError> {
        let secret = contents.trim_ascii();
        match secret.len() {
            n if n < KEY_MIN => Err(KeyError::Short(n)),
            n if n > KEY_MAX => Err(KeyError::Long(n)),
            _ => Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, secret))),
        }
    }

    pub(crate) fn sign(&self, datagram: &mut Vec<u8>) {
        let tag = hmac::sign(&self.0, datagram);
        datagram.extend_from_slice(tag.as_ref());
    }

    /// In constant time.
    pub(crate) fn verify(&self, signed: &[u8], tag: &[u8]) -> bool {
        hmac::verify(&self.0, signed, tag).is_ok()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_neither_too_short_nor_too_long_and_has_no_line_end() {
        assert_eq!(Key::parse(b"0123456789abcde\n").unwrap_err(), KeyError::Short(15));
        assert_eq!(Key::parse(&[b'a'; KEY_MAX + 1]).unwrap_err(), KeyError::Long(KEY_MAX + 1));
        let mut datagram = b"hello".to_vec();
        Key::parse(b"0123456789abcdef\n").unwrap().sign(&mut datagram);
        let same = Key::parse(b" 0123456789abcdef").unwrap();
        let (signed, tag) = datagram.split_at(5);
        assert!(same.verify(signed, tag));
        assert!(!same.verify(b"hellO", tag));
        assert!(!same.verify(signed, &tag[1..]));
        assert!(!Key::parse(b"0123456789abcdeF").unwrap().verify(signed, tag));
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", Key::parse(b"0123456789abcdef").unwrap()), "Key(..)");
    }
}
