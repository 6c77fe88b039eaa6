//! A length of four bytes, and as many bytes.

use std::io::{Error, ErrorKind, Read, Result, Write};

/// Of what a program reads or prints: a guest's memory holds a few of these at once.
pub(super) const PART_MAX: usize = 64 << 20;

/// Of a request or a reply: what Linux takes for the arguments of a program, and some more.
pub(super) const HEAD_MAX: usize = 4 << 20;

pub(super) fn write(to: &mut impl Write, bytes: &[u8]) -> Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| too_long(bytes.len(), PART_MAX))?;
    to.write_all(&length.to_be_bytes())?;
    to.write_all(bytes)
}

pub(super) fn read(from: &mut impl Read, max: usize) -> Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > max {
        return Err(too_long(length, max));
    }
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

fn too_long(length: usize, max: usize) -> Error {
    Error::new(ErrorKind::InvalidData, format!("{length} bytes, more than {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], max: usize, expect: std::result::Result<&[u8], ErrorKind>) {
        let read = read(&mut &*bytes, max);
        assert_eq!(read.as_deref().map_err(Error::kind), expect, "{bytes:?}");
    }

    #[test]
    fn a_frame_is_read_whole_or_not_at_all() {
        check(&[0, 0, 0, 2, 7, 8, 9], 2, Ok(&[7, 8]));
        check(&[0, 0, 0, 0], 0, Ok(&[]));
        check(&[0, 0, 0, 3, 7, 8], 9, Err(ErrorKind::UnexpectedEof));
        check(&[0, 0, 0], 9, Err(ErrorKind::UnexpectedEof));
        check(&[0, 0, 0, 3, 7, 8, 9], 2, Err(ErrorKind::InvalidData));
        check(&[255, 255, 255, 255, 7], HEAD_MAX, Err(ErrorKind::InvalidData));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        write(&mut bytes, b"one").unwrap();
        write(&mut bytes, b"").unwrap();
        let mut rest = &*bytes;
        assert_eq!(read(&mut rest, 9).unwrap(), b"one");
        assert_eq!(read(&mut rest, 9).unwrap(), b"");
        assert!(rest.is_empty());
    }
}
