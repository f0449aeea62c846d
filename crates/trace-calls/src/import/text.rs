//! Lines of bytes.

use std::io::{BufRead, ErrorKind};

use super::ParseError;

/// Longest line in bytes; what is longer is one bad line.
const LINE_MAX: usize = 1 << 20;
/// Longest piece of a line in a message, in bytes.
const SHOWN_MAX: usize = 120;

/// A line.
#[derive(Debug)]
pub(super) struct Line {
    /// Without its end.
    pub bytes: Vec<u8>,
    /// From 1.
    pub number: u64,
    /// Whether its end was there: the last line may lack it.
    pub is_whole: bool,
    /// Whether it was longer than can be kept.
    pub is_long: bool,
}

/// Reads lines and counts them.
pub(super) struct Lines<R> {
    input: R,
    /// Lines that were read.
    pub count: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Lines<R> {
        Lines { input, count: 0 }
    }

    /// The next line.
    ///
    /// # Errors
    /// The input cannot be read.
    pub(super) fn next_line(&mut self) -> Result<Option<Line>, ParseError> {
        let mut line = Line { bytes: Vec::new(), number: self.count + 1, is_whole: false, is_long: false };
        let mut any = false;
        loop {
            let piece = match self.input.fill_buf() {
                Ok(piece) => piece,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(source) => return Err(ParseError::Unreadable { line: line.number, source }),
            };
            any |= !piece.is_empty();
            let end = memchr::memchr(b'\n', piece);
            let taken = &piece[..end.unwrap_or(piece.len())];
            let room = LINE_MAX - line.bytes.len();
            line.is_long |= taken.len() > room;
            line.bytes.extend_from_slice(&taken[..taken.len().min(room)]);
            let used = taken.len() + usize::from(end.is_some());
            line.is_whole = end.is_some();
            self.input.consume(used);
            if end.is_some() || used == 0 {
                break;
            }
        }
        if !any {
            return Ok(None);
        }
        self.count += 1;
        Ok(Some(line))
    }
}

/// Bytes as text for a message.
pub(super) fn shown(bytes: &[u8]) -> String {
    let (head, tail) = bytes.split_at(bytes.len().min(SHOWN_MAX));
    let dots = if tail.is_empty() { "" } else { "..." };
    format!("{}{dots}", head.escape_ascii())
}
