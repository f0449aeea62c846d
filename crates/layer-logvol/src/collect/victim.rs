//! What is known of a segment that is to be cleaned.

use super::clean::Group;
use super::look::Bits;
use crate::map::{Mapping, NodeId, Packed};

/// Bytes for each reference of a reverse map: itself, and the group of which it may be the only one.
const REFERENCE: u64 = (size_of::<Listed>() + size_of::<Group>()) as u64;
/// Bytes for each live block of a table of copies.
const COPY: u64 = 8;
/// Bytes for each word of a bitmap, with the rank that a table of copies keeps beside it.
const WORD: u64 = 12;

/// A segment that is to be cleaned. Its memory is reserved when it is chosen.
pub(super) enum Victim {
    /// All mappings into it are listed, those that came since included.
    Mapped(Reverse),
    /// Blocks that were live when it was counted. Which mappings lead to them, the pass after its copying finds out.
    Listed(Bits),
    /// Where its live blocks went.
    Copied(Forward),
}

/// A mapping of a list.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    extent: Packed,
    leaf: NodeId,
}

impl Listed {
    pub(super) fn of(mapping: Mapping) -> Listed {
        Listed { extent: Packed::of(mapping.extent), leaf: mapping.leaf }
    }

    pub(super) fn mapping(&self) -> Mapping {
        Mapping { leaf: self.leaf, extent: self.extent.extent() }
    }
}

/// Mappings into one segment. They may be stale: a user of one looks at the map.
pub(super) struct Reverse {
    mappings: Vec<Listed>,
    /// Live blocks as they were counted, for the case that there come more mappings than may be kept.
    bits: Bits,
    /// References for which memory is set aside.
    reserved: u64,
    /// Those of them that the cleaner has.
    taken: u64,
}

impl Reverse {
    /// An empty list with room for so many.
    pub(super) fn new(bits: Bits, references: u64) -> Reverse {
        Reverse { mappings: Vec::with_capacity(references as usize), bits, reserved: references, taken: 0 }
    }

    /// For the cleaner, which has dropped what it was given before.
    fn take(&mut self) -> Vec<Listed> {
        self.reserved -= self.taken;
        self.taken = self.reserved;
        std::mem::take(&mut self.mappings)
    }
}

/// Where the live blocks of a segment were copied to.
pub(super) struct Forward {
    bits: Bits,
    /// Live blocks before each word.
    ranks: Vec<u32>,
    /// One for each live block; 0 if it is not copied yet.
    copies: Vec<u64>,
}

impl Forward {
    pub(super) fn new(bits: Bits) -> Forward {
        let mut live = 0;
        let count = |word: &u64| {
            live += word.count_ones();
            live - word.count_ones()
        };
        let ranks = bits.iter().map(count).collect();
        Forward { ranks, copies: vec![0; live as usize], bits }
    }

    fn place(&self, at: u64) -> Option<usize> {
        let (word, bit) = ((at / 64) as usize, at % 64);
        let before = self.bits[word] & ((1 << bit) - 1);
        (self.bits[word] >> bit & 1 == 1).then(|| (self.ranks[word] + before.count_ones()) as usize)
    }

    /// Live blocks from `from` on were copied to `to` and its successors.
    pub(super) fn set(&mut self, from: u64, to: u64, len: u64) {
        for i in 0..len {
            let place = self.place(from + i).expect("only live blocks are copied");
            self.copies[place] = to + i;
        }
    }

    /// Copies of a run of blocks, in as few runs as there are: offset in the run, first block of the copy, blocks.
    pub(super) fn of(&self, from: u64, len: u64) -> Vec<(u64, u64, u64)> {
        let mut parts: Vec<(u64, u64, u64)> = Vec::new();
        for i in 0..len {
            let to = self.place(from + i).map_or(0, |place| self.copies[place]);
            match parts.last_mut() {
                _ if to == 0 => {}
                Some((at, first, len)) if *at + *len == i && *first + *len == to => *len += 1,
                _ => parts.push((i, to, 1)),
            }
        }
        parts
    }
}

impl Victim {
    /// Bytes that are set aside for it.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Victim::Mapped(reverse) => Victim::bytes_mapped(&reverse.bits, reverse.reserved),
            Victim::Listed(bits) => Victim::bytes_listed(bits),
            Victim::Copied(forward) => Victim::bytes_listed(&forward.bits),
        }
    }

    /// Bytes that a segment takes that is cleaned without a reverse map. Its live blocks have at least as many
    /// references, so that it takes no more than with one.
    pub(super) fn bytes_listed(bits: &Bits) -> u64 {
        bits.iter().map(|word| WORD + COPY * u64::from(word.count_ones())).sum()
    }

    /// Bytes that it takes with a reverse map of so many mappings.
    pub(super) fn bytes_mapped(bits: &Bits, references: u64) -> u64 {
        references * REFERENCE + WORD * bits.len() as u64
    }

    /// Bytes that it would take with so many mappings.
    pub(super) fn bytes_with(&self, references: u64) -> u64 {
        match self {
            Victim::Mapped(reverse) => Victim::bytes_mapped(&reverse.bits, references),
            Victim::Listed(_) | Victim::Copied(_) => self.bytes(),
        }
    }

    /// A mapping into the segment was added, or found by a pass; `spare` bytes may be taken. If there is no room for
    /// it, the list is given up: the segment is cleaned without.
    pub(super) fn arrive(&mut self, mapping: Mapping, spare: u64) {
        let Victim::Mapped(reverse) = self else { return };
        if reverse.taken + reverse.mappings.len() as u64 == reverse.reserved {
            if spare < REFERENCE * Victim::STEP {
                return self.give_up();
            }
            reverse.mappings.reserve_exact(Victim::STEP as usize);
            reverse.reserved += Victim::STEP;
        }
        reverse.mappings.push(Listed::of(mapping));
    }

    /// Hands out the mappings that were listed since the last time; none if there is no list.
    pub(super) fn take(&mut self) -> Option<Vec<Listed>> {
        match self {
            Victim::Mapped(reverse) => Some(reverse.take()),
            Victim::Listed(_) | Victim::Copied(_) => None,
        }
    }

    /// Forgets all mappings for good: its segment is cleaned without a list.
    pub(super) fn give_up(&mut self) {
        if let Victim::Mapped(reverse) = self {
            *self = Victim::Listed(std::mem::take(&mut reverse.bits));
        }
    }

    /// References for which room is made at once.
    const STEP: u64 = 64;

    /// Forgets all mappings and makes room for so many: what was noted so far is in the snapshot of the pass that
    /// begins.
    pub(super) fn begin(&mut self, references: u64) {
        if let Victim::Mapped(reverse) = self {
            *reverse = Reverse::new(std::mem::take(&mut reverse.bits), references);
        }
    }
}
