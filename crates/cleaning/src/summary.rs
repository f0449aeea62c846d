//! What a policy knows of a segment.

/// One full segment. Times are on the log's clock: numbers of records, blocks written, or seconds, as long as only new
/// data moves it on. A wall clock would let an idle store age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Blocks that it has room for.
    pub blocks: u32,
    /// Blocks that are live. A number that is too high starves the segment, and nothing corrects it. One that is too
    /// low costs a visit in vain. After it the store must put the number right, or the segment is chosen forever.
    pub live: u32,
    /// Mappings that lead to its live blocks: more than `live` where clones and snapshots share blocks.
    pub mappings: u64,
    /// When its first block was written.
    pub first: u64,
    /// When its last block was written. Copies count: cold data that was just moved is young.
    pub last: u64,
    /// When a block in it died last, where that is known.
    pub died: Option<u64>,
}

impl Summary {
    /// A segment of which only the number of mappings is known, as a store counts them that does not tell apart one
    /// block with two mappings from two blocks. Live blocks are taken to be as many as that allows: exact where nothing
    /// is shared, too high otherwise. A store that shares much should count with a scan instead.
    pub fn of_mappings(blocks: u32, mappings: u64, first: u64, last: u64) -> Summary {
        let live = u32::try_from(mappings).unwrap_or(u32::MAX).min(blocks);
        Summary { blocks, live, mappings, first, last, died: None }
    }

    /// Blocks that cleaning frees; 0 if the count of live blocks is beyond belief.
    pub fn dead(&self) -> u32 {
        self.blocks.saturating_sub(self.live)
    }

    /// Time since it was last written to.
    pub fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.last)
    }
}
