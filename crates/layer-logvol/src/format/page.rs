//! Pages of the map: each holds one node of its tree, or changes of the map since the tree was written.

use super::{checksum, get, get_u16, get_u32, put};
use crate::map::{Extent, LOGICAL_BLOCKS};
use crate::number::PageNo;

/// Bytes of a page's head.
pub const PAGE_HEAD: usize = 32;
/// Bytes of an extent in a leaf.
pub(super) const LEAF_ENTRY: usize = 24;
/// Bytes of a child in an inner node.
pub(super) const INNER_ENTRY: usize = 16;

/// The level of a page of changes: no tree is so high.
pub const CHANGES: u8 = u8::MAX;

const MAGIC: u64 = u32::from_le_bytes(*b"EsMp") as u64;

/// What tells a page from all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageId {
    /// The lower half of the volume's number.
    pub volume: u32,
    /// Its own number.
    pub page: PageNo,
    /// Generation of the checkpoint that wrote it.
    pub generation: u64,
}

/// A node as it lies in a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Page {
    /// Extents, in order.
    Leaf(Vec<Extent>),
    /// First logical block and page of each child, in order, and the level above the leaves.
    Inner(u8, Vec<(u64, PageNo)>),
    /// The page of changes before it, if there is one, and what logical blocks map to now, in order; physical block 0,
    /// which never holds data, stands for no block.
    Changes(PageNo, Vec<Extent>),
}

/// Changes that a page of so many bytes holds: the place of a leaf's first extent names the page before it.
pub(crate) fn changes_per(page: usize) -> usize {
    (page - PAGE_HEAD) / LEAF_ENTRY - 1
}

/// Why bytes are not the page that is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageError {
    /// Damaged, or never written.
    #[error("its checksum is wrong")]
    Checksum,
    /// Of another volume, place or later checkpoint.
    #[error("it is another page")]
    Other,
    /// Not the node that its parent speaks of.
    #[error("it has {0}")]
    Misfit(&'static str),
}

impl Page {
    /// Writes it over `out`.
    ///
    /// # Panics
    /// If it does not fit: the map keeps its nodes to what a page holds.
    pub fn encode(&self, id: PageId, out: &mut [u8]) {
        out.fill(0);
        put(out, 0, 4, MAGIC);
        put(out, 8, 8, id.generation);
        put(out, 16, 8, id.page.0);
        put(out, 28, 4, u64::from(id.volume));
        let (count, level) = match self {
            Page::Leaf(extents) => {
                put_extents(extents, &mut out[PAGE_HEAD..]);
                (extents.len(), 0)
            }
            Page::Changes(before, extents) => {
                put(out, PAGE_HEAD, 8, before.0);
                put_extents(extents, &mut out[PAGE_HEAD + LEAF_ENTRY..]);
                (extents.len() + 1, CHANGES)
            }
            Page::Inner(level, children) => {
                for ((first, page), place) in children.iter().zip(out[PAGE_HEAD..].chunks_exact_mut(INNER_ENTRY)) {
                    put(place, 0, 8, *first);
                    put(place, 8, 8, page.0);
                }
                (children.len(), *level)
            }
        };
        let entry = entry_of(level);
        assert!(PAGE_HEAD + count * entry <= out.len(), "{count} entries in a page of {} bytes", out.len());
        put(out, 24, 2, count as u64);
        put(out, 26, 1, u64::from(level));
        let sum = checksum(out, 4);
        put(out, 4, 4, u64::from(sum));
    }

    /// Reads the page of level `level` with this number, which a checkpoint up to `id.generation` wrote and whose
    /// logical blocks are `bounds`.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn decode(bytes: &[u8], id: PageId, level: u8, bounds: std::ops::Range<u64>) -> Result<Page, PageError> {
        if bytes.len() < PAGE_HEAD || get(bytes, 0, 4) != MAGIC || get(bytes, 4, 4) != u64::from(checksum(bytes, 4)) {
            return Err(PageError::Checksum);
        }
        let is_it = get(bytes, 16, 8) == id.page.0 && get(bytes, 28, 4) == u64::from(id.volume);
        if !is_it || get(bytes, 8, 8) > id.generation {
            return Err(PageError::Other);
        }
        let count = usize::from(get_u16(bytes, 24));
        let entry = entry_of(level);
        if bytes[26] != level {
            return Err(PageError::Misfit("another level than its parent says"));
        }
        if PAGE_HEAD + count * entry > bytes.len() {
            return Err(PageError::Misfit("more entries than fit"));
        }
        let mut entries = bytes[PAGE_HEAD..].chunks_exact(entry).take(count);
        let before = if level == CHANGES { entries.next() } else { None };
        if level > 0 && level != CHANGES {
            return inner(level, entries.map(|e| (get(e, 0, 8), PageNo(get(e, 8, 8)))).collect(), bounds);
        }
        if entries.clone().any(|e| get(e, 16, 8) != 0) {
            return Err(PageError::Misfit("keys or groups, which a newer esker may know"));
        }
        let extent = |e: &[u8]| Extent { lba: get(e, 0, 6), pba: get(e, 6, 6), len: get_u32(e, 12) };
        let extents = ordered(entries.map(extent).collect(), bounds)?;
        match (level, before) {
            (CHANGES, Some(before)) => Ok(Page::Changes(PageNo(get(before, 0, 8)), extents)),
            (CHANGES, None) => Err(PageError::Misfit("no place for the page before it")),
            _ => Ok(Page::Leaf(extents)),
        }
    }
}

fn entry_of(level: u8) -> usize {
    if level == 0 || level == CHANGES { LEAF_ENTRY } else { INNER_ENTRY }
}

fn put_extents(extents: &[Extent], out: &mut [u8]) {
    for (extent, place) in extents.iter().zip(out.chunks_exact_mut(LEAF_ENTRY)) {
        put(place, 0, 6, extent.lba);
        put(place, 6, 6, extent.pba);
        put(place, 12, 4, u64::from(extent.len));
    }
}

fn ordered(extents: Vec<Extent>, bounds: std::ops::Range<u64>) -> Result<Vec<Extent>, PageError> {
    let mut at = bounds.start;
    for extent in &extents {
        if extent.len == 0 || extent.lba < at || extent.end() > bounds.end.min(LOGICAL_BLOCKS) {
            return Err(PageError::Misfit("extents that are out of order or bounds"));
        }
        at = extent.end();
    }
    Ok(extents)
}

fn inner(level: u8, children: Vec<(u64, PageNo)>, bounds: std::ops::Range<u64>) -> Result<Page, PageError> {
    let is_ordered = children.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let is_inside = children.last().is_some_and(|last| last.0 < bounds.end);
    let starts = children.first().is_some_and(|child| child.0 >= bounds.start);
    match is_ordered && is_inside && starts && children.iter().all(|child| !child.1.is_none()) {
        true => Ok(Page::Inner(level, children)),
        false => Err(PageError::Misfit("children that are out of order or bounds")),
    }
}
