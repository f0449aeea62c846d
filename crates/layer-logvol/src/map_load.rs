//! Reads the map of a checkpoint: level by level, each in runs of pages that follow each other, decoded by workers.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use esker_base::Nanos;
use esker_block::{BioError, Buf, flight};
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::checkpoint::changes::{HOLE, take_in};
use crate::format::{CHANGES, Geometry, Page, PageError, PageId, Slot};
use crate::map::{Child, Extent, Map, Node, Packed};
use crate::number::{PageNo, SegmentNo};
use crate::store::{DeviceStore, METADATA};

/// Bytes of one read at most.
const RUN: usize = 1 << 20;
/// Reads under way at once.
const WIDTH: usize = 16;
/// CPU time of one page, charged in virtual time: an estimate for checksum and decoding of 4 KiB.
const PAGE_COST: Nanos = Nanos(1_500);

/// Why a map cannot be read.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum MapError {
    /// The device failed.
    #[error("the map cannot be read: {0}")]
    Io(#[from] BioError),
    /// A page is not what its parent says.
    #[error("page {page} of the map (byte {at}): {error}")]
    Page {
        /// The page.
        page: PageNo,
        /// Where it lies.
        at: u64,
        /// What is wrong.
        error: PageError,
    },
    /// A page has two parents, or lies where no page can.
    #[error("page {0} of the map is named twice, or lies outside of all segments")]
    Misplaced(PageNo),
    /// A segment holds pages, and the map refers to it for data.
    #[error("segment {0} holds both pages of the map and data")]
    Mixed(SegmentNo),
    /// There are more or fewer pages of changes than the slot says.
    #[error("{0} pages list changes of the map, the superblock says {1}")]
    Chain(u64, u64),
    /// The pages together are not what the slot says.
    #[error("the map has {0} extents, the superblock says {1}")]
    Count(u64, u64),
}

/// A page that is to be read, and the logical blocks that are its own.
#[derive(Clone)]
struct Wanted {
    page: PageNo,
    bounds: Range<u64>,
}

/// A map as it was read, and the pages that it is in.
pub struct Loaded {
    /// The map.
    pub map: Map,
    /// Pages that hold it.
    pub pages: BTreeSet<PageNo>,
    /// Those of them that list changes of the tree, the oldest first.
    pub chain: Vec<PageNo>,
}

/// What reading needs.
pub struct Loader<'a> {
    /// The world.
    pub rt: &'a Rt,
    /// Where buffers come from.
    pub pool: &'a Pool,
    /// The medium.
    pub store: &'a DeviceStore,
    /// Bytes of the largest request below.
    pub transfer_max: usize,
}

impl Loader<'_> {
    /// Reads the map that a slot names.
    ///
    /// # Errors
    /// [`MapError`].
    pub async fn load(&self, slot: &Slot) -> Result<Loaded, MapError> {
        let mut pages = BTreeSet::new();
        let mut levels: Vec<Vec<Vec<(u64, PageNo)>>> = Vec::new();
        let mut wanted = vec![Wanted { page: slot.root, bounds: 0..u64::MAX }];
        for level in (1..=slot.height).rev() {
            let read = self.level(slot, level, &wanted, &mut pages).await?;
            let nodes: Vec<Vec<(u64, PageNo)>> = read
                .into_iter()
                .map(|page| match page {
                    Decoded::Inner(children) => children,
                    Decoded::Leaf(_) | Decoded::Changes(..) => unreachable!("the level is checked"),
                })
                .collect();
            wanted = nodes.iter().zip(&wanted).flat_map(|(children, parent)| below(children, &parent.bounds)).collect();
            levels.push(nodes);
        }
        let leaves = self.level(slot, 0, &wanted, &mut pages).await?;
        let mut nodes: Vec<Arc<Node>> = leaves
            .into_iter()
            .map(|page| match page {
                Decoded::Leaf(entries) => Arc::new(Node::Leaf(entries)),
                Decoded::Inner(_) | Decoded::Changes(..) => unreachable!("the level is checked"),
            })
            .collect();
        for level in levels.into_iter().rev() {
            let mut below = nodes.into_iter();
            let parent = |children: Vec<(u64, PageNo)>| {
                let child = |(first, page)| Child { first, page, node: below.next().expect("one for each child") };
                Arc::new(Node::Inner(children.into_iter().map(child).collect()))
            };
            nodes = level.into_iter().map(parent).collect();
        }
        let mut map = Map::restored(slot.geometry.fanout(), nodes.remove(0), slot.root);
        if map.mappings() != slot.mappings {
            return Err(MapError::Count(map.mappings(), slot.mappings));
        }
        let changes = self.changes(slot, &mut pages).await?;
        let chain = changes.iter().map(|(page, _)| *page).collect();
        changes.iter().for_each(|(_, changes)| take_in(&mut map, changes));
        Ok(Loaded { map, pages, chain })
    }

    /// Reads the pages that list changes of the tree, the oldest first.
    async fn changes(&self, slot: &Slot, pages: &mut BTreeSet<PageNo>) -> Result<Vec<(PageNo, Vec<Extent>)>, MapError> {
        let (mut next, mut changes) = (slot.changes.newest, Vec::new());
        while !next.is_none() {
            let wanted = Wanted { page: next, bounds: 0..u64::MAX };
            match self.level(slot, CHANGES, &[wanted], pages).await?.pop() {
                Some(Decoded::Changes(before, listed)) => {
                    changes.push((next, listed));
                    next = before;
                }
                _ => unreachable!("the level is checked"),
            }
        }
        if changes.len() as u64 != slot.changes.pages {
            return Err(MapError::Chain(changes.len() as u64, slot.changes.pages));
        }
        changes.reverse();
        Ok(changes)
    }

    /// Reads all pages of one level, in the order of `wanted`.
    async fn level(
        &self,
        slot: &Slot,
        level: u8,
        wanted: &[Wanted],
        pages: &mut BTreeSet<PageNo>,
    ) -> Result<Vec<Decoded>, MapError> {
        let g = slot.geometry;
        for Wanted { page, .. } in wanted {
            if g.segment_of_page(*page).is_none() || !pages.insert(*page) {
                return Err(MapError::Misplaced(*page));
            }
        }
        let mut order: Vec<u32> = (0..wanted.len() as u32).collect();
        order.sort_by_key(|i| wanted[*i as usize].page);
        let most = (RUN.min(self.transfer_max) / g.page as usize).max(1);
        let runs = runs_of(&order, wanted, most);
        let mut out: Vec<Option<Decoded>> = wanted.iter().map(|_| None).collect();
        let steps = runs.iter().map(|run| {
            let buf = Buf::unique(self.pool, run.len() * g.page as usize);
            self.store.read_at(wanted[run[0] as usize].page.0 * u64::from(g.page), buf, METADATA)
        });
        let (mut decoding, mut failed) = (Vec::new(), None);
        let mut each = runs.iter();
        flight::windowed(self.rt, WIDTH, steps, |done| {
            let run = each.next().expect("one answer for each");
            match done.result {
                Ok(_) => decoding.push(self.decode(slot, level, run, wanted, done.buf)),
                Err(error) => failed = Some(error),
            }
            failed.is_none()
        })
        .await;
        if let Some(error) = failed {
            return Err(error.into());
        }
        for (run, decoded) in runs.iter().zip(esker_rt::sync::join_all(decoding).await) {
            for (i, page) in run.iter().zip(decoded) {
                let number = wanted[*i as usize].page;
                let at = number.0 * u64::from(g.page);
                out[*i as usize] = Some(page.map_err(|error| MapError::Page { page: number, at, error })?);
            }
        }
        Ok(out.into_iter().flatten().collect())
    }

    /// Decodes a run of pages, away from the reactor.
    fn decode(
        &self,
        slot: &Slot,
        level: u8,
        run: &[u32],
        wanted: &[Wanted],
        buf: Buf,
    ) -> impl Future<Output = Vec<Result<Decoded, PageError>>> + use<> {
        let (volume, generation, size) = (slot.volume as u32, slot.generation, slot.geometry.page as usize);
        let run: Vec<Wanted> = run.iter().map(|i| wanted[*i as usize].clone()).collect();
        let g = slot.geometry;
        let bytes = buf.to_vec();
        let work = move || {
            let pages = run.into_iter().zip(bytes.chunks_exact(size));
            let decode = |(Wanted { page, bounds }, bytes): (Wanted, &[u8])| {
                let id = PageId { volume, page, generation };
                Page::decode(bytes, id, level, bounds).and_then(|page| Decoded::of(page, &g))
            };
            pages.map(decode).collect::<Vec<_>>()
        };
        let (rt, cost) = (self.rt.clone(), PAGE_COST * (size / 4096).max(1) as u64);
        // Spawned, so that workers begin while further runs are read.
        self.rt.spawn("decode", async move { rt.worker(cost, work).await })
    }
}

/// A page as the tree needs it.
enum Decoded {
    Leaf(Vec<Packed>),
    Inner(Vec<(u64, PageNo)>),
    Changes(PageNo, Vec<Extent>),
}

impl Decoded {
    fn of(page: Page, g: &Geometry) -> Result<Decoded, PageError> {
        let lies_inside = |extent: &Extent| {
            let end = extent.pba + u64::from(extent.len);
            end <= g.blocks() && g.segment_of(extent.pba) == g.segment_of(end - 1)
        };
        let astray = PageError::Misfit("extents that leave their segment");
        match page {
            Page::Inner(_, children) => Ok(Decoded::Inner(children)),
            Page::Leaf(extents) if !extents.iter().all(lies_inside) => Err(astray),
            Page::Leaf(extents) => Ok(Decoded::Leaf(extents.into_iter().map(Packed::of).collect())),
            Page::Changes(_, extents) if !extents.iter().all(|it| it.pba == HOLE || lies_inside(it)) => Err(astray),
            Page::Changes(before, extents) => Ok(Decoded::Changes(before, extents)),
        }
    }
}

/// The children of an inner node with these logical blocks. The first child has what is before it, too.
fn below(children: &[(u64, PageNo)], bounds: &Range<u64>) -> Vec<Wanted> {
    let starts = [bounds.start].into_iter().chain(children.iter().skip(1).map(|child| child.0));
    let ends = children.iter().skip(1).map(|child| child.0).chain([bounds.end]);
    let spans = starts.zip(ends).map(|(start, end)| start..end);
    children.iter().zip(spans).map(|((_, page), bounds)| Wanted { page: *page, bounds }).collect()
}

/// Cuts pages in their order on the medium into runs that follow each other, `most` long.
fn runs_of<'a>(order: &'a [u32], wanted: &[Wanted], most: usize) -> Vec<&'a [u32]> {
    let page = |i: &u32| wanted[*i as usize].page;
    let chunks = order.chunk_by(|a, b| page(a).next() == page(b));
    chunks.flat_map(|chunk| chunk.chunks(most)).collect()
}
