//! Entries of the DAT: where a virtual block lies, and in which checkpoints it lives.

use super::CNO_MAX;
use super::layout::layout;

layout! {
    /// Where a virtual block lies, and the checkpoints `start` to before `end` in which it lives.
    pub struct DatEntry: 32 {
        /// Physical block; 0 if none was assigned yet.
        place: u64,
        /// Checkpoint in which the block was made.
        start: u64,
        /// Checkpoint in which it died; [`CNO_MAX`] while it lives.
        end: u64,
        /// Reserved; counters keep a [`mark`] here, or one snapshot that protects the block.
        snapshot: u64,
    }
}

/// What [`DatEntry::snapshot`] says if it names no snapshot.
pub mod mark {
    /// The counter of its segment has the block.
    pub const COUNTED: u64 = 0;
    /// It has not.
    pub const UNCOUNTED: u64 = super::CNO_MAX;
}

impl DatEntry {
    /// Whether the counter of its segment has the block.
    pub fn is_counted(&self) -> bool {
        self.snapshot != mark::UNCOUNTED
    }

    /// Whether it names a snapshot that protects the block.
    pub fn names_snapshot(&self) -> bool {
        self.snapshot != mark::COUNTED && self.snapshot != mark::UNCOUNTED
    }

    /// Whether the block belongs to this checkpoint.
    pub fn covers(&self, cno: u64) -> bool {
        self.start <= cno && cno < self.end
    }

    /// Whether it is alive in the newest state.
    pub fn is_live(&self) -> bool {
        self.end == CNO_MAX
    }
}
