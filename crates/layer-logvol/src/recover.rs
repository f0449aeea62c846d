//! Recovery: the newest checkpoint, and the log from there on.
//!
//! The log ends where no batch of its epoch and with the next number follows. Up to the highest number that any batch
//! or head calls durable, nothing may be missing: if something is, the log is damaged, and the volume is not opened.
//! Behind that number a batch counts only if the sums of its data are right, and nothing counts behind one that does
//! not.
//!
//! Recovery changes nothing on the medium until it is complete: the checkpoint that follows it, with an epoch of its
//! own, is the first write. So it may be broken off and repeated.

use esker_base::Progress;
use esker_block::{Below, Bio, BioError, Buf, flight};
use esker_cleaning::Class;
use esker_framing::{Epochs, LogCursor, Newest, Next, SuperblockError, newest};
use esker_layer_kit::media;
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::apply::apply;
use crate::format::{
    Batch, BatchError, CopyHeader, Geometry, HEADS, Heads, Position, Record, Runs, SLOT, SLOTS, SegmentHeader, Slot,
    slots_of,
};
use crate::log::Log;
use crate::map::Map;
use crate::map_load::{Loader, MapError};
use crate::number::SegmentNo;
use crate::pages::Pages;
use crate::segments::{Segments, State};
use crate::store::{METADATA, Store, Stores};
use crate::volume::StartState;

/// Heads read at once.
const WIDTH: usize = 64;
/// Bytes of the log that are read at once.
const WINDOW: u64 = 1 << 20;

/// The part of recovery that reads the log.
const LOG: &str = "log of the volume";

/// Why a volume cannot be opened.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum RecoverError {
    /// The device failed.
    #[error("it cannot be read: {0}")]
    Io(#[from] BioError),
    /// No slot counts, and not all are blank.
    #[error("it {0}")]
    Superblock(SuperblockError),
    /// The medium of another layer.
    #[error(
        "it holds {0}, and no volume; name what the volume stands on, or zero its first 8 KiB if nothing there is needed"
    )]
    Other(&'static str),
    /// The device has become smaller.
    #[error("it needs {needed} bytes, the device has {has}")]
    Shrunk {
        /// Bytes of the volume.
        needed: u64,
        /// Bytes of the device.
        has: u64,
    },
    /// The device's blocks are larger than the volume's.
    #[error("it has blocks of {volume} bytes, the device below of {device}")]
    Blocks {
        /// Bytes of a block of the volume.
        volume: u32,
        /// Bytes of a block of the device.
        device: u32,
    },
    /// The newest checkpoint is gone.
    #[error("checkpoint {found} is the newest one found, but segment {segment} knows of checkpoint {known}")]
    Lost {
        /// Generation of the newest slot.
        found: u64,
        /// The segment that knows of a newer one.
        segment: SegmentNo,
        /// Its generation.
        known: u64,
    },
    /// The map of the newest checkpoint is damaged.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A part of the log is missing that was durable.
    #[error(
        "the log is damaged: record {seq} should be in segment {segment}, block {block}; records before {durable} were durable"
    )]
    Damaged {
        /// The first missing record.
        seq: u64,
        /// Where the log breaks off.
        segment: SegmentNo,
        /// Block of the segment.
        block: u64,
        /// What is known to be durable.
        durable: u64,
    },
    /// A batch that only a newer esker understands.
    #[error("segment {0}, block {1}: {2}")]
    Unknown(SegmentNo, u64, BatchError),
}

impl RecoverError {
    /// Whether what was durable is damaged.
    pub fn is_damage(&self) -> bool {
        let is_inside = matches!(self, RecoverError::Lost { .. } | RecoverError::Map(_) | RecoverError::Damaged { .. });
        is_inside || matches!(self, RecoverError::Superblock(error) if error.is_damage())
    }
}

/// A batch of the log, and where it and its data lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Logged {
    /// The batch.
    pub batch: Batch,
    /// Where it begins.
    pub position: Position,
    /// Where its data lies.
    pub runs: Runs,
    /// Where the heads are behind it.
    pub heads: Heads,
}

/// Everything that was read: enough to go on, or to tell about it.
pub struct Recovered {
    /// The newest checkpoint.
    pub slot: Slot,
    /// Where the volume is kept.
    pub stores: Stores,
    /// The map of now.
    pub map: Map,
    /// Segments as they are used.
    pub segments: Segments,
    /// Pages of the checkpoint's map.
    pub pages: Pages,
    /// What was replayed.
    pub replayed: Vec<Logged>,
    /// Batches that were found behind it but do not count: their data never arrived.
    pub dropped: u64,
    /// Where the log goes on.
    pub heads: Heads,
    /// Number of the next record.
    pub seq: u64,
}

/// Reads a volume.
pub struct Recovery<'a> {
    /// The world.
    pub rt: &'a Rt,
    /// Where buffers come from.
    pub pool: &'a Pool,
    /// The way down to lower device 0.
    pub below: &'a Below,
    /// The stores of a volume of this geometry.
    pub stores: &'a dyn Fn(Geometry) -> Stores,
    /// Bytes of the medium.
    pub medium: u64,
    /// Bytes of a block of the device below.
    pub block: u32,
    /// Bytes of the largest request below.
    pub transfer_max: u64,
}

impl Recovery<'_> {
    /// The newest slot; none if the medium is blank.
    ///
    /// # Errors
    /// [`RecoverError`].
    pub async fn newest(&self) -> Result<Option<Slot>, RecoverError> {
        let below = self.below;
        // Slot 0 in front and at the back, then slot 1.
        let mut slots = Vec::new();
        for at in (0..SLOTS).flat_map(|generation| slots_of(generation, self.medium)) {
            let read = Bio::read(at, Buf::unique(self.pool, SLOT)).tagged(METADATA);
            let done = below.submit(read.to(below.lower(0))).await;
            done.result?;
            slots.push(done.buf.to_vec());
        }
        let copies = [0, 1].map(|copy| [&slots[copy][..], &slots[2 + copy][..]]);
        match (newest(&copies).and_then(Newest::writable), media::name_of(&copies[0].concat())) {
            (Ok(slot), _) => Ok(Some(slot)),
            (Err(SuperblockError::Blank), _) => Ok(None),
            (Err(SuperblockError::Foreign(_)), Some(name)) => Err(RecoverError::Other(name)),
            (Err(error), _) => Err(RecoverError::Superblock(error)),
        }
    }

    /// Reads the volume of a slot as it is now.
    ///
    /// # Errors
    /// [`RecoverError`].
    pub async fn run(&self, slot: Slot) -> Result<Recovered, RecoverError> {
        let g = slot.geometry;
        if g.bytes() > self.medium {
            return Err(RecoverError::Shrunk { needed: g.bytes(), has: self.medium });
        }
        if g.block < self.block {
            return Err(RecoverError::Blocks { volume: g.block, device: self.block });
        }
        let stores = (self.stores)(g);
        let store = stores.through(self.below.clone());
        let (heads, copies) = self.heads(&slot, &store).await?;
        if let Some(head) = heads.iter().flatten().find(|head| head.generation > slot.generation) {
            let (segment, known) = (head.segment, head.generation);
            return Err(RecoverError::Lost { found: slot.generation, segment, known });
        }
        let transfer_max = self.transfer_max as usize;
        let loader = Loader { rt: self.rt, pool: self.pool, store: &store, transfer_max };
        let loaded = loader.load(&slot).await?;
        let mut walk = Walk::new(self, &slot, &store, &heads);
        let mut logged = walk.all().await?;
        let kept = walk.judge(&logged).await?;
        let dropped = (logged.len() - kept) as u64;
        logged.truncate(kept);
        let (seq, ends) = logged.last().map_or((slot.seq, slot.heads), |last| (last.seq_behind(), last.heads));
        let mut map = loaded.map;
        for (record, pba) in logged.iter().flat_map(|logged| logged.records()) {
            apply(&mut map, record, pba, &mut |_| {});
        }
        // References are counted below.
        map.give_back(usize::MAX, &mut |_| {});
        let mut segments = Segments::new(g);
        let mut pages = Pages::new(g);
        for page in &loaded.pages {
            segments.claim(g.segment_of_page(*page).expect("checked when it was read"), State::Map, 0);
        }
        for (segment, _) in segments.iter().filter(|(_, segment)| segment.state == State::Map).collect::<Vec<_>>() {
            pages.add(segment, &loaded.pages);
        }
        claim_log(&mut segments, &map, &heads, &logged, seq, ends);
        copies.iter().for_each(|head| segments.know_copies(head.segment, head.born.min(seq), head.class));
        let is_log =
            |segment: SegmentNo, live: u64| live > 0 || ends.iter().any(|end| end.block > 0 && end.segment == segment);
        let mixed = segments.iter().find(|(segment, entry)| pages.has(*segment) && is_log(*segment, entry.live));
        if let Some((segment, _)) = mixed {
            return Err(MapError::Mixed(segment).into());
        }
        Ok(Recovered { slot, stores, map, segments, pages, replayed: logged, dropped, heads: ends, seq })
    }

    /// The heads of all segments of the log, by number, and of those that hold copies.
    async fn heads(
        &self,
        slot: &Slot,
        store: &Store,
    ) -> Result<(Vec<Option<SegmentHeader>>, Vec<CopyHeader>), RecoverError> {
        let g = slot.geometry;
        let (mut heads, mut copies, mut failed) = (Vec::with_capacity(g.segments as usize), Vec::new(), None);
        let steps = SegmentNo::all(g.segments)
            .map(|segment| store.read(segment, 0, Buf::unique(self.pool, g.block as usize), METADATA));
        let mut each = SegmentNo::all(g.segments);
        flight::windowed(self.rt, WIDTH, steps, |done| {
            match done.result {
                Ok(_) => {
                    let (bytes, segment) = (done.buf.to_vec(), each.next().expect("one answer for each"));
                    copies.extend(CopyHeader::decode(&bytes, slot.volume, segment, &g));
                    heads.push(SegmentHeader::decode(&bytes, slot.volume, segment, &g));
                    let read = heads.len() as u64;
                    self.rt.progress(Progress::of("heads of the volume", "segments", read, g.segments));
                }
                Err(error) => failed = Some(error),
            }
            failed.is_none()
        })
        .await;
        failed.map_or(Ok((heads, copies)), |error| Err(error.into()))
    }
}

/// Segments of the log: those that are referred to, those that were replayed, and the head.
fn claim_log(
    segments: &mut Segments,
    map: &Map,
    heads: &[Option<SegmentHeader>],
    logged: &[Logged],
    seq: u64,
    ends: Heads,
) {
    let first = |segment: SegmentNo| heads[segment.index()].map_or(0, |head| head.seq).min(seq);
    let close = |segments: &mut Segments, segment: SegmentNo| {
        if segments.get(segment).state == State::Free {
            segments.claim(segment, State::Closed, first(segment));
        }
    };
    for extent in map.references() {
        segments.refer(extent);
    }
    let referred: Vec<SegmentNo> = segments.iter().filter(|(_, segment)| segment.live > 0).map(|(at, _)| at).collect();
    let replayed = logged.iter().flat_map(|logged| logged.heads).filter(|at| at.block > 0).map(|at| at.segment);
    referred.into_iter().chain(replayed).for_each(|segment| close(segments, segment));
    for end in ends.into_iter().filter(|end| end.block > 0) {
        segments.claim(end.segment, State::Open, first(end.segment));
    }
    heads.iter().flatten().for_each(|head| segments.know_log(head.segment, head.class));
    for (class, end) in Class::NEW.into_iter().zip(ends).filter(|(_, end)| end.block > 0) {
        segments.know_log(end.segment, class);
        segments.fill(end.segment, end.block);
    }
    segments.list_free();
}

impl Logged {
    /// Number of the next record.
    fn seq_behind(&self) -> u64 {
        self.batch.seq + self.batch.records.len() as u64
    }

    /// The records, each with the first block of its data.
    pub fn records(&self) -> impl Iterator<Item = (&Record, u64)> {
        let mut runs = self.runs.clone();
        self.batch.records.iter().map(move |record| (record, runs.next(record)))
    }
}

/// Where a head is behind blocks that lie in one segment; none if they do not.
fn end_of(pba: u64, len: u64, g: &Geometry) -> Option<Position> {
    let end = pba.checked_add(len).filter(|end| *end <= g.blocks())?;
    let (segment, block) = (g.segment_of(pba), pba % g.segment);
    (block > 0 && g.segment_of(end - 1) == segment).then_some(Position { segment, block: block + len })
}

/// A walk along the log.
struct Walk<'a> {
    recovery: &'a Recovery<'a>,
    slot: &'a Slot,
    store: &'a Store,
    heads: &'a [Option<SegmentHeader>],
    /// Bytes of a segment from a block on, for each head.
    windows: [(Position, Vec<u8>); HEADS],
}

impl<'a> Walk<'a> {
    fn new(
        recovery: &'a Recovery<'a>,
        slot: &'a Slot,
        store: &'a Store,
        heads: &'a [Option<SegmentHeader>],
    ) -> Walk<'a> {
        Walk { recovery, slot, store, heads, windows: Default::default() }
    }

    /// All batches from the slot's positions on whose records are whole.
    async fn all(&mut self) -> Result<Vec<Logged>, RecoverError> {
        let (mut seq, mut heads, mut logged) = (self.slot.seq, self.slot.heads, Vec::new());
        // Segments that were begun behind the checkpoint, and that in which it lies.
        let count = self.heads.iter().flatten().filter(|head| head.seq > seq).count() as u64 + 1;
        let tell = |done| self.recovery.rt.progress(Progress::of(LOG, "segments", done, count));
        let (mut segments, mut last) = (0, None);
        while let Some(next) = self.next(heads, seq).await? {
            (seq, heads) = (next.seq_behind(), next.heads);
            if last.replace(next.position.segment) != Some(next.position.segment) {
                tell(segments);
                segments = (segments + 1).min(count - 1);
            }
            logged.push(next);
        }
        tell(count);
        Ok(logged)
    }

    /// The batch that begins with record `seq`: where a head goes on, or at the front of a segment.
    async fn next(&mut self, heads: Heads, seq: u64) -> Result<Option<Logged>, RecoverError> {
        for (class, at) in heads.into_iter().enumerate().filter(|(_, at)| at.block > 0) {
            if let Some(next) = self.batch(at, seq, class, heads).await? {
                return Ok(Some(next));
            }
        }
        match self.heads.iter().flatten().find(|head| self.begins(head, seq)) {
            Some(head) => {
                self.batch(Position { segment: head.segment, block: 1 }, seq, head.class.index(), heads).await
            }
            None => Ok(None),
        }
    }

    fn begins(&self, head: &SegmentHeader, seq: u64) -> bool {
        head.epoch == self.slot.epoch && head.seq == seq && !head.begins_with_data
    }

    /// The batch at a place, if it is the one that begins with record `seq`.
    async fn batch(
        &mut self,
        at: Position,
        seq: u64,
        class: usize,
        mut heads: Heads,
    ) -> Result<Option<Logged>, RecoverError> {
        let g = self.slot.geometry;
        let (block, epoch) = (g.block as usize, self.slot.epoch);
        let mut needed = block;
        let batch = loop {
            let Some(bytes) = self.bytes(at, needed, class).await? else { return Ok(None) };
            match Batch::decode(bytes, block, epoch) {
                Ok(batch) => break batch,
                Err(BatchError::None) => return Ok(None),
                Err(BatchError::Short(more)) => needed = more,
                Err(error) => return Err(RecoverError::Unknown(at.segment, at.block, error)),
            }
        };
        let head = (Batch::head_bytes(batch.records.len(), block) / block) as u64;
        let behind = at.block + head + batch.data();
        if batch.seq != seq || behind > g.segment {
            return Ok(None);
        }
        heads[class] = Position { block: behind, ..at };
        let mut starts = vec![g.first_of(at.segment) + at.block + head];
        for (class, pba, len) in batch.apart() {
            let head = Class::numbered(class).filter(|class| class.is_new()).map(|class| &mut heads[class.index()]);
            let Some((head, end)) = head.zip(end_of(pba, len, &g)) else {
                let error = BatchError::Unknown(0, "data outside of the volume");
                return Err(RecoverError::Unknown(at.segment, at.block, error));
            };
            *head = end;
            starts.push(pba);
        }
        Ok(Some(Logged { batch, position: at, runs: Runs::at(starts), heads }))
    }

    /// At least `len` bytes from a place on; none if the segment ends before.
    async fn bytes(&mut self, at: Position, len: usize, class: usize) -> Result<Option<&[u8]>, RecoverError> {
        let g = self.slot.geometry;
        let left = (g.segment - at.block.min(g.segment)) * u64::from(g.block);
        if left < len as u64 {
            return Ok(None);
        }
        let offset = |from: Position| match from.segment == at.segment && from.block <= at.block {
            true => ((at.block - from.block) * u64::from(g.block)) as usize,
            false => usize::MAX,
        };
        let window = &mut self.windows[class];
        let is_inside = offset(window.0).checked_add(len).is_some_and(|end| end <= window.1.len());
        if !is_inside {
            let most = WINDOW.min(self.recovery.transfer_max).max(u64::from(g.block));
            let bytes = left.min(most / u64::from(g.block) * u64::from(g.block)).max(len as u64);
            let buf = Buf::unique(self.recovery.pool, bytes as usize);
            let done = self.store.read(at.segment, at.block, buf, METADATA).await;
            done.result?;
            *window = (at, done.buf.to_vec());
        }
        Ok(Some(&window.1[offset(window.0)..]))
    }

    /// How many of the batches count.
    async fn judge(&mut self, logged: &[Logged]) -> Result<usize, RecoverError> {
        let (g, slot) = (self.slot.geometry, self.slot);
        let block = |at: Position| g.first_of(at.segment) + at.block;
        let start = slot.heads.into_iter().max_by_key(|at| at.block > 0).unwrap_or_default();
        let epochs = Epochs { now: slot.epoch, since: 0, rise: false };
        let mut cursor = LogCursor::new(slot.volume, epochs, slot.seq, block(start), slot.seq);
        logged.iter().for_each(|logged| cursor.claim(logged.batch.durable));
        let (durable, mut end, mut ends, mut kept) = (cursor.durable(), start, slot.heads, 0);
        for logged in logged {
            if logged.seq_behind() > durable && !self.is_whole(logged).await? {
                break;
            }
            // Its own head is where it lies.
            let own = logged.heads.into_iter().find(|head| head.segment == logged.position.segment);
            end = own.unwrap_or(logged.position);
            cursor.advance(logged.seq_behind(), block(end));
            (ends, kept) = (logged.heads, kept + 1);
        }
        for (class, end) in ends.into_iter().enumerate() {
            self.look_behind(&mut cursor, class, end).await?;
        }
        match cursor.end() {
            Next::Damaged { .. } => {
                let Position { segment, block } = end;
                Err(RecoverError::Damaged { seq: cursor.number(), segment, block, durable: cursor.durable() })
            }
            Next::Record(_) | Next::End | Next::Stale { .. } => Ok(kept),
        }
    }

    /// Whether the data of a batch is what its records say.
    async fn is_whole(&self, logged: &Logged) -> Result<bool, RecoverError> {
        for (record, pba) in logged.records() {
            let Record::Write { len, sum, .. } = record else { continue };
            if self.sum_at(pba, u64::from(*len)).await? != *sum {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The checksum of blocks on the medium, read in as large parts as the device takes now.
    async fn sum_at(&self, pba: u64, len: u64) -> Result<u32, RecoverError> {
        let g = self.slot.geometry;
        let step = (self.recovery.transfer_max / u64::from(g.block)).max(1);
        let mut hasher = crc32fast::Hasher::new();
        for at in (0..len).step_by(step as usize) {
            let buf = Buf::unique(self.recovery.pool, (step.min(len - at) * u64::from(g.block)) as usize);
            let done = self.store.read(g.segment_of(pba), pba % g.segment + at, buf, METADATA).await;
            done.result?;
            done.buf.for_each_piece(&mut |piece| hasher.update(piece));
        }
        Ok(hasher.finalize())
    }

    /// What calls records durable although it is no part of the log: heads of this epoch, and batches of it in the rest
    /// of a head's segment.
    async fn look_behind(&mut self, cursor: &mut LogCursor, class: usize, end: Position) -> Result<(), RecoverError> {
        let (block, epoch) = (self.slot.geometry.block as usize, self.slot.epoch);
        let heads = self.heads.iter().flatten().filter(|head| head.epoch == epoch);
        heads.for_each(|head| cursor.claim(head.durable));
        let mut at = end;
        while at.block > 0 && at.block < self.slot.geometry.segment {
            let Some(bytes) = self.bytes(at, block, class).await? else { break };
            if let Ok(batch) = Batch::decode(bytes, block, epoch) {
                cursor.claim(batch.durable);
            }
            at.block += 1;
        }
        Ok(())
    }
}

impl Recovered {
    /// What a volume goes on with, under an epoch of its own.
    pub(crate) fn into_found(self, epoch: u64) -> StartState {
        let replayed = self.replayed.iter().map(|logged| logged.batch.records.len() as u64).sum();
        let log = Log::at(self.seq, self.heads);
        StartState {
            geometry: self.slot.geometry,
            identity: self.slot.volume,
            epoch,
            generation: self.slot.generation,
            stores: self.stores,
            map: self.map,
            segments: self.segments,
            pages: self.pages,
            log,
            replayed,
        }
    }
}
