//! Lines out of a stream of bytes, bounded.

/// Longest line in bytes, without its end: an order of a cleaner names each block of its segments.
pub const LINE_MAX: usize = 1 << 20;

/// A line that is longer than [`LINE_MAX`]. Where the next one begins is not looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line of more than {LINE_MAX} bytes; no command is that long")]
pub struct TooLong;

/// Bytes that have come, and how many of them belong to lines that were taken.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    taken: usize,
}

impl Lines {
    /// Adds bytes as they come.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line, without its end.
    ///
    /// # Errors
    /// [`TooLong`], also before the line has ended.
    pub fn take(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let rest = &self.bytes[self.taken..];
        let end = rest.iter().position(|byte| *byte == b'\n');
        if end.unwrap_or(rest.len()) > LINE_MAX {
            return Err(TooLong);
        }
        let Some(end) = end else { return Ok(None) };
        let start = self.taken;
        self.taken += end + 1;
        Ok(Some(&self.bytes[start..start + end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_whole_however_they_arrive() {
        for size in 1..12 {
            let (mut lines, mut out) = (Lines::default(), Vec::new());
            for chunk in b"one\n\ntwo\nthree".chunks(size) {
                lines.feed(chunk);
                while let Some(line) = lines.take().unwrap() {
                    out.push(String::from_utf8(line.to_vec()).unwrap());
                }
            }
            assert_eq!(out, ["one", "", "two"], "in chunks of {size}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused_at_the_bound() {
        let mut lines = Lines::default();
        lines.feed(&vec![b'x'; LINE_MAX]);
        assert_eq!(lines.take(), Ok(None));
        lines.feed(b"x");
        assert_eq!(lines.take(), Err(TooLong));
    }
}
