//! Files and devices on which layers keep something, while no stack uses them.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use esker_block::{MediaCheck, ReadMedium};

/// A file of which only bytes are read.
pub struct ReadFile {
    file: File,
    size: u64,
}

impl ReadFile {
    /// Opens a file or a block device.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(path: impl AsRef<Path>) -> io::Result<ReadFile> {
        let mut file = File::open(path)?;
        let size = file.seek(SeekFrom::End(0))?;
        Ok(ReadFile { file, size })
    }
}

impl ReadMedium for ReadFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, at)
    }
}

/// The checkers of all kinds.
pub fn checkers() -> impl Iterator<Item = MediaCheck> {
    esker_kinds::ALL.iter().filter_map(|kind| kind.check)
}

/// The checker whose mark a file bears.
///
/// # Errors
/// The kernel's.
pub fn checker(file: &ReadFile) -> io::Result<Option<MediaCheck>> {
    for check in checkers() {
        match (check.is_marked)(file) {
            Ok(false) => {}
            Ok(true) => return Ok(Some(check)),
            // It is too short for this format.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
