//! Which blocks were moved: for each spare block one word, in memory that survives.
//!
//! A word is 0 (free), the number of the block that lies there plus one, or [`BAD`]. Byte rows and trust: the format's
//! page.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use std::collections::BTreeMap;

use esker_block::split::{LowerAddress, LowerExtent};

/// The spare itself cannot be written.
pub const BAD: u64 = u64::MAX;
/// Bytes of a word.
pub const WORD: u64 = 8;

/// Why words are no table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// A block that the volume does not have.
    #[error("spare {spare} holds block {block}, and the volume has {blocks}")]
    Beyond {
        /// Number of the spare.
        spare: u64,
        /// Number of the block.
        block: u64,
        /// Blocks of the volume.
        blocks: u64,
    },
    /// A block that is in two places.
    #[error("spares {first} and {second} both hold block {block}")]
    Twice {
        /// Number of one spare.
        first: u64,
        /// Number of the other.
        second: u64,
        /// Number of the block.
        block: u64,
    },
}

/// Moved blocks and their spares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    words: Vec<u64>,
    /// Block to spare.
    moved: BTreeMap<u64, u64>,
}

impl Table {
    /// From the words of all spares; `blocks` is how many the volume has.
    ///
    /// # Errors
    /// What no esker writes.
    pub fn decode(bytes: &[u8], blocks: u64) -> Result<Table, TableError> {
        let words: Vec<u64> = bytes
            .chunks_exact(size_of::<u64>())
            .map(|word| u64::from_le_bytes(word.try_into().expect("chunks of eight bytes")))
            .collect();
        let mut moved = BTreeMap::new();
        for (spare, word) in (0..).zip(&words).filter(|(_, word)| ![0, BAD].contains(*word)) {
            if *word > blocks {
                return Err(TableError::Beyond { spare, block: word - 1, blocks });
            }
            if let Some(other) = moved.insert(word - 1, spare) {
                return Err(TableError::Twice { first: other, second: spare, block: word - 1 });
            }
        }
        Ok(Table { words, moved })
    }

    /// The words.
    pub fn encode(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The next spare that may be used.
    pub fn free(&self) -> Option<u64> {
        self.words.iter().position(|word| *word == 0).map(|spare| spare as u64)
    }

    /// The word of a spare, and its change: a block lies there, or the spare is bad. What held the block before is bad
    /// too. Words that have changed.
    pub fn set(&mut self, spare: u64, block: Option<u64>) -> Vec<(u64, u64)> {
        let mut changed = Vec::new();
        if let Some(old) = block.and_then(|block| self.moved.insert(block, spare)) {
            changed.push((old, BAD));
        }
        changed.push((spare, block.map_or(BAD, |block| block + 1)));
        changed.iter().for_each(|(spare, word)| {
            self.words[usize::try_from(*spare).expect("a spare has a word in memory")] = *word;
        });
        changed
    }

    /// Blocks that were moved.
    pub fn moved(&self) -> usize {
        self.moved.len()
    }

    /// Spares that are neither used nor bad.
    pub fn left(&self) -> usize {
        self.words.iter().filter(|word| **word == 0).count()
    }

    /// Where byte `at` lies when spares begin at `spares`, and how many bytes from there on lie together.
    pub fn run(&self, at: u64, block: u64, spares: u64) -> LowerExtent {
        let number = at / block;
        let next = self.moved.range(number..).next();
        match next {
            Some((moved, spare)) if *moved == number => {
                let within = at % block;
                LowerExtent {
                    place: LowerAddress { lower: 0, at: spares + spare * block + within },
                    len: block - within,
                }
            }
            next => {
                let end = next.map_or(u64::MAX, |(moved, _)| moved * block);
                LowerExtent { place: LowerAddress { lower: 0, at }, len: end - at }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_and_lead_to_spares() {
        let mut table = Table::decode(&[0; 32], 100).unwrap();
        assert_eq!(table.set(0, Some(7)), [(0, 8)]);
        assert_eq!(table.set(1, None), [(1, BAD)]);
        assert_eq!((table.free(), table.moved(), table.left()), (Some(2), 1, 2));
        assert_eq!(Table::decode(&table.encode(), 100), Ok(table.clone()));
        // The bytes of version 1.
        let golden: Vec<u8> = [8u64, u64::MAX, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(table.encode(), golden);
        let run = |at| table.run(at, 512, 100_000);
        assert_eq!(run(512), LowerExtent { place: LowerAddress { lower: 0, at: 512 }, len: 6 * 512 });
        assert_eq!(run(7 * 512 + 100), LowerExtent { place: LowerAddress { lower: 0, at: 100_100 }, len: 412 });
        assert_eq!(run(8 * 512).place.at, 8 * 512);
    }

    #[test]
    fn a_block_whose_spare_fails_too_leaves_it_bad() {
        let mut table = Table::decode(&[0; 32], 100).unwrap();
        table.set(0, Some(7));
        assert_eq!(table.set(1, Some(7)), [(0, BAD), (1, 8)]);
        assert_eq!((table.moved(), table.left()), (1, 2));
    }

    #[test]
    fn what_no_esker_writes_is_refused() {
        let bytes = |words: [u64; 2]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        assert!(Table::decode(&bytes([101, 0]), 100).unwrap_err().to_string().contains("holds block 100"));
        assert!(Table::decode(&bytes([5, 5]), 100).unwrap_err().to_string().contains("both hold block 4"));
    }
}
