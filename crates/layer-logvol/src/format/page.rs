//! Pages of the map: each holds one node, changes of leaves, or a part of the index that says where nodes are.

use super::{checksum, get, get_u16, get_u32, put};
use crate::map::{Child, Extent, LOGICAL_BLOCKS, Leaf, Node, NodeId, Packed, TRACT, TRACT_BITS, written::Content};
use crate::number::PageNo;

/// Bytes of a page's head.
pub const PAGE_HEAD: usize = 32;
/// Bytes of an extent in a leaf.
pub(super) const LEAF_ENTRY: usize = 24;
/// Bytes of a child in an inner node.
pub(super) const INNER_ENTRY: usize = 8;
/// Bytes of a root.
pub(super) const ROOT_ENTRY: usize = 4;
/// Bytes of a page in the index.
pub(super) const INDEX_ENTRY: usize = 8;
/// Bytes of a change of a leaf.
pub(super) const CHANGE_ENTRY: usize = 20;

const LEAF: u8 = 0;
const INNER: u8 = 1;
const ROOTS: u8 = 2;
const INDEX: u8 = 3;
const CHANGES: u8 = 4;

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

/// What is in a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Page {
    /// Extents of blocks of a tract, in order.
    Leaf(Vec<Extent>),
    /// The first block of each child in its tract, in order, and the child's number.
    Inner(Vec<(u32, u32)>),
    /// The number of the first tract over how many there are, and the number of each root; 0 for none.
    Roots(u32, Vec<u32>),
    /// Level above the lowest of the index, and pages; 0 for none.
    Index(u8, Vec<PageNo>),
    /// What leaves have in blocks of their tract; physical block 0 for nothing.
    Changes(Vec<(u32, Extent)>),
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
        let (kind, level, count, entry) = match self {
            Page::Leaf(extents) => (LEAF, 0, extents.len(), LEAF_ENTRY),
            Page::Inner(children) => (INNER, 0, children.len(), INNER_ENTRY),
            // The number comes first.
            Page::Roots(_, roots) => (ROOTS, 0, roots.len() + 1, ROOT_ENTRY),
            Page::Index(level, pages) => (INDEX, *level, pages.len(), INDEX_ENTRY),
            Page::Changes(changes) => (CHANGES, 0, changes.len(), CHANGE_ENTRY),
        };
        assert!(PAGE_HEAD + count * entry <= out.len(), "{count} entries in a page of {} bytes", out.len());
        let mut places = out[PAGE_HEAD..].chunks_exact_mut(entry);
        match self {
            Page::Leaf(extents) => extents.iter().zip(places).for_each(|(extent, place)| {
                put(place, 0, 6, extent.lba);
                put(place, 6, 6, extent.pba);
                put(place, 12, 4, u64::from(extent.len));
            }),
            Page::Inner(children) => children.iter().zip(places).for_each(|((first, node), place)| {
                put(place, 0, 4, u64::from(*first));
                put(place, 4, 4, u64::from(*node));
            }),
            Page::Roots(number, roots) => {
                let numbers = std::iter::once(number).chain(roots);
                numbers.zip(&mut places).for_each(|(number, place)| put(place, 0, 4, u64::from(*number)));
            }
            Page::Index(_, pages) => pages.iter().zip(places).for_each(|(page, place)| put(place, 0, 8, page.0)),
            Page::Changes(changes) => changes.iter().zip(places).for_each(|((leaf, extent), place)| {
                put(place, 0, 4, u64::from(*leaf));
                put(place, 4, 6, extent.pba);
                put(place, 10, 4, extent.lba);
                put(place, 14, 4, u64::from(extent.len));
            }),
        }
        put(out, 24, 2, count as u64);
        put(out, 26, 1, u64::from(kind));
        put(out, 27, 1, u64::from(level));
        let sum = checksum(out, 4);
        put(out, 4, 4, u64::from(sum));
    }

    /// Reads the page with this number, which a checkpoint up to `id.generation` wrote.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn decode(bytes: &[u8], id: PageId) -> Result<Page, PageError> {
        if bytes.len() < PAGE_HEAD || get(bytes, 0, 4) != MAGIC || get(bytes, 4, 4) != u64::from(checksum(bytes, 4)) {
            return Err(PageError::Checksum);
        }
        let is_it = get(bytes, 16, 8) == id.page.0 && get(bytes, 28, 4) == u64::from(id.volume);
        if !is_it || get(bytes, 8, 8) > id.generation {
            return Err(PageError::Other);
        }
        let (count, kind, level) = (usize::from(get_u16(bytes, 24)), bytes[26], bytes[27]);
        let entry = match kind {
            LEAF => LEAF_ENTRY,
            INNER => INNER_ENTRY,
            ROOTS => ROOT_ENTRY,
            INDEX => INDEX_ENTRY,
            CHANGES => CHANGE_ENTRY,
            _ => return Err(PageError::Misfit("a kind that a newer esker may know")),
        };
        if PAGE_HEAD + count * entry > bytes.len() {
            return Err(PageError::Misfit("more entries than fit"));
        }
        if level > 0 && kind != INDEX {
            return Err(PageError::Misfit("a level, and is no part of the index"));
        }
        let entries = bytes[PAGE_HEAD..].chunks_exact(entry).take(count);
        match kind {
            LEAF => leaf(entries),
            INNER => inner(entries.map(|e| (get_u32(e, 0), get_u32(e, 4))).collect()),
            ROOTS => roots(entries.map(|e| get_u32(e, 0)).collect()),
            CHANGES => changes(entries),
            _ => Ok(Page::Index(level, entries.map(|e| PageNo(get(e, 0, 8))).collect())),
        }
    }

    /// What a checkpoint writes.
    pub(crate) fn of(content: &Content) -> Page {
        match content {
            Content::Index(level, pages) => Page::Index(*level, pages.clone()),
            Content::Node(node) => match &**node {
                Node::Leaf(leaf) => Page::Leaf(leaf.entries.iter().map(|entry| entry.extent()).collect()),
                Node::Inner(children) => Page::Inner(children.iter().map(|c| (c.first, c.node.0)).collect()),
                Node::Roots(number, roots) => Page::Roots(*number, roots.iter().map(|root| root.0).collect()),
                Node::Changes(changes) => {
                    Page::Changes(changes.iter().map(|(leaf, extent)| (leaf.0, extent.extent())).collect())
                }
            },
        }
    }

    /// Generation of the checkpoint that wrote a page.
    pub(crate) fn generation(bytes: &[u8]) -> u64 {
        get(bytes, 8, 8)
    }

    /// The node that it is, in memory; none for a part of the index.
    pub(crate) fn into_node(self) -> Option<Node> {
        match self {
            Page::Leaf(extents) => {
                let entries = extents.into_iter().map(Packed::of).collect();
                Some(Node::Leaf(Leaf { home: 0, entries }))
            }
            Page::Inner(children) => {
                let child = |(first, node)| Child { first, node: NodeId(node) };
                Some(Node::Inner(children.into_iter().map(child).collect()))
            }
            Page::Roots(number, roots) => Some(Node::Roots(number, roots.into_iter().map(NodeId).collect())),
            Page::Changes(_) => Some(Node::Changes(Vec::new())),
            Page::Index(..) => None,
        }
    }
}

fn leaf<'a>(entries: impl Iterator<Item = &'a [u8]> + Clone) -> Result<Page, PageError> {
    if entries.clone().any(|e| get(e, 16, 8) != 0) {
        return Err(PageError::Misfit("keys or groups, which a newer esker may know"));
    }
    let extents = entries.map(|e| Extent { lba: get(e, 0, 6), pba: get(e, 6, 6), len: get_u32(e, 12) });
    let extents: Vec<Extent> = extents.collect();
    let mut at = 0;
    for extent in &extents {
        if extent.len == 0 || extent.lba < at || extent.end() > TRACT {
            return Err(PageError::Misfit("extents that are out of order or bounds"));
        }
        at = extent.end();
    }
    Ok(Page::Leaf(extents))
}

fn changes<'a>(entries: impl Iterator<Item = &'a [u8]>) -> Result<Page, PageError> {
    let change = |e: &[u8]| {
        let extent = Extent { lba: u64::from(get_u32(e, 10)), pba: get(e, 4, 6), len: get_u32(e, 14) };
        (get_u32(e, 0), extent, get_u16(e, 18))
    };
    let changes: Vec<_> = entries.map(change).collect();
    let is_sound =
        |(leaf, extent, rest): &(u32, Extent, u16)| *leaf > 0 && extent.len > 0 && extent.end() <= TRACT && *rest == 0;
    match changes.iter().all(is_sound) {
        true => Ok(Page::Changes(changes.into_iter().map(|(leaf, extent, _)| (leaf, extent)).collect())),
        false => Err(PageError::Misfit("changes that are out of bounds")),
    }
}

fn inner(children: Vec<(u32, u32)>) -> Result<Page, PageError> {
    let is_ordered = children.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let is_inside = children.last().is_some_and(|last| u64::from(last.0) < TRACT);
    match is_ordered && is_inside && children.iter().all(|child| child.1 != 0) {
        true => Ok(Page::Inner(children)),
        false => Err(PageError::Misfit("children that are out of order or bounds")),
    }
}

fn roots(mut numbers: Vec<u32>) -> Result<Page, PageError> {
    if numbers.is_empty() || u64::from(numbers[0]) > LOGICAL_BLOCKS >> TRACT_BITS {
        return Err(PageError::Misfit("roots of tracts that do not exist"));
    }
    let number = numbers.remove(0);
    Ok(Page::Roots(number, numbers))
}
