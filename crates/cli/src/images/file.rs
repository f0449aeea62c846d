//! Files of sectors, one after the other. Their holes are asked of the file system.

use std::fs::File;
use std::io::{self, Seek};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use esker_layer_thin::images::{Sink, Source};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// A file or block device that is read.
pub struct RawSource {
    file: File,
    bytes: u64,
}

impl RawSource {
    pub fn of(mut file: File) -> io::Result<RawSource> {
        let bytes = file.seek(io::SeekFrom::End(0))?;
        Ok(RawSource { file, bytes })
    }
}

impl Source for RawSource {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn next_data(&mut self, from: u64) -> io::Result<Option<Range<u64>>> {
        let start = match seek(&self.file, SeekFrom::Data(from)) {
            Ok(start) if start < self.bytes => start,
            Ok(_) | Err(Errno::NXIO) => return Ok(None),
            // A file system or device that knows no holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok((from < self.bytes).then_some(from..self.bytes)),
            Err(error) => return Err(error.into()),
        };
        Ok(Some(start..seek(&self.file, SeekFrom::Hole(start))?.min(self.bytes)))
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, at)
    }
}

/// A new file that is written.
pub struct RawSink(pub File);

impl Sink for RawSink {
    fn begin(&mut self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn end(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}
