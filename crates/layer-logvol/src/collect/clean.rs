//! Cleaning one segment: its live blocks are read, written to segments of copies, and every mapping that still leads to
//! the old place is pointed at the copy.
//!
//! Blocks are copied in the order of their lowest logical blocks, so that what was written in pieces lies together
//! again; blocks that many mappings share are copied once.

use std::ops::Range;
use std::rc::Rc;

use esker_block::{BioError, Buf, Class as Who, Tag, flight};

use super::Breather;
use super::copies::CopyTarget;
use super::held::HeldParts;
use super::look::runs;
use super::pass::place;
use super::victim::{Forward, Listed, Victim};
use crate::map::{Extent, Map, Mapping};
use crate::number::SegmentNo;
use crate::segments::{Segment, Stage};
use crate::shortage::is_short;
use crate::store::{METADATA, Store};
use crate::volume::{Volume, add};

/// Bytes that are copied together.
pub(super) const CHUNK: u64 = 256 << 10;
/// Reads of one chunk under way at once.
const WIDTH: usize = 32;
const TAG: Tag = Tag { class: Who::Background, ..METADATA };

/// Why a segment was not cleaned.
#[derive(Debug)]
enum CleanError {
    /// No segment may be taken for copies.
    NoRoom,
    /// A block cannot be read.
    Unreadable(BioError),
    /// Copies cannot be written, and the volume takes no more changes.
    Broken,
}

/// Mappings that lead to blocks which overlap: `count` from number `first` on of a list that is sorted by places.
pub(super) struct Group {
    first: u32,
    count: u32,
    blocks: u32,
    /// Whether only snapshots hold its blocks.
    is_held: bool,
    /// The lowest logical block among them.
    lba: u64,
}

impl Group {
    fn of<'a>(&self, mappings: &'a [Listed]) -> &'a [Listed] {
        &mappings[self.first as usize..][..self.count as usize]
    }

    /// Its physical blocks.
    fn range(&self, mappings: &[Listed]) -> Range<u64> {
        let start = place(&mappings[self.first as usize]);
        start..start + u64::from(self.blocks)
    }
}

/// Physical blocks that are copied together, each run in one piece.
type Runs = Vec<Range<u64>>;

/// What is copied together.
#[derive(Default)]
struct Chunk {
    windows: Vec<Window>,
    live: Runs,
    blocks: u64,
}

/// A part of a group that is in a chunk, and which of the chunk's runs are of it.
struct Window {
    group: usize,
    pba: Range<u64>,
    runs: Range<usize>,
}

/// How far the groups of a list are done.
struct Progress {
    mappings: Vec<Listed>,
    groups: Vec<Group>,
    group: usize,
    /// Blocks of that group that are done.
    blocks: u64,
}

impl Progress {
    fn new(mut mappings: Vec<Listed>, held: &HeldParts, map: &Map) -> Progress {
        mappings.sort_unstable_by_key(place);
        let mut groups = groups(&mappings);
        for group in &mut groups {
            group.is_held = held.hold(group.of(&mappings).iter().map(|listed| listed.mapping()), map);
        }
        groups.sort_unstable_by_key(|group| (group.is_held, group.lba));
        Progress { groups, mappings, group: 0, blocks: 0 }
    }

    /// Whether only snapshots hold what comes next.
    fn is_held(&self) -> bool {
        self.groups.get(self.group).is_some_and(|group| group.is_held)
    }

    /// The next part of a group, of at most so many blocks.
    fn next(&mut self, most: u64) -> Option<(usize, Range<u64>)> {
        let (at, whole) = (self.group, self.groups.get(self.group)?.range(&self.mappings));
        let start = whole.start + self.blocks;
        let end = whole.end.min(start + most);
        self.blocks += end - start;
        if end == whole.end {
            (self.group, self.blocks) = (self.group + 1, 0);
        }
        Some((at, start..end))
    }
}

impl Volume {
    /// Cleans the segment that has waited longest. False if there is none, or it could not be cleaned for want of room.
    pub(crate) async fn clean_next(self: &Rc<Self>, store: &Store) -> bool {
        let Some(segment) = self.collector.state.borrow_mut().ready.pop_front() else { return false };
        let before = self.segments.borrow().get(segment);
        self.segments.borrow_mut().set_stage(segment, Stage::Cleaning);
        let result = self.clean(store, segment, &before).await;
        self.end_cleaning(segment, result)
    }

    async fn clean(self: &Rc<Self>, store: &Store, segment: SegmentNo, before: &Segment) -> Result<(), CleanError> {
        // New mappings may come while it is cleaned.
        while let Some(mappings) = self.take_mappings(segment).filter(|mappings| !mappings.is_empty()) {
            self.move_mapped(store, before, mappings).await?;
        }
        let listed = match self.collector.state.borrow().victims.get(&segment) {
            Some(Victim::Listed(bits)) => Some(bits.clone()),
            _ => None,
        };
        match listed {
            Some(bits) => self.move_listed(store, segment, before, Forward::new(bits.clone()), runs(&bits)).await,
            None => Ok(()),
        }
    }

    fn take_mappings(&self, segment: SegmentNo) -> Option<Vec<Listed>> {
        self.collector.state.borrow_mut().take_mappings(segment)
    }

    /// Leaves a segment. True if it was worth it.
    fn end_cleaning(&self, segment: SegmentNo, result: Result<(), CleanError>) -> bool {
        let mut segments = self.segments.borrow_mut();
        let mut state = self.collector.state.borrow_mut();
        let is_copied = matches!(state.victims.get(&segment), Some(Victim::Copied(_)));
        if result.is_ok() && is_copied {
            segments.set_stage(segment, Stage::Forwarding);
            return true;
        }
        state.drop_victim(segment);
        state.copies.end_claims(segment, &mut segments);
        segments.set_stage(segment, Stage::Rest);
        match result {
            Ok(()) => {
                add(&self.collector.counts.cleaned, 1);
                true
            }
            Err(CleanError::Unreadable(error)) => {
                let name = &self.config.name;
                let text = format_args!("{name}: segment {segment} is not cleaned, because it cannot be read: {error}");
                self.rt().log(esker_rt::Level::Warn, text);
                state.unreadable.insert(segment);
                true
            }
            Err(CleanError::NoRoom | CleanError::Broken) => false,
        }
    }

    /// Moves the blocks to which mappings lead.
    async fn move_mapped(
        self: &Rc<Self>,
        store: &Store,
        victim: &Segment,
        mappings: Vec<Listed>,
    ) -> Result<(), CleanError> {
        let mut progress = Progress::new(mappings, &self.collector.state.borrow().held, &self.map.borrow());
        loop {
            let class = self.class_of_copies(victim, progress.is_held());
            let place = self.room_for(class, victim).ok_or(CleanError::NoRoom)?;
            let chunk = self.next_chunk(&mut progress, self.chunk_blocks().min(place.blocks)).await;
            if chunk.blocks == 0 {
                return Ok(());
            }
            let copies = self.copy(store, place, &chunk.live, chunk.blocks).await?;
            self.repoint_all(&progress, &chunk, &copies).await;
            self.segments.borrow_mut().end(place.segment);
        }
    }

    /// Parts of groups with so many live blocks, or fewer if there are no more of their class.
    async fn next_chunk(&self, progress: &mut Progress, most: u64) -> Chunk {
        let (mut chunk, is_held) = (Chunk::default(), progress.is_held());
        while chunk.blocks < most
            && (chunk.blocks == 0 || progress.is_held() == is_held)
            && let Some((group, pba)) = progress.next(most - chunk.blocks)
        {
            let found = self.live_in(progress.groups[group].of(&progress.mappings), &pba).await;
            let live = found.iter().map(|run| run.end - run.start).sum::<u64>();
            add(&self.collector.counts.avoided_blocks, pba.end - pba.start - live);
            let runs = chunk.live.len()..chunk.live.len() + found.len();
            chunk.blocks += live;
            chunk.live.extend(found);
            chunk.windows.push(Window { group, pba, runs });
        }
        chunk
    }

    /// Blocks that are copied together at most.
    fn chunk_blocks(&self) -> u64 {
        (CHUNK.min(self.config.transfer_max) / u64::from(self.geometry.block)).clamp(1, self.config.batch_blocks)
    }

    /// Which blocks of a part some mapping still leads to. Looks no further than until all are known to be live.
    async fn live_in(&self, mappings: &[Listed], part: &Range<u64>) -> Runs {
        let mut is_live = vec![false; (part.end - part.start) as usize];
        let mut missing = is_live.len();
        let mut breather = Breather::of(self);
        for mapping in mappings.iter().map(Listed::mapping) {
            breather.step().await;
            let Some(extent) = within(mapping.extent, part) else { continue };
            for piece in self.map.borrow().still_there(&Mapping { extent, ..mapping }) {
                let from = (piece.pba - part.start) as usize;
                for block in &mut is_live[from..from + piece.len as usize] {
                    missing -= usize::from(!std::mem::replace(block, true));
                }
            }
            if missing == 0 {
                break;
            }
        }
        let mut runs = Runs::new();
        for at in is_live.iter().enumerate().filter(|(_, is_live)| **is_live).map(|(i, _)| part.start + i as u64) {
            match runs.last_mut() {
                Some(run) if run.end == at => run.end += 1,
                _ => runs.push(at..at + 1),
            }
        }
        runs
    }

    /// Copies runs of blocks, `blocks` in all, to a place: where each went. The copy counts as under way from then on.
    async fn copy(
        self: &Rc<Self>,
        store: &Store,
        place: CopyTarget,
        runs: &Runs,
        blocks: u64,
    ) -> Result<Vec<(Range<u64>, u64)>, CleanError> {
        let block = u64::from(self.geometry.block);
        // Twice, so that held writers go on in shorter turns.
        self.earn(blocks * block).await;
        let mut bufs = Vec::with_capacity(runs.len() + 1);
        let mut failed = None;
        let steps = runs.iter().map(|run| {
            let buf = Buf::unique(self.pool(), ((run.end - run.start) * block) as usize);
            store.read(self.geometry.segment_of(run.start), run.start % self.geometry.segment, buf, TAG)
        });
        flight::windowed(self.rt(), WIDTH, steps, |done| {
            failed = failed.take().or(done.result.err());
            bufs.push(done.buf);
            failed.is_none()
        })
        .await;
        if let Some(error) = failed {
            return Err(CleanError::Unreadable(error));
        }
        self.earn(blocks * block).await;
        let (mut to, head) = self.take_place(place, blocks);
        let copies = runs.iter().map(|run| {
            let first = to;
            to += run.end - run.start;
            (run.clone(), first)
        });
        let copies: Vec<(Range<u64>, u64)> = copies.collect();
        let buf = Buf::chain(head.into_iter().chain(bufs).collect());
        let written = store.append(place.segment, place.block, buf, TAG).await;
        if let Err(error) = written.result {
            self.segments.borrow_mut().end(place.segment);
            if is_short(&error) {
                return Err(CleanError::NoRoom);
            }
            self.latch("a copy could not be written", &error);
            return Err(CleanError::Broken);
        }
        add(&self.collector.counts.moved_blocks, blocks);
        Ok(copies)
    }

    /// Points all mappings of a chunk at its copies, where they have not changed meanwhile.
    async fn repoint_all(&self, progress: &Progress, chunk: &Chunk, copies: &[(Range<u64>, u64)]) {
        let mut breather = Breather::of(self);
        for Window { group, pba, runs } in &chunk.windows {
            for mapping in progress.groups[*group].of(&progress.mappings).iter().map(Listed::mapping) {
                breather.step().await;
                let Some(extent) = within(mapping.extent, pba) else { continue };
                for (run, to) in &copies[runs.clone()] {
                    if let Some(part) = within(extent, run) {
                        self.repoint(Mapping { extent: part, ..mapping }, to + (part.pba - run.start));
                    }
                }
            }
        }
    }

    /// Copies the blocks that were live when the segment was counted; the next pass points its mappings at the copies.
    async fn move_listed(
        self: &Rc<Self>,
        store: &Store,
        segment: SegmentNo,
        victim: &Segment,
        mut forward: Forward,
        mut runs: Vec<Range<u64>>,
    ) -> Result<(), CleanError> {
        let base = self.geometry.first_of(segment);
        runs.reverse();
        while let Some(last) = runs.last() {
            let class = self.class_of_copies(victim, false);
            let place = self.room_for(class, victim).ok_or(CleanError::NoRoom)?;
            let most = self.chunk_blocks().min(place.blocks);
            let (mut chunk, mut blocks, mut next) = (Runs::new(), 0, Some(last.clone()));
            while let Some(run) = next.filter(|_| blocks < most) {
                runs.pop();
                let end = run.end.min(run.start + (most - blocks));
                blocks += end - run.start;
                chunk.push(base + run.start..base + end);
                if end < run.end {
                    runs.push(end..run.end);
                }
                next = runs.last().cloned();
            }
            let copies = self.copy(store, place, &chunk, blocks).await?;
            copies.iter().for_each(|(run, first)| forward.set(run.start - base, *first, run.end - run.start));
            let now = self.log.borrow().seq;
            let mut segments = self.segments.borrow_mut();
            // Nothing leads to the copy yet, so it looks dead. It is under way until everything does.
            self.collector.state.borrow_mut().copies.claim(segment, place.segment, &mut segments, now);
            segments.end(place.segment);
        }
        self.collector.state.borrow_mut().keep(segment, Victim::Copied(forward));
        Ok(())
    }
}

/// The part of an extent whose physical blocks are in `range`.
fn within(extent: Extent, range: &Range<u64>) -> Option<Extent> {
    let (start, end) = (extent.pba.max(range.start), (extent.pba + u64::from(extent.len)).min(range.end));
    (start < end).then(|| Extent { lba: extent.lba + (start - extent.pba), pba: start, len: (end - start) as u32 })
}

/// Groups mappings, which are sorted by their places, whose blocks overlap.
fn groups(mappings: &[Listed]) -> Vec<Group> {
    // As many as the list has at most, so that it takes no more memory than was set aside.
    let mut groups: Vec<Group> = Vec::with_capacity(mappings.len());
    for (i, extent) in mappings.iter().map(|listed| listed.mapping().extent).enumerate() {
        let start = |group: &Group| place(&mappings[group.first as usize]);
        match groups.last_mut() {
            Some(group) if extent.pba < start(group) + u64::from(group.blocks) => {
                let blocks = (extent.pba - start(group)) as u32 + extent.len;
                group.count += 1;
                group.blocks = group.blocks.max(blocks);
                group.lba = group.lba.min(extent.lba);
            }
            _ => groups.push(Group { first: i as u32, count: 1, blocks: extent.len, is_held: false, lba: extent.lba }),
        }
    }
    groups
}
