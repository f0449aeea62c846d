//! Archives in cpio's "newc" form: what the kernel takes as its first file system. Several may stand one after the
//! other.

/// Mode bits of a directory, a file that may be run, and a link.
const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive under construction.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a directory; parents must come first.
    pub fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY, &[]);
    }

    /// Adds a file that may be run.
    pub fn file(&mut self, path: &str, bytes: &[u8]) {
        self.entry(path, FILE, bytes);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.entry(path, LINK, target.as_bytes());
    }

    /// The archive with its end.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, bytes: &[u8]) {
        self.entries += 1;
        let links = if mode == DIRECTORY { 2 } else { 1 };
        let (size, name) = (bytes.len() as u32, path.len() as u32 + 1);
        // Inode, mode, user, group, links, time, size, four device numbers, length of the name, check sum.
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name, 0];
        self.bytes.extend_from_slice(b"070701");
        fields.iter().for_each(|field| self.bytes.extend_from_slice(format!("{field:08X}").as_bytes()));
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(bytes);
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
    fn entries_have_the_form_that_the_kernel_reads() {
        let mut archive = Archive::default();
        archive.directory("bin");
        archive.file("bin/x", b"12345");
        archive.link("sh", "bin/x");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let head = std::str::from_utf8(&bytes[..110]).unwrap();
        assert_eq!(&head[..22], "07070100000001000041ED");
        assert_eq!((&bytes[110..114], bytes[114]), (&b"bin\0"[..], 0), "the name ends, then zeroes up to four bytes");
        // 110 + 4 is 114, padded to 116, where the next entry begins.
        assert_eq!(&bytes[116..122], b"070701");
        let file = &bytes[116..];
        assert_eq!(std::str::from_utf8(&file[54..62]).unwrap(), "00000005", "its size");
        assert_eq!(&file[110..116], b"bin/x\0");
        assert_eq!(&file[116..124], b"12345\0\0\0");
        assert!(bytes.windows(10).any(|window| window == b"TRAILER!!!"));
    }
}
