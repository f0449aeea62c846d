//! Where the newest bytes are: ranges of the volume that the log holds. What is in no range is at home.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use esker_base::{ByteRange, Spans};

/// Where bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    /// At home.
    Home,
    /// In the log; position of the first one.
    Log(u64),
    /// Nowhere: the record at this position says that they are zeroes.
    Zeroes {
        /// Of the record.
        position: u64,
        /// Whether they keep their space at home.
        no_unmap: bool,
    },
}

impl Where {
    /// A position inside the record; none at home.
    pub fn position(self) -> Option<u64> {
        match self {
            Where::Home => None,
            Where::Log(position) | Where::Zeroes { position, .. } => Some(position),
        }
    }
}

/// A part of the volume that lies in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Which bytes.
    pub range: ByteRange,
    /// Where they are.
    pub at: Where,
}

/// What the log has of a range.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Logged {
    /// Bytes; the offset of the span is the position of the first one.
    Data,
    /// Zeroes, as in [`Where`].
    Zeroes { position: u64, no_unmap: bool },
}

/// The map.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Map {
    spans: Spans<Logged>,
    bytes: u64,
}

impl Map {
    /// Ranges that the log holds.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether everything is at home.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Bytes that the log holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether all of `range` is at home.
    pub fn is_home(&self, range: ByteRange) -> bool {
        !self.spans.has(range.start(), range.len())
    }

    /// The parts of `range` that the log holds, in order.
    pub fn in_log(&self, range: ByteRange) -> impl Iterator<Item = Piece> {
        self.spans.within(range.start(), range.len()).map(|(from, to, logged, position)| {
            let at = match *logged {
                Logged::Data => Where::Log(position),
                Logged::Zeroes { position, no_unmap } => Where::Zeroes { position, no_unmap },
            };
            Piece { range: span(from, to), at }
        })
    }

    /// All of `range`, in order.
    pub fn pieces(&self, range: ByteRange) -> Vec<Piece> {
        let (mut pieces, mut at) = (Vec::new(), range.start());
        let home = |from, to| (from < to).then(|| Piece { range: span(from, to), at: Where::Home });
        for piece in self.in_log(range) {
            pieces.extend(home(at, piece.range.start()));
            at = piece.range.end();
            pieces.push(piece);
        }
        pieces.extend(home(at, range.end()));
        pieces
    }

    /// From now on `range` is there.
    pub fn set(&mut self, range: ByteRange, at: Where) {
        self.bytes -= self.in_log(range).map(|piece| piece.range.len()).sum::<u64>();
        let (logged, position) = match at {
            Where::Home => {
                self.spans.remove(range.start(), range.len());
                return;
            }
            Where::Log(position) => (Logged::Data, position),
            Where::Zeroes { position, no_unmap } => (Logged::Zeroes { position, no_unmap }, 0),
        };
        self.spans.add(range.start(), range.len(), position, logged);
        self.bytes += range.len();
    }
}

fn span(from: u64, to: u64) -> ByteRange {
    ByteRange::new(from, to - from).expect("a part of a range")
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Where {
        /// `bytes` further on.
        fn plus(self, bytes: u64) -> Where {
            match self {
                Where::Log(position) => Where::Log(position + bytes),
                other => other,
            }
        }
    }

    /// Random changes against an array of bytes.
    #[test]
    fn the_map_says_of_each_byte_who_wrote_it_last() {
        let mut random = esker_base::Stream::named(3, "map");
        let (mut map, mut model) = (Map::default(), [Where::Home; 64]);
        for round in 1..2000u64 {
            let start = random.below(60);
            let range = span(start, start + 1 + random.below(64 - start));
            let at = match random.below(4) {
                0 => Where::Home,
                1 => Where::Zeroes { position: round * 100, no_unmap: false },
                _ => Where::Log(round * 100),
            };
            map.set(range, at);
            (range.start()..range.end()).for_each(|i| model[i as usize] = at.plus(i - range.start()));
            let mut seen = Vec::new();
            for piece in map.pieces(span(0, 64)) {
                seen.extend((0..piece.range.len()).map(|i| piece.at.plus(i)));
            }
            assert_eq!(seen, model, "round {round}");
            assert_eq!(map.bytes(), model.iter().filter(|at| **at != Where::Home).count() as u64);
            assert_eq!(map.is_home(range), at == Where::Home);
        }
    }
}
