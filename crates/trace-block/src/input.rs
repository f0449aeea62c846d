//! Bytes of a trace: unpacking by magic number, and cutting into lines or fixed-size records in one buffer.

use crate::fault::{Ending, Reason, TraceError, TracePosition};
use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use memchr::memchr;
use std::io::{self, Read};

/// Bytes kept of an overlong line.
const EXCERPT: usize = 512;

/// Where bytes come from.
pub type Input = Box<dyn Read + Send>;

/// Longest line that is read as one; a longer one is a fault.
pub(crate) const LINE_MAX: usize = 64 << 10;

/// Largest record of varying length that is read as one.
pub(crate) const FRAME_MAX: usize = 192 << 10;

/// Largest size of the one buffer. Larger than [`LINE_MAX`] and [`FRAME_MAX`], so that there is always room to read on.
const BUFFER: usize = 256 << 10;

/// Its first size; each read doubles it, so that a small trace does not pay for a large one.
const BUFFER_MIN: usize = 8 << 10;

/// Marks an error of the trace's own reader, as opposed to one that an unpacker found in the data.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct OwnError(#[from] io::Error);

/// Retries interrupted reads and marks errors as [`OwnError`].
struct Raw(Input);

impl Read for Raw {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buf) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(io::Error::new(e.kind(), OwnError(e))),
                Ok(n) => return Ok(n),
            }
        }
    }
}

/// Memory that unpacking xz may take, in KiB: what its strongest setting needs, and some.
const XZ_MEMORY_KIB: u32 = 192 << 10;

/// The bytes of `input`, with gzip, zstd, xz and bzip2 (all members, frames and streams) undone; they are recognised by
/// their first bytes. `file` is the name in messages.
///
/// # Errors
/// A failed read, and other packings.
pub fn unpacked(file: &str, input: Input) -> Result<Input, TraceError> {
    let failed = |source| TraceError::Io { file: file.to_string(), source };
    let packed = |method| Err(TraceError::Packed { file: file.to_string(), method });
    let mut raw = Raw(input);
    let mut magic = Vec::with_capacity(6);
    raw.by_ref().take(6).read_to_end(&mut magic).map_err(failed)?;
    let whole = io::Cursor::new(magic.clone()).chain(raw);
    match magic[..] {
        [0x1f, 0x8b, ..] => Ok(Box::new(MultiGzDecoder::new(whole))),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Ok(Box::new(zstd::Decoder::new(whole).map_err(failed)?)),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Ok(Box::new(XzReader::new_mem_limit(whole, true, XZ_MEMORY_KIB))),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Ok(Box::new(MultiBzDecoder::new(whole))),
        [b'P', b'K', 3, 4, ..] => packed("zip"),
        _ => Ok(Box::new(whole)),
    }
}

/// How a format cuts its bytes.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Line,
    Bytes(usize),
    /// Records that tell their length.
    Frame(&'static Framing),
}

/// How records of varying length are cut.
pub(crate) struct Framing {
    /// Bytes after which the length is known at the latest.
    pub head: usize,
    /// The length of the record that `bytes`, at least `head` of them unless the data ends, start with.
    pub length: fn(&[u8]) -> Length,
    /// Where in `bytes` the next record may start, if one can be told from other bytes.
    pub next_start: fn(&[u8]) -> Option<usize>,
}

/// What the beginning of a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// Too few bytes to tell.
    Unknown,
    Whole(usize),
    /// There is no record here.
    Lost,
}

/// One line (without its end) or record.
pub(crate) struct Piece<'a> {
    pub place: TracePosition,
    pub bytes: &'a [u8],
    /// Why these bytes (or the beginning of more that were passed over) are no line or record.
    pub flaw: Option<Reason>,
}

/// What is left of the data behind the buffer.
#[derive(Debug, PartialEq, Eq)]
enum Data {
    More,
    Done,
    /// Damaged or truncated, and how that shows.
    Cut(String),
}

/// Yields the pieces of a trace from one buffer.
pub(crate) struct PieceReader {
    input: Input,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset (after unpacking) of `buf[start]`.
    offset: u64,
    line: u64,
    data: Data,
    /// Head of the last overlong line.
    excerpt: Vec<u8>,
}

impl PieceReader {
    pub(crate) fn open(file: &str, input: Input) -> Result<PieceReader, TraceError> {
        Ok(PieceReader::resumed(unpacked(file, input)?, 0))
    }

    /// The rest of an unpacked trace of which the first `offset` bytes were passed over.
    pub(crate) fn resumed(input: Input, offset: u64) -> PieceReader {
        PieceReader { input, buf: Vec::new(), start: 0, end: 0, offset, line: 0, data: Data::More, excerpt: Vec::new() }
    }

    /// How the trace ended; meaningful once a piece was asked for in vain.
    pub(crate) fn ending(&self) -> Ending {
        match &self.data {
            Data::More => Ending::NotReached,
            Data::Done => Ending::Complete,
            Data::Cut(why) => Ending::Cut { offset: self.offset, why: why.clone() },
        }
    }

    /// Bytes (after unpacking) that were delivered.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes in the buffer, filled with at least `want` (up to [`LINE_MAX`]) if the data has them.
    pub(crate) fn head(&mut self, want: usize) -> io::Result<&[u8]> {
        while self.end - self.start < want.min(LINE_MAX) && self.fill()? {}
        Ok(self.window())
    }

    /// The next piece, or `None` at the end of the data. Fails only if the trace's own reader does.
    pub(crate) fn next_piece(&mut self, unit: Unit) -> io::Result<Option<Piece<'_>>> {
        match unit {
            Unit::Line => self.next_line(),
            Unit::Bytes(n) => self.next_block(n),
            Unit::Frame(framing) => self.next_frame(framing),
        }
    }

    fn next_frame(&mut self, framing: &Framing) -> io::Result<Option<Piece<'_>>> {
        while self.window().len() < framing.head && self.fill()? {}
        if self.window().is_empty() {
            return Ok(None);
        }
        match (framing.length)(self.window()) {
            Length::Whole(n) if n <= FRAME_MAX => self.next_block(n),
            Length::Unknown => {
                self.note_partial_record(framing.head);
                Ok(None)
            }
            Length::Whole(_) | Length::Lost => self.lost_frame(framing),
        }
    }

    /// Passes over bytes up to the next record; without a mark to look for, the trace ends here.
    fn lost_frame(&mut self, framing: &Framing) -> io::Result<Option<Piece<'_>>> {
        let from = self.offset;
        self.excerpt = self.window()[..self.window().len().min(EXCERPT)].to_vec();
        self.consume(1);
        loop {
            if let Some(at) = (framing.next_start)(self.window()) {
                self.consume(at);
                break;
            }
            // The beginning of a mark may stand at the end of the window.
            self.consume(self.window().len().saturating_sub(framing.head));
            if !self.fill()? {
                (self.start, self.offset) = (self.end, from);
                if self.data == Data::Done {
                    self.data = Data::Cut("no record starts here or later".to_string());
                }
                return Ok(None);
            }
        }
        Ok(Some(Piece { place: TracePosition::Offset(from), bytes: &self.excerpt, flaw: Some(Reason::NoMark) }))
    }

    fn next_line(&mut self) -> io::Result<Option<Piece<'_>>> {
        let mut scanned = 0;
        loop {
            if let Some(i) = memchr(b'\n', &self.window()[scanned..]) {
                let len = scanned + i;
                return Ok(Some(self.take_line(len, len + 1)));
            }
            scanned = self.window().len();
            if scanned >= LINE_MAX {
                return self.overlong_line().map(Some);
            }
            if !self.fill()? {
                // After damage the last line may lack digits, so that it must not be read as a shorter number.
                let usable = scanned > 0 && self.data == Data::Done;
                return Ok(usable.then(|| self.take_line(scanned, scanned)));
            }
        }
    }

    fn take_line(&mut self, len: usize, consumed: usize) -> Piece<'_> {
        self.line += 1;
        let from = self.start;
        self.consume(consumed);
        let line = &self.buf[from..from + len];
        let bytes = line.strip_suffix(b"\r").unwrap_or(line);
        Piece { place: TracePosition::Line(self.line), bytes, flaw: None }
    }

    /// Keeps the head of the line for the report and passes over the rest.
    fn overlong_line(&mut self) -> io::Result<Piece<'_>> {
        self.line += 1;
        self.excerpt = self.window()[..EXCERPT].to_vec();
        loop {
            let end = memchr(b'\n', self.window());
            self.consume(end.map_or(self.window().len(), |i| i + 1));
            if end.is_some() || !self.fill()? {
                break;
            }
        }
        Ok(Piece {
            place: TracePosition::Line(self.line),
            bytes: &self.excerpt,
            flaw: Some(Reason::LineTooLong(LINE_MAX)),
        })
    }

    fn next_block(&mut self, n: usize) -> io::Result<Option<Piece<'_>>> {
        while self.window().len() < n {
            if !self.fill()? {
                self.note_partial_record(n);
                return Ok(None);
            }
        }
        let (from, place) = (self.start, TracePosition::Offset(self.offset));
        self.consume(n);
        Ok(Some(Piece { place, bytes: &self.buf[from..from + n], flaw: None }))
    }

    fn note_partial_record(&mut self, n: usize) {
        let left = self.window().len();
        if left > 0 && self.data == Data::Done {
            self.data = Data::Cut(format!("the last record has {left} of {n} bytes"));
        }
    }

    fn window(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }

    fn consume(&mut self, n: usize) {
        self.start += n;
        self.offset += n as u64;
    }

    /// Reads more behind the window; false at the end of the data, good or bad.
    fn fill(&mut self) -> io::Result<bool> {
        if self.data != Data::More {
            return Ok(false);
        }
        self.buf.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        self.buf.resize((2 * self.buf.len()).clamp(BUFFER_MIN, BUFFER), 0);
        match self.input.read(&mut self.buf[self.end..]) {
            Ok(0) => self.data = Data::Done,
            Ok(n) => self.end += n,
            Err(e) if e.get_ref().is_some_and(|inner| inner.is::<OwnError>()) => return Err(e),
            Err(e) => self.data = Data::Cut(format!("packed data is damaged or truncated: {e}")),
        }
        Ok(self.data == Data::More)
    }
}
