//! Sequential streams by address alone: one client may come over several connections, and several clients over one.
//!
//! A request goes on with a stream if it begins at the stream's end, or at most 512 KiB behind it. This is the rule of
//! the thesis on extending storage (section 3.3).

use std::ops::Range;

/// How far behind the end of a stream a request still belongs to it, in bytes.
pub const NEAR: u64 = 512 << 10;

/// A stream.
#[derive(Clone, Copy, Default)]
struct Head {
    end: u64,
    /// Bytes from its first request on.
    run: u64,
    /// When it last went on.
    used: u64,
}

/// The streams that went on last.
pub struct Streams {
    heads: Vec<Head>,
    now: u64,
    /// The last request, and what was told of it: one request may be asked about for each of its lines.
    last: (Range<u64>, u64),
}

impl Streams {
    /// So many streams are known at once.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(heads: usize) -> Streams {
        assert!(heads > 0, "no stream would be known");
        Streams { heads: vec![Head::default(); heads], now: 0, last: (0..0, 0) }
    }

    /// Notes a request. Answers how many bytes its stream has run, with this request.
    pub fn note(&mut self, range: Range<u64>) -> u64 {
        if range == self.last.0 {
            return self.last.1;
        }
        self.now += 1;
        let bytes = range.end - range.start;
        let follows = |head: &Head| head.used > 0 && range.start >= head.end && range.start - head.end <= NEAR;
        let found = self.heads.iter().enumerate().filter(|(_, head)| follows(head)).max_by_key(|(_, head)| head.end);
        let (at, before) = match found {
            Some((at, head)) => (at, head.run),
            None => {
                let oldest = self.heads.iter().enumerate().min_by_key(|(_, head)| head.used);
                (oldest.map_or(0, |(at, _)| at), 0)
            }
        };
        self.heads[at] = Head { end: range.end, run: before + bytes, used: self.now };
        self.last = (range, before + bytes);
        before + bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_run_beside_each_other_and_the_oldest_is_forgotten() {
        let mut streams = Streams::new(2);
        for step in 0..4 {
            assert_eq!(streams.note(step * 100..step * 100 + 100), (step + 1) * 100);
            let other = (10 << 30) + step * 100;
            assert_eq!(streams.note(other..other + 100), (step + 1) * 100);
        }
        assert_eq!(streams.note(20 << 30..(20 << 30) + 7), 7, "a third one");
        assert_eq!(streams.note(400..500), 100, "the first one is forgotten");
    }

    #[test]
    fn a_stream_leaves_gaps_and_does_not_go_back() {
        let mut streams = Streams::new(4);
        assert_eq!(streams.note(0..1000), 1000);
        assert_eq!(streams.note(1000 + NEAR..2000 + NEAR), 2000);
        assert_eq!(streams.note(1000 + NEAR..2000 + NEAR), 2000, "the same request");
        assert_eq!(streams.note(2001 + 2 * NEAR..2002 + 2 * NEAR), 1, "too far");
        assert_eq!(streams.note(500..600), 100, "before its end");
    }
}
