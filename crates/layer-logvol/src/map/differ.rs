//! Where two ranges of the map lead to different blocks.

use std::iter::Peekable;
use std::ops::Range;

use esker_layer_thin::Changed;

use super::{Extent, Map};

impl Map {
    /// Runs of `to` that are mapped; with `base`, those that are mapped otherwise than as many blocks from `base` on.
    /// Passes over about `looks` mappings, and gives where it stopped. Blocks with equal places hold the same bytes;
    /// blocks with different ones may do so too, while the collector moves them.
    pub(crate) fn changed(&self, to: Range<u64>, base: Option<u64>, looks: usize) -> (Vec<Changed>, Option<u64>) {
        let len = to.end - to.start;
        let range = base.map_or(0..0, |base| base..base + len);
        let mut these = self.relative(to.clone()).peekable();
        let mut those = self.relative(range).peekable();
        let (mut runs, mut at) = (Vec::<Changed>::new(), 0);
        for _ in 0..looks {
            let (this, this_end) = place(&mut these, at, len);
            let (that, that_end) = place(&mut those, at, len);
            let end = this_end.min(that_end);
            if this != that {
                let (blocks, is_mapped) = (to.start + at..to.start + end, this.is_some());
                match runs.last_mut() {
                    Some(last) if last.blocks.end == blocks.start && last.is_mapped == is_mapped => {
                        last.blocks.end = blocks.end;
                    }
                    Some(_) | None => runs.push(Changed { blocks, is_mapped }),
                }
            }
            at = end;
            if at == len {
                return (runs, None);
            }
        }
        (runs, Some(to.start + at))
    }

    /// The extents of a range, counted from its first block.
    fn relative(&self, range: Range<u64>) -> impl Iterator<Item = Extent> {
        let start = range.start;
        self.pieces(range).map(move |piece| Extent { lba: piece.lba - start, ..piece })
    }
}

/// Where block `at` lies, if it is mapped, and up to which block that goes on.
fn place(extents: &mut Peekable<impl Iterator<Item = Extent>>, at: u64, len: u64) -> (Option<u64>, u64) {
    while extents.next_if(|extent| extent.end() <= at).is_some() {}
    match extents.peek() {
        Some(extent) if extent.lba <= at => (Some(extent.pba + (at - extent.lba)), extent.end()),
        Some(extent) => (None, extent.lba),
        None => (None, len),
    }
}
