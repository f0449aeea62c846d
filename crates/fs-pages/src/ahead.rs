//! Streams of sequential readers: how far to read ahead of them.
//!
//! A reader that misses where its last fetch ended is sequential. Its window doubles with each fetch. The first frame
//! of what was read ahead is marked. A hit on it begins the next fetch, so the reader never waits if the device keeps
//! up (Linux's `readahead.c` has both rules).

use std::ops::Range;

use esker_vfs::Ino;

/// Bytes of the first window.
const FIRST_BYTES: u64 = 16 << 10;
/// Streams that are known at one time; the one that was not used for longest is forgotten.
const STREAMS: usize = 64;

struct AheadStream {
    ino: Ino,
    /// Frame behind the last one that was fetched for it.
    until: u64,
    /// Frames of the last window; 0 until a second fetch follows the first.
    window: u64,
    used: u64,
}

/// Readers that may be sequential.
pub(crate) struct Ahead {
    streams: Vec<AheadStream>,
    first: u64,
    most: u64,
    uses: u64,
}

impl Ahead {
    /// Windows of up to `most_bytes` in frames of `frame_len` bytes.
    pub(crate) fn new(frame_len: usize, most_bytes: u64) -> Ahead {
        let frames = |bytes: u64| bytes / frame_len as u64;
        let most = frames(most_bytes);
        Ahead { streams: Vec::new(), first: frames(FIRST_BYTES).max(1).min(most), most, uses: 0 }
    }

    /// A read misses the frames `wanted`. Answers up to where to fetch: at least all that is wanted.
    pub(crate) fn missed(&mut self, ino: Ino, wanted: &Range<u64>) -> u64 {
        let known = self.streams.iter().position(|stream| stream.ino == ino && stream.until == wanted.start);
        let at = known.unwrap_or_else(|| self.begin(ino));
        let (first, most) = (self.first, self.most);
        let stream = &mut self.streams[at];
        // What begins at the beginning of a file is read to its end more often than not.
        if known.is_some() || wanted.start == 0 {
            stream.window = (stream.window * 2).clamp(first, most);
        }
        stream.until = wanted.end.max(wanted.start + stream.window);
        let until = stream.until;
        self.touch(at);
        until
    }

    /// A read hits a marked frame. Answers what to fetch next, if its stream is still known.
    pub(crate) fn reached(&mut self, ino: Ino, frame: u64) -> Option<Range<u64>> {
        let near = |stream: &AheadStream| frame < stream.until && stream.until - frame <= stream.window;
        let at = self.streams.iter().position(|stream| stream.ino == ino && near(stream))?;
        let most = self.most;
        let stream = &mut self.streams[at];
        stream.window = (stream.window * 2).min(most);
        let next = stream.until..stream.until + stream.window;
        stream.until = next.end;
        self.touch(at);
        Some(next)
    }

    /// Forgets the readers of a file.
    pub(crate) fn forget(&mut self, ino: Ino) {
        self.streams.retain(|stream| stream.ino != ino);
    }

    fn begin(&mut self, ino: Ino) -> usize {
        let stream = AheadStream { ino, until: 0, window: 0, used: 0 };
        if self.streams.len() < STREAMS {
            self.streams.push(stream);
            return self.streams.len() - 1;
        }
        let oldest = (0..STREAMS).min_by_key(|at| self.streams[*at].used).unwrap_or(0);
        self.streams[oldest] = stream;
        oldest
    }

    fn touch(&mut self, at: usize) {
        self.uses += 1;
        self.streams[at].used = self.uses;
    }
}
