//! Lines of a stream, in bounded memory.

use std::io::{self, BufRead};

use memchr::memchr;

/// Longest line that is read whole, in bytes; the rest of a longer one is passed over.
pub(crate) const LINE_MAX: usize = 64 << 10;

/// One line without its end.
pub(crate) struct Line<'a> {
    pub(crate) bytes: &'a [u8],
    /// Whether bytes at its end were passed over.
    pub(crate) is_cut: bool,
}

/// Reads the next line into `buffer`; `None` at the end of the stream.
///
/// # Errors
/// Those of the stream.
pub(crate) fn next_line<'b>(input: &mut impl BufRead, buffer: &'b mut Vec<u8>) -> io::Result<Option<Line<'b>>> {
    buffer.clear();
    let (mut is_cut, mut is_empty) = (false, true);
    loop {
        let chunk = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if chunk.is_empty() {
            break;
        }
        is_empty = false;
        let end = memchr(b'\n', chunk);
        let line = &chunk[..end.unwrap_or(chunk.len())];
        let room = LINE_MAX - buffer.len();
        is_cut |= line.len() > room;
        buffer.extend_from_slice(&line[..line.len().min(room)]);
        let used = end.map_or(chunk.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            break;
        }
    }
    let bytes = buffer.strip_suffix(b"\r").unwrap_or(buffer);
    Ok((!is_empty).then_some(Line { bytes, is_cut }))
}
