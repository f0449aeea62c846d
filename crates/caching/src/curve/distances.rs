//! Stack distances: how many lines were used since a line was last used, itself included (Mattson and others, IBM
//! Systems Journal 1970).
//!
//! A position in the trace has a bit if it is the last use of its line. A distance is the number of bits behind a
//! position. Counts of bits over 64, 4096 and 262144 positions are a tree of three levels. To move a bit is six
//! additions, and a question sums at most 63 neighbours a level. When the positions are used up, the bits move
//! together.

use crate::ids::Ids;
use crate::index::{BATCH, NONE};
use crate::request::LineUse;

const FAN: usize = 64;
const BLOCK: usize = FAN * FAN;
const SPAN: usize = FAN * BLOCK;
const FIRST: usize = BLOCK;

/// The lines of a trace by their last use.
pub struct Distances {
    ids: Ids,
    /// The position of each line, by number.
    last: Vec<u32>,
    /// The line at each position that has a bit.
    lines: Vec<u32>,
    bits: Vec<u64>,
    words: Vec<u8>,
    blocks: Vec<u16>,
    spans: Vec<u32>,
    /// The next position.
    now: usize,
    /// Lines that have a position.
    len: usize,
}

impl Distances {
    /// No line was used.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Distances {
        let mut distances = Distances {
            ids: Ids::new(),
            last: Vec::new(),
            lines: Vec::new(),
            bits: Vec::new(),
            words: Vec::new(),
            blocks: Vec::new(),
            spans: Vec::new(),
            now: 0,
            len: 0,
        };
        distances.clear(FIRST);
        distances
    }

    /// Uses a line. Gives its distance, unless it is used for the first time.
    pub fn reference(&mut self, key: u64) -> Option<u64> {
        let (id, is_new) = self.ids.of(key);
        if is_new {
            self.len += 1;
            self.last.resize(self.ids.bound() as usize, 0);
        }
        self.move_up(id, is_new)
    }

    /// The distance that a line has now, without using it; `None` if it was never used.
    pub fn look(&self, key: u64) -> Option<u64> {
        self.ids.find(key).map(|id| self.after(self.last[id as usize] as usize) + 1)
    }

    /// Uses lines, and tells each with its distance.
    pub fn reference_all(&mut self, lines: &[LineUse], mut tell: impl FnMut(Option<u64>, LineUse)) {
        for batch in lines.chunks(BATCH) {
            let ids = self.ids.guess(batch);
            for (line, id) in batch.iter().zip(ids) {
                let distance = if id == NONE { self.reference(line.key) } else { self.move_up(id, false) };
                tell(distance, *line);
            }
        }
    }

    /// Moves a line to the next position. Gives the distance from the one before, unless it had none.
    fn move_up(&mut self, id: u32, is_new: bool) -> Option<u64> {
        if self.now == self.bits.len() * FAN {
            self.renumber();
        }
        let at = std::mem::replace(&mut self.last[id as usize], self.now as u32) as usize;
        let distance = if is_new {
            None
        } else {
            self.unset(at);
            Some(self.after(at) + 1)
        };
        self.set(self.now, id);
        self.now += 1;
        distance
    }

    /// Forgets a line: it counts in no distance any more.
    pub(crate) fn forget(&mut self, key: u64) {
        if let Some(id) = self.ids.forget(key) {
            self.unset(self.last[id as usize] as usize);
            self.len -= 1;
        }
    }

    fn set(&mut self, at: usize, id: u32) {
        self.lines[at] = id;
        self.bits[at / FAN] |= 1 << (at % FAN);
        self.words[at / FAN] += 1;
        self.blocks[at / BLOCK] += 1;
        self.spans[at / SPAN] += 1;
    }

    fn unset(&mut self, at: usize) {
        self.bits[at / FAN] &= !(1 << (at % FAN));
        self.words[at / FAN] -= 1;
        self.blocks[at / BLOCK] -= 1;
        self.spans[at / SPAN] -= 1;
    }

    /// Bits behind a position.
    fn after(&self, at: usize) -> u64 {
        let in_word = (self.bits[at / FAN] >> (at % FAN) >> 1).count_ones();
        let words: u32 = rest(&self.words, at / FAN).iter().map(|count| u32::from(*count)).sum();
        let blocks: u32 = rest(&self.blocks, at / BLOCK).iter().map(|count| u32::from(*count)).sum();
        let spans: u64 = self.spans[at / SPAN + 1..].iter().map(|count| u64::from(*count)).sum();
        u64::from(in_word + words + blocks) + spans
    }

    /// Moves all bits to the first positions, in their order. Half of the positions are free then.
    fn renumber(&mut self) {
        let (lines, bits) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.bits));
        self.clear((2 * self.len).max(FIRST));
        self.now = 0;
        for (at, id) in lines.into_iter().enumerate() {
            if bits[at / FAN] >> (at % FAN) & 1 == 1 {
                self.last[id as usize] = self.now as u32;
                self.set(self.now, id);
                self.now += 1;
            }
        }
    }

    /// Makes room for positions without bits.
    fn clear(&mut self, positions: usize) {
        let words = positions.next_multiple_of(BLOCK) / FAN;
        self.lines = vec![0; words * FAN];
        self.bits = vec![0; words];
        self.words = vec![0; words];
        self.blocks = vec![0; words / FAN];
        self.spans = vec![0; words.div_ceil(SPAN / FAN)];
    }
}

/// The counts behind that at `at`, of those with the same parent.
fn rest<T>(counts: &[T], at: usize) -> &[T] {
    let end = (at + 1).next_multiple_of(FAN).min(counts.len());
    &counts[at + 1..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::traces;

    /// A stack of lines, the last used first.
    #[derive(Default)]
    struct Stack(Vec<u64>);

    impl Stack {
        fn reference(&mut self, key: u64) -> Option<u64> {
            let found = self.0.iter().position(|other| *other == key);
            if let Some(at) = found {
                self.0.remove(at);
            }
            self.0.insert(0, key);
            found.map(|at| at as u64 + 1)
        }
    }

    #[test]
    fn distances_are_depths_in_a_stack() {
        for kind in 0..traces::ALL.len() {
            for lines in [2, 300, 5_000] {
                let (mut distances, mut stack) = (Distances::new(), Stack::default());
                for (at, key) in traces::keys(kind, lines, 20_000).into_iter().enumerate() {
                    assert_eq!(distances.reference(key), stack.reference(key), "trace {kind}, {lines}, use {at}");
                }
            }
        }
    }

    #[test]
    fn lines_that_are_forgotten_count_no_more() {
        let (mut distances, mut stack) = (Distances::new(), Stack::default());
        for (at, key) in traces::keys(1, 300, 20_000).into_iter().enumerate() {
            assert_eq!(distances.reference(key), stack.reference(key), "use {at}");
            if at % 3 == 0 {
                let gone = stack.0[at % stack.0.len()];
                stack.0.retain(|other| *other != gone);
                distances.forget(gone);
            }
        }
    }

    #[test]
    fn distances_reach_over_spans() {
        let mut distances = Distances::new();
        let lines = 3 * SPAN as u64;
        (0..lines).for_each(|key| assert_eq!(distances.reference(key), None));
        // Those behind the key, and those that were used again.
        let again = (0..lines).step_by(9_973).zip(0..);
        again.for_each(|(key, before)| assert_eq!(distances.reference(key), Some(lines - key + before), "{key}"));
    }
}
