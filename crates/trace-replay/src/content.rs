//! What files are filled with: bytes that no file system can leave out, compress or share.

use esker_base::Stream;

/// Bytes that are made and written at once.
const CHUNK: usize = 1 << 20;

/// Endless bytes for one file: two files, and two places of one file, never have equal blocks.
pub(crate) struct Content {
    stream: Stream,
    chunk: Vec<u8>,
}

impl Content {
    /// The bytes of the file of that name.
    pub(crate) fn of(seed: u64, name: &[u8]) -> Content {
        Content { stream: Stream::named(seed, &String::from_utf8_lossy(name)), chunk: vec![0; CHUNK] }
    }

    /// The next bytes, at most `bytes` of them.
    pub(crate) fn next(&mut self, bytes: u64) -> &[u8] {
        let len = usize::try_from(bytes).map_or(CHUNK, |bytes| bytes.min(CHUNK));
        let chunk = &mut self.chunk[..len];
        self.stream.fill(chunk);
        chunk
    }
}
