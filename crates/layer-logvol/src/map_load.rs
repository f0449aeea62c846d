//! Reads the map of a checkpoint: the index level by level, then all nodes, each in runs of pages that follow each
//! other, decoded by workers.

use std::collections::BTreeSet;

use esker_base::{Nanos, Progress};
use esker_block::{BioError, Buf, flight};
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::format::{Geometry, Page, PageError, PageId, Slot};
use crate::map::changes::{HOLE, Listed, newer};
use crate::map::{Map, NodeId, TreeError};
use crate::number::{PageNo, SegmentNo};
use crate::store::Store;

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
    /// Pages of the index, or nodes, do not fit together.
    #[error("the index of the map has {0}")]
    Index(&'static str),
    /// Nodes do not fit together.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The pages together are not what the slot says.
    #[error("the map has {0} blocks, the superblock says {1}")]
    Count(u64, u64),
}

/// A map as it was read, and the pages that it is in.
pub struct Loaded {
    /// The map.
    pub map: Map,
    /// Pages that hold it.
    pub pages: BTreeSet<PageNo>,
}

/// What reading needs.
pub struct Loader<'a> {
    /// The world.
    pub rt: &'a Rt,
    /// Where buffers come from.
    pub pool: &'a Pool,
    /// The medium.
    pub store: &'a Store,
    /// Bytes of the largest request below.
    pub transfer_max: usize,
}

impl Loader<'_> {
    /// Reads the map that a slot names.
    ///
    /// # Errors
    /// [`MapError`].
    pub async fn load(&self, slot: &Slot) -> Result<Loaded, MapError> {
        let (fanout, mut pages) = (slot.geometry.fanout(), BTreeSet::new());
        let mut levels = vec![vec![slot.root]];
        for level in (0..=slot.height).rev() {
            let wanted = levels.last().expect("the root is there");
            if wanted.iter().any(|page| page.is_none()) {
                return Err(MapError::Index("a part that is missing"));
            }
            let read = self.read(slot, wanted, &mut pages).await?;
            let mut below = Vec::with_capacity(read.len() * fanout.index);
            for (at, page) in read.into_iter().enumerate() {
                match page.page {
                    Page::Index(of, part) if of == level && at * fanout.index == below.len() => below.extend(part),
                    Page::Leaf(_) | Page::Inner(_) | Page::Roots(..) | Page::Index(..) | Page::Changes(_) => {
                        return Err(MapError::Index("a part of another size or level"));
                    }
                }
            }
            levels.push(below);
        }
        let numbered = levels.pop().expect("the lowest level names nodes").into_iter().zip(0..);
        let (wanted, ids): (Vec<PageNo>, Vec<u32>) = numbered.filter(|(page, _)| !page.is_none()).unzip();
        let read = self.read(slot, &wanted, &mut pages).await?;
        let changes = changes(&ids, &read);
        let mut nodes = Vec::with_capacity(wanted.len());
        for ((page, id), read) in wanted.iter().zip(ids).zip(read) {
            let node = read.page.into_node().filter(|_| id > 0);
            nodes.push((NodeId(id), *page, node.ok_or(MapError::Index("a part where a node should be"))?));
        }
        levels.reverse();
        let map = Map::restored(fanout, nodes, &changes, levels)?;
        match map.blocks() == slot.blocks {
            true => Ok(Loaded { map, pages }),
            false => Err(MapError::Count(map.blocks(), slot.blocks)),
        }
    }

    /// Reads pages, in the order of `wanted`.
    async fn read(&self, slot: &Slot, wanted: &[PageNo], pages: &mut BTreeSet<PageNo>) -> Result<Vec<Read>, MapError> {
        let g = slot.geometry;
        for page in wanted {
            if g.segment_of_page(*page).is_none() || !pages.insert(*page) {
                return Err(MapError::Misplaced(*page));
            }
        }
        let mut order: Vec<u32> = (0..wanted.len() as u32).collect();
        order.sort_by_key(|i| wanted[*i as usize]);
        let most = (RUN.min(self.transfer_max) / g.page as usize).max(1);
        let runs = runs_of(&order, wanted, most);
        let mut out: Vec<Option<Read>> = wanted.iter().map(|_| None).collect();
        let steps = runs.iter().map(|run| {
            let buf = Buf::unique(self.pool, run.len() * g.page as usize);
            self.store.read_pages(wanted[run[0] as usize], buf)
        });
        let (mut decoding, mut failed) = (Vec::new(), None);
        let (mut each, mut read) = (runs.iter(), 0);
        flight::windowed(self.rt, WIDTH, steps, |done| {
            let run = each.next().expect("one answer for each");
            read += run.len() as u64;
            self.rt.progress(Progress::of("map of the volume", "pages", read, wanted.len() as u64));
            match done.result {
                Ok(_) => decoding.push(self.decode(slot, run, wanted, done.buf)),
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
                let number = wanted[*i as usize];
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
        run: &[u32],
        wanted: &[PageNo],
        buf: Buf,
    ) -> impl Future<Output = Vec<Result<Read, PageError>>> + use<> {
        let (volume, generation, size) = (slot.volume as u32, slot.generation, slot.geometry.page as usize);
        let run: Vec<PageNo> = run.iter().map(|i| wanted[*i as usize]).collect();
        let g = slot.geometry;
        let bytes = buf.to_vec();
        let work = move || {
            let pages = run.into_iter().zip(bytes.chunks_exact(size));
            let decode = |(page, bytes): (PageNo, &[u8])| {
                let page = Page::decode(bytes, PageId { volume, page, generation })?;
                on_medium(page, &g).map(|page| Read { page, generation: Page::generation(bytes) })
            };
            pages.map(decode).collect::<Vec<_>>()
        };
        let (rt, cost) = (self.rt.clone(), PAGE_COST * (size / 4096).max(1) as u64);
        // Spawned, so that workers begin while further runs are read.
        self.rt.spawn("decode", async move { rt.worker(cost, work).await })
    }
}

/// A page that was read.
struct Read {
    page: Page,
    /// The checkpoint that wrote it.
    generation: u64,
}

/// Changes that the pages of their leaves lack. `ids` are in order.
fn changes(ids: &[u32], read: &[Read]) -> Vec<Listed> {
    let lists = read.iter().filter_map(|Read { page, generation }| match page {
        Page::Changes(changes) => Some((*generation, changes.iter().map(|(leaf, extent)| (NodeId(*leaf), *extent)))),
        Page::Leaf(_) | Page::Inner(_) | Page::Roots(..) | Page::Index(..) => None,
    });
    let written = |leaf: NodeId| ids.binary_search(&leaf.0).ok().map(|at| read[at].generation);
    newer(lists.collect(), written)
}

/// A page whose extents lie where blocks can.
fn on_medium(page: Page, g: &Geometry) -> Result<Page, PageError> {
    let lies_inside = |pba: u64, len: u32| {
        let end = pba + u64::from(len);
        end <= g.blocks() && g.segment_of(pba) == g.segment_of(end - 1)
    };
    match &page {
        Page::Leaf(extents) if !extents.iter().all(|extent| lies_inside(extent.pba, extent.len)) => {
            Err(PageError::Misfit("extents that leave their segment"))
        }
        Page::Changes(changes) if !changes.iter().all(|(_, it)| it.pba == HOLE || lies_inside(it.pba, it.len)) => {
            Err(PageError::Misfit("changes that leave their segment"))
        }
        Page::Leaf(_) | Page::Inner(_) | Page::Roots(..) | Page::Index(..) | Page::Changes(_) => Ok(page),
    }
}

/// Cuts pages in their order on the medium into runs that follow each other, `most` long.
fn runs_of<'a>(order: &'a [u32], wanted: &[PageNo], most: usize) -> Vec<&'a [u32]> {
    let page = |i: &u32| wanted[*i as usize];
    let chunks = order.chunk_by(|a, b| page(a).next() == page(b));
    chunks.flat_map(|chunk| chunk.chunks(most)).collect()
}
