//! Where the kernel is in the file that boot loaders take, by the kernel's x86 boot protocol.

/// Of the boot protocol: the first with the payload's place.
const VERSION_MIN: usize = 0x0208;

/// What xz begins with.
const XZ: &[u8] = b"\xfd7zXZ\0";

/// The packed kernel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Payload<'a> {
    pub(super) xz: &'a [u8],
    pub(super) unpacked_length: usize,
}

/// Finds it; says why it cannot.
pub(super) fn payload(image: &[u8]) -> Result<Payload<'_>, &'static str> {
    const SHORT: &str = "it is shorter than it says";
    if image.get(0x202..0x206) != Some(b"HdrS") {
        return Err("it is no kernel for x86");
    }
    let word = |at: usize| image.get(at..at + 4).and_then(|b| b.try_into().ok());
    let number = |at| word(at).map(|b| u32::from_le_bytes(b) as usize).ok_or(SHORT);
    // The protocol's version is in the lower half; more follows it in every image.
    if number(0x206)? & 0xffff < VERSION_MIN {
        return Err("it is of a kernel before 2.6.26");
    }
    // Sectors of code for the 16-bit mode; 0 means 4. The boot sector comes before them.
    let sectors = if image[0x1f1] == 0 { 4 } else { usize::from(image[0x1f1]) };
    let start = (sectors + 1) * 512 + number(0x248)?;
    let payload = image.get(start..start + number(0x24c)?).ok_or(SHORT)?;
    let (xz, length) = payload.split_last_chunk::<4>().ok_or(SHORT)?;
    if !xz.starts_with(XZ) {
        return Err("its kernel is packed otherwise than with xz");
    }
    Ok(Payload { xz, unpacked_length: u32::from_le_bytes(*length) as usize })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One sector of code, then `before`, then a payload of `xz` and its length.
    fn image(version: u16, before: usize, xz: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 1024 + before];
        bytes[0x1f1] = 1;
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x206..0x208].copy_from_slice(&version.to_le_bytes());
        bytes[0x248..0x24c].copy_from_slice(&u32::try_from(before).unwrap().to_le_bytes());
        let length = u32::try_from(xz.len() + 4).unwrap();
        bytes[0x24c..0x250].copy_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(xz);
        bytes.extend_from_slice(&[0x10, 0x20, 0, 0]);
        bytes
    }

    #[test]
    fn the_payload_is_found_where_the_header_says() {
        let xz = b"\xfd7zXZ\0rest";
        let mut bytes = image(0x20f, 7, xz);
        assert_eq!(payload(&bytes), Ok(Payload { xz, unpacked_length: 0x2010 }));
        bytes.extend_from_slice(b"what follows the payload");
        assert_eq!(payload(&bytes), Ok(Payload { xz, unpacked_length: 0x2010 }));
    }

    #[test]
    fn what_is_no_such_kernel_is_refused() {
        let check = |bytes: &[u8], expect: &str| {
            let error = payload(bytes).unwrap_err();
            assert!(error.contains(expect), "{error}");
        };
        let fine = image(0x20f, 0, b"\xfd7zXZ\0");
        check(b"", "no kernel");
        check(&vec![0; 4096], "no kernel");
        check(&fine[..fine.len() - 1], "shorter");
        for length in [0x206, 0x207, 0x24a, 0x24f] {
            check(&fine[..length], "shorter");
        }
        check(&image(0x207, 0, b"\xfd7zXZ\0"), "2.6.26");
        check(&image(0x20f, 0, b"\x1f\x8b\x08"), "otherwise");
        let mut huge = fine.clone();
        huge[0x248..0x250].fill(0xff);
        check(&huge, "shorter");
    }
}
