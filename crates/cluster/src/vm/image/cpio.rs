//! The archive that a kernel unpacks into its first root folder: cpio's `newc`.

/// Files in the order in which they were added.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    files: u32,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

impl Archive {
    /// Adds a folder; those above it come first.
    pub(super) fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER, b"");
    }

    /// Adds a file that may be run.
    pub(super) fn program(&mut self, name: &str, content: &[u8]) {
        self.entry(name, PROGRAM, content);
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, b"");
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.files += 1;
        let length = |bytes: usize| u32::try_from(bytes).expect("a file of an initramfs is small");
        // Number, mode, uid, gid, links, mtime, length, device, its device, the name's length, sum.
        let (content_length, name_length) = (length(content.len()), length(name.len() + 1));
        let fields = [self.files, mode, 0, 0, 1, 0, content_length, 0, 0, 0, 0, name_length, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_as_cpio_writes_it() {
        let mut archive = Archive::default();
        archive.folder("bin");
        archive.program("bin/x", b"hello");
        // Nine fields are always the same.
        let head = |number: u32, mode: &str, content: u32, name: u32| {
            let zeros = "00000000".repeat(4);
            format!(
                "070701{number:08x}{mode}{}{:08x}{}{content:08x}{zeros}{name:08x}{}",
                "00000000".repeat(2),
                1,
                "00000000",
                "00000000"
            )
        };
        let expect = [
            head(1, "000041ed", 0, 4),
            "bin\0\0\0".into(),
            head(2, "000081ed", 5, 6),
            "bin/x\0hello\0\0\0".into(),
            head(3, "00000000", 0, 11),
            "TRAILER!!!\0\0\0\0".into(),
        ]
        .concat();
        assert_eq!(String::from_utf8(archive.finish()).unwrap(), expect);
    }
}
