//! Blocks that were read along with others, because a reader goes on in the direction of the log.
//!
//! Small files that were written one after another lie so on the medium. A reader of a tree of them reads in that
//! order, a few blocks at a time. Where reads go on near the end of an earlier one, more than was asked for is read.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of a read that reaches further.
const AHEAD_BYTES: usize = 128 << 10;
/// Reads of that kind that are kept.
const KEPT: usize = 16;
/// Ends of reads that are remembered: several readers, and their looks for inodes and entries of the DAT.
const ENDS: usize = 8;
/// Bytes between the end of a read and the next one, up to which a reader goes on.
const GAP_BYTES: usize = 64 << 10;

/// Blocks in memory, by their places.
pub(super) struct Nearby {
    block_bytes: usize,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// The oldest first.
    kept: VecDeque<(Range<u64>, Vec<u8>)>,
    ends: VecDeque<u64>,
    /// Grows with each write.
    writes: u64,
}

/// What a reader does about blocks.
pub(super) enum Near {
    /// They are in memory.
    Kept(Vec<u8>),
    /// It reads so many blocks from the first one on. The number is given to [`Nearby::keep`].
    Read(usize, u64),
}

impl Nearby {
    /// Nothing yet, of a medium with such blocks.
    pub(super) fn new(block_bytes: usize) -> Nearby {
        Nearby { block_bytes, state: RefCell::default() }
    }

    /// Looks for blocks. A read goes to the end of `segment` at most.
    pub(super) fn look(&self, wanted: &Range<u64>, segment: &Range<u64>) -> Near {
        let state = &mut *self.state.borrow_mut();
        if let Some((places, bytes)) = state.kept.iter().find(|(places, _)| holds(places, wanted)) {
            let from = (wanted.start - places.start) as usize * self.block_bytes;
            let len = (wanted.end - wanted.start) as usize * self.block_bytes;
            return Near::Kept(bytes[from..from + len].to_vec());
        }
        let [gap, ahead] = [GAP_BYTES, AHEAD_BYTES].map(|bytes| (bytes / self.block_bytes) as u64);
        let before = state.ends.iter().position(|end| (*end..=end + gap).contains(&wanted.start));
        let asked = wanted.end - wanted.start;
        let blocks = match before.and_then(|before| state.ends.remove(before)) {
            Some(_) => asked.max(ahead.min(segment.end.saturating_sub(wanted.start))),
            None => asked,
        };
        state.ends.push_back(wanted.start + blocks);
        if state.ends.len() > ENDS {
            state.ends.pop_front();
        }
        Near::Read(blocks as usize, state.writes)
    }

    /// Keeps what was read from a place on, unless something was written since [`Nearby::look`].
    pub(super) fn keep(&self, from: u64, bytes: Vec<u8>, writes: u64) {
        let state = &mut *self.state.borrow_mut();
        if state.writes != writes {
            return;
        }
        if state.kept.len() == KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back((from..from + (bytes.len() / self.block_bytes) as u64, bytes));
    }

    /// Places are written: what was read of them is old. Called before a write and behind it, so that no read of the
    /// meantime stays.
    pub(super) fn written(&self, places: &Range<u64>) {
        let state = &mut *self.state.borrow_mut();
        state.writes += 1;
        state.kept.retain(|(kept, _)| kept.end <= places.start || places.end <= kept.start);
    }
}

fn holds(places: &Range<u64>, wanted: &Range<u64>) -> bool {
    places.start <= wanted.start && wanted.end <= places.end
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: Range<u64> = 0..2048;

    fn read(nearby: &Nearby, wanted: Range<u64>) -> usize {
        match nearby.look(&wanted, &SEGMENT) {
            Near::Kept(bytes) => {
                assert_eq!(bytes, vec![wanted.start as u8; bytes.len()]);
                0
            }
            Near::Read(blocks, writes) => {
                let bytes: Vec<u8> = (0..blocks as u64).flat_map(|nr| vec![(wanted.start + nr) as u8; 4096]).collect();
                if blocks as u64 > wanted.end - wanted.start {
                    nearby.keep(wanted.start, bytes, writes);
                }
                blocks
            }
        }
    }

    #[test]
    fn a_reader_that_goes_on_reads_further_and_finds_the_rest() {
        let nearby = Nearby::new(4096);
        assert_eq!([read(&nearby, 100..101), read(&nearby, 500..502)], [1, 2]);
        // Up to 16 blocks may lie between.
        assert_eq!([read(&nearby, 110..111), read(&nearby, 111..112), read(&nearby, 141..142)], [32, 0, 0]);
        assert_eq!(read(&nearby, 142..143), 32);
        assert_eq!([read(&nearby, 400..401), read(&nearby, 300..301)], [1, 1]);
    }

    #[test]
    fn a_read_ends_with_its_segment_and_has_all_that_is_wanted() {
        let nearby = Nearby::new(4096);
        assert_eq!([read(&nearby, 2030..2040), read(&nearby, 2040..2041)], [10, 8]);
        let nearby = Nearby::new(4096);
        assert_eq!([read(&nearby, 0..10), read(&nearby, 10..110)], [10, 100]);
    }

    #[test]
    fn what_is_written_is_forgotten_and_reads_of_the_meantime_do_not_stay() {
        let nearby = Nearby::new(4096);
        read(&nearby, 0..1);
        assert_eq!([read(&nearby, 1..2), read(&nearby, 2..3)], [32, 0]);
        nearby.written(&(40..50));
        assert_eq!(read(&nearby, 2..3), 0);
        nearby.written(&(32..33));
        assert_eq!(read(&nearby, 2..3), 1);
        let Near::Read(32, writes) = nearby.look(&(33..34), &SEGMENT) else { panic!("it is not in memory") };
        nearby.written(&(60..61));
        nearby.keep(33, vec![0; 32 * 4096], writes);
        assert!(matches!(nearby.look(&(33..34), &SEGMENT), Near::Read(..)));
    }
}
