//! What has changed in the map since its tree was written: a checkpoint of few changes lists them in pages of their own,
//! instead of writing most of the tree anew for them.
//!
//! Each page names the one before it, and the slot names the last one. Recovery takes them into the tree in the order
//! in which they were written. Only a checkpoint that writes the tree makes them superfluous, and the nodes that they
//! replace: until then neither becomes free. They are dropped for a tree when they would take half as many pages.
//!
//! Logical blocks are noted, not what they map to: the list says what they map to when it is made. So a block that
//! changes often is listed once.

use std::ops::Range;

use esker_block::{BioError, Buf, flight};

use super::{CheckpointPlan, PAGES_PER_PART, WIDTH, runs};
use crate::format::{Chain, Page, PageId, changes_per};
use crate::map::{Extent, Map};
use crate::number::PageNo;
use crate::segments::State;
use crate::store::DeviceStore;
use crate::volume::{Volume, pages_for};

/// Pages of changes that are read one after the other at most when a volume is opened.
const PAGES_MAX: u64 = 4096;

/// The physical block of what is mapped no longer: the first one is a segment's head.
pub(crate) const HOLE: u64 = 0;

/// A tree as it lies on the medium.
#[derive(Clone, Copy)]
pub(super) struct Tree {
    pub root: PageNo,
    pub height: u8,
    pub mappings: u64,
    pub blocks: u64,
}

impl Tree {
    /// What was just written of a map.
    pub(super) fn of(map: &Map) -> Tree {
        Tree { root: map.root_page(), height: map.height(), mappings: map.mappings(), blocks: map.blocks() }
    }
}

/// Changes of the map that its tree on the medium lacks.
pub(crate) struct Changes {
    /// The tree; none if the next checkpoint must write one.
    tree: Option<Tree>,
    /// Pages that list changes, in the order in which they were written.
    chain: Vec<PageNo>,
    /// Logical blocks that changed since the last checkpoint, in the order of their changes; none if they are too many
    /// to be listed.
    ranges: Option<Vec<Range<u64>>>,
}

impl Changes {
    /// After `chain` was taken into the map of a volume: the first checkpoint writes a tree.
    pub(crate) fn of(chain: Vec<PageNo>) -> Changes {
        Changes { tree: None, chain, ranges: None }
    }

    /// These logical blocks map to something else now.
    pub(crate) fn note(&mut self, range: Range<u64>, most: usize) {
        let Some(ranges) = &mut self.ranges else { return };
        let is_full = ranges.len() >= most;
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ if is_full => self.ranges = None,
            _ => ranges.push(range),
        }
    }

    /// Pages that list changes.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> usize {
        self.chain.len()
    }

    /// A tree is written that has all changes up to now: pages that are superfluous when it is durable.
    pub(super) fn begin_tree(&mut self) -> Vec<PageNo> {
        self.tree = None;
        self.ranges = Some(Vec::new());
        std::mem::take(&mut self.chain)
    }

    /// It is durable, or goes on to be.
    pub(super) fn know_tree(&mut self, tree: Tree) {
        self.tree = Some(tree);
    }

    /// The next checkpoint writes a tree.
    pub(super) fn forget_tree(&mut self) {
        self.tree = None;
    }

    /// Takes the ranges, sorted and without overlaps.
    fn take(&mut self) -> Option<Vec<Range<u64>>> {
        let mut ranges = self.ranges.replace(Vec::new())?;
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, before| {
            let joins = next.start <= before.end;
            if joins {
                before.end = before.end.max(next.end);
            }
            joins
        });
        Some(ranges)
    }
}

impl Volume {
    /// These logical blocks map to something else now.
    pub(crate) fn note_change(&self, range: Range<u64>) {
        let pages = self.change_pages_max(&self.map.borrow());
        self.changes.borrow_mut().note(range, pages as usize * changes_per(self.geometry.page as usize));
    }

    /// Pages that all changes may take: half of those of a tree.
    fn change_pages_max(&self, map: &Map) -> u64 {
        (map.nodes() / 2).min(PAGES_MAX)
    }

    /// A checkpoint that lists changes, if that is possible and takes less than a tree.
    pub(super) fn plan_changes(&self) -> Option<CheckpointPlan> {
        let plan = self.try_changes();
        if plan.is_none() {
            self.changes.borrow_mut().forget_tree();
        }
        plan
    }

    fn try_changes(&self) -> Option<CheckpointPlan> {
        let (mut log, map, mut segments) = (self.log.borrow_mut(), self.map.borrow(), self.segments.borrow_mut());
        let (mut pages, mut changes) = (self.pages.borrow_mut(), self.changes.borrow_mut());
        let tree = changes.tree.filter(|_| !self.shortage.is_broken_off())?;
        let left = self.change_pages_max(&map).checked_sub(changes.chain.len() as u64)?;
        let per = changes_per(self.geometry.page as usize);
        let listed = list(&map, &changes.take()?, left as usize * per)?;
        let count = listed.len().div_ceil(per) as u64;
        let whole = pages_for(map.nodes());
        let room = pages.free() + segments.free() * self.geometry.pages_per_segment();
        if map.dirty_nodes() as u64 <= changes.chain.len() as u64 + count || room < whole + count {
            return None;
        }
        while pages.free() < count {
            pages.add(segments.take(State::Map, 0)?, &Default::default());
        }
        let mut written = Vec::new();
        for part in listed.chunks(per) {
            let before = changes.chain.last().copied().unwrap_or(PageNo::NONE);
            let page = pages.take().expect("counted above");
            changes.chain.push(page);
            written.push((page, Page::Changes(before, part.to_vec())));
        }
        let (seq, heads) = log.installed();
        log.since_checkpoint = 0;
        let newest = changes.chain.last().copied().unwrap_or(PageNo::NONE);
        Some(CheckpointPlan {
            seq,
            heads,
            tree,
            chain: Chain { newest, pages: changes.chain.len() as u64 },
            is_tree: false,
            pages: Vec::new(),
            changes: written,
            stale: Vec::new(),
            dead: segments.dead(seq),
            mends: false,
        })
    }

    /// Writes pages of changes, each run of neighbours in one request.
    pub(super) async fn write_changes(
        &self,
        store: &DeviceStore,
        pages: &[(PageNo, Page)],
        generation: u64,
    ) -> Result<(), BioError> {
        let (size, volume) = (self.geometry.page as usize, self.identity as u32);
        let numbers: Vec<PageNo> = pages.iter().map(|(page, _)| *page).collect();
        let most = (self.config.transfer_max as usize / size).clamp(1, PAGES_PER_PART);
        let steps = runs(&numbers, most).into_iter().map(|(at, count)| {
            let mut bytes = vec![0; count * size];
            for ((page, content), out) in pages[at..at + count].iter().zip(bytes.chunks_exact_mut(size)) {
                content.encode(PageId { volume, page: *page, generation }, out);
            }
            store.write_pages(numbers[at], Buf::from_bytes(self.pool(), &bytes))
        });
        let mut result = Ok(());
        flight::windowed(self.rt(), WIDTH, steps, |done| {
            result = std::mem::replace(&mut result, Ok(())).and(done.result.map(drop));
            result.is_ok()
        })
        .await;
        result
    }
}

/// What ranges map to, with their holes; none if that is more than `most` entries.
fn list(map: &Map, ranges: &[Range<u64>], most: usize) -> Option<Vec<Extent>> {
    let mut listed = Vec::new();
    let mut add = |extent: Extent| {
        listed.push(extent);
        (listed.len() <= most).then_some(())
    };
    for range in ranges {
        let mut at = range.start;
        let hole = |at: u64, end: u64| Some(Extent { lba: at, pba: HOLE, len: u32::try_from(end - at).ok()? });
        for piece in map.pieces(range.clone()) {
            if at < piece.lba {
                add(hole(at, piece.lba)?)?;
            }
            at = piece.end();
            add(piece)?;
        }
        if at < range.end {
            add(hole(at, range.end)?)?;
        }
    }
    Some(listed)
}

/// Takes listed changes into a map.
pub(crate) fn take_in(map: &mut Map, changes: &[Extent]) {
    for change in changes {
        match change.pba {
            HOLE => map.unmap(change.range(), &mut |_| {}),
            _ => map.map(*change, &mut |_| {}),
        }
    }
}
