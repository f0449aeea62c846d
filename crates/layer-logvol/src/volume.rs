//! A volume in use: its state, and what becomes of each request.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use esker_block::locks::RangeLocks;
use esker_block::{
    Below, Bio, BioError, Buf, Done, Extent as Run, ExtentState, Latch, Op, RangeOp, Reply, Stat, partial,
};
use esker_layer_kit::{Background, GroupCommit, Turn};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::{Notify, Receiver};

use crate::amplification::{Amplification, Written};
use crate::collect::{Collector, Settings};
use crate::format::{Geometry, Record};
use crate::log::LogCell;
use crate::map::written::pages_for;
use crate::map::{Extent, Map, Mapping, Snapshot};
use crate::number::SegmentNo;
use crate::pages::Pages;
use crate::segments::{Segment, Segments, State};
use crate::shortage::Shortage;
use crate::store::{Store, Stores};

/// How a volume is to behave.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name in the stack text.
    pub name: String,
    /// Bytes of a block, if the volume is new.
    pub block: u32,
    /// Bytes of a page of the map, if the volume is new.
    pub page: u32,
    /// Bytes of a segment, if the volume is new.
    pub segment: u64,
    /// Bytes that a segment of a volume that is there must have: the limits of requests follow from it.
    pub segment_least: u64,
    /// Bytes of log after which a checkpoint is made.
    pub checkpoint: u64,
    /// Bytes of the medium.
    pub medium: u64,
    /// Bytes of a block of the medium.
    pub medium_block: u32,
    /// Blocks of the largest batch.
    pub batch_blocks: u64,
    /// Bytes of the largest request below.
    pub transfer_max: u64,
    /// Whether what the stores have answered can be lost until a flush.
    pub volatile: bool,
    /// Whether the device below takes discards.
    pub discards: bool,
    /// Whether the device below zeroes ranges by itself.
    pub zeroes: bool,
    /// How segments are cleaned.
    pub collector: Settings,
}

/// A volume in use. One reactor owns it; scanners on other threads work on a [`Snapshot`] of its map.
///
/// Order of borrows: log, map, segments, pages. None is held while anything waits.
pub struct Volume {
    pub(crate) config: Config,
    pub(crate) geometry: Geometry,
    pub(crate) identity: u128,
    pub(crate) epoch: u64,
    rt: Rt,
    pool: Pool,
    pub(crate) stores: Stores,
    pub(crate) map: RefCell<Map>,
    pub(crate) segments: RefCell<Segments>,
    pub(crate) pages: RefCell<Pages>,
    pub(crate) log: LogCell,
    /// Records have left the log: they are in the map, or have failed.
    pub(crate) logged: Notify,
    /// Claims on logical bytes, for changes of parts of blocks.
    pub(crate) claims: RangeLocks,
    /// Numbers of records, up to the one before which all are durable.
    pub(crate) commits: GroupCommit,
    /// Generation of the newest durable checkpoint.
    pub(crate) generation: Cell<u64>,
    pub(crate) checkpointing: Turn,
    /// Taken while freed segments are given back to the device below.
    pub(crate) erasing: Turn,
    pub(crate) seeks_room: Cell<bool>,
    pub(crate) latch: Latch,
    pub(crate) shortage: Shortage,
    /// The tasks that make checkpoints, and that give back segments.
    pub(crate) checkpoints: Background,
    pub(crate) erasures: Background,
    /// The task that gives back dead nodes of the map.
    pub(crate) returns: Background,
    pub(crate) collector: Collector,
    pub(crate) counts: Counts,
}

/// What recovery found, or a new volume begins with.
pub(crate) struct StartState {
    pub geometry: Geometry,
    pub identity: u128,
    pub epoch: u64,
    pub generation: u64,
    pub stores: Stores,
    pub map: Map,
    pub segments: Segments,
    pub pages: Pages,
    pub log: crate::log::Log,
    pub replayed: u64,
}

/// What it tells about itself.
#[derive(Default)]
pub(crate) struct Counts {
    batches: Cell<u64>,
    records: Cell<u64>,
    record_blocks: Cell<u64>,
    data_blocks: Cell<u64>,
    flushes: Cell<u64>,
    pub checkpoints: Cell<u64>,
    pub pages_written: Cell<u64>,
    pub segments_freed: Cell<u64>,
    pub segments_erased: Cell<u64>,
    replayed: Cell<u64>,
    amplification: Amplification,
}

impl Counts {
    pub(crate) fn note_batch(&self, records: u64, record_blocks: u64, data_blocks: u64) {
        add(&self.batches, 1);
        add(&self.records, records);
        add(&self.record_blocks, record_blocks);
        add(&self.data_blocks, data_blocks);
    }
}

pub(crate) fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}

/// Extents in one answer to a query.
const EXTENTS_MAX: usize = 1024;

/// Segments that are left to the collector, and then to deletes.
const RESERVE: [u64; 2] = [2, 2];

/// The purpose for which a segment is taken: the earlier in this list, the more are reserved when there are few.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ReserveClass {
    /// The collector, which frees more than it takes, and without which no write would find space again.
    Collector,
    /// Deletes.
    Deleters,
    /// All other writes.
    Writers,
}

impl Volume {
    pub(crate) fn of(config: Config, rt: Rt, pool: Pool, found: StartState) -> Volume {
        let seq = found.log.seq;
        let counts = Counts::default();
        counts.replayed.set(found.replayed);
        Volume {
            collector: Collector::new(config.collector, rt.rng(&format!("{}: victims", config.name))),
            latch: Latch::new(&config.name),
            config,
            geometry: found.geometry,
            identity: found.identity,
            epoch: found.epoch,
            rt,
            pool,
            stores: found.stores,
            map: RefCell::new(found.map),
            segments: RefCell::new(found.segments),
            pages: RefCell::new(found.pages),
            log: RefCell::new(found.log),
            logged: Notify::default(),
            claims: RangeLocks::default(),
            commits: GroupCommit::new(seq),
            generation: Cell::new(found.generation),
            checkpointing: Turn::default(),
            erasing: Turn::default(),
            seeks_room: Cell::new(false),
            shortage: Shortage::default(),
            checkpoints: Background::default(),
            erasures: Background::default(),
            returns: Background::default(),
            counts,
        }
    }

    pub(crate) fn rt(&self) -> &Rt {
        &self.rt
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Where its segments are kept, below a certain place in a stack.
    pub fn store(&self, below: Below) -> Store {
        self.stores.through(below)
    }

    /// Where things are.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The map as it is now, for scanners on any thread.
    pub fn snapshot(&self) -> Snapshot {
        self.map.borrow().snapshot()
    }

    /// All segments as they are now, by number.
    pub fn segments(&self) -> Vec<Segment> {
        self.segments.borrow().iter().map(|(_, segment)| segment).collect()
    }

    /// Keeps a segment's bytes until the hold is dropped.
    pub fn hold(self: &Rc<Self>, segment: SegmentNo) -> SegmentPin {
        self.segments.borrow_mut().hold(segment);
        SegmentPin { volume: self.clone(), segment }
    }

    /// Points what a leaf still has of a mapping at a new place, as [`Map::repoint`]: only in memory. Gives the blocks.
    pub(crate) fn repoint_mapping(&self, mapping: Mapping, to: u64) -> u64 {
        self.map.borrow_mut().repoint(mapping, to, &mut |change| self.count(change))
    }

    /// What a range of logical blocks maps to. Physical blocks are tokens: equal ones hold the same bytes now, and they
    /// mean nothing after the next wait.
    pub fn pieces(&self, range: Range<u64>) -> Vec<Extent> {
        self.map.borrow().pieces(range).collect()
    }

    /// Whether two ranges of `len` logical blocks share every block, holes included: then they hold the same bytes, and
    /// deduplication has nothing to do.
    pub fn share_blocks(&self, a: u64, b: u64, len: u64) -> bool {
        let map = self.map.borrow();
        let relative =
            |start: u64| map.pieces(start..start + len).map(move |piece| (piece.lba - start, piece.pba, piece.len));
        relative(a).eq(relative(b))
    }

    /// Segments that may not be taken now: those that a whole rewrite of the map could need, and what is left to
    /// others.
    pub(crate) fn kept_back(&self, taker: ReserveClass) -> u64 {
        self.kept_for(0, taker)
    }

    /// The same for a map with `more` nodes.
    pub(crate) fn kept_for(&self, more: u64, taker: ReserveClass) -> u64 {
        let pages = pages_for(self.map.borrow().pages() + more).saturating_sub(self.pages.borrow().free());
        pages.div_ceil(self.geometry.pages_per_segment()) + RESERVE[..taker as usize].iter().sum::<u64>()
    }

    /// Nothing changes any more: what is durable is not known.
    pub(crate) fn latch(&self, what: &str, error: &BioError) {
        self.latch.set_after(&self.rt, what, error, "Reads go on. Repair the device below, then restart.");
        self.checkpoints.wake();
        self.erasures.wake();
        self.returns.wake();
    }

    /// Logical blocks of a range of bytes, those included that it fills in part.
    pub(crate) fn blocks(&self, start: u64, len: u64) -> Range<u64> {
        let block = u64::from(self.geometry.block);
        start / block..(start + len).div_ceil(block)
    }

    /// Whether a request that changes data fills blocks in part: it is for [`Volume::change_part`].
    #[inline]
    pub(crate) fn is_partial(&self, bio: &Bio) -> bool {
        (bio.range.start() | bio.range.len()) & (u64::from(self.geometry.block) - 1) != 0
    }

    /// Answers a request that changes something, or makes it durable. It must keep to the volume's limits, and be of
    /// whole blocks.
    ///
    /// # Panics
    /// If it is a read or query.
    pub async fn change(self: Rc<Self>, below: Below, mut bio: Bio) -> Done {
        if bio.op == Op::Flush {
            return self.flush(below, bio).await;
        }
        let claim = if self.claims.is_idle() { None } else { Some(Box::pin(self.share(&bio)).await) };
        let logged = self.put_in_log(&below, &mut bio);
        drop(claim);
        let Some(receiver) = logged else { return bio.ok() };
        let is_vector = matches!(bio.op, Op::Ranges(_));
        let result = self.finish(&below, receiver.await, bio.flags.fua || is_vector).await;
        Done { result, buf: bio.buf }
    }

    /// Puts a change of whole blocks into the log; a vector is durable on return. None if it changes nothing.
    fn put_in_log(self: &Rc<Self>, below: &Below, bio: &mut Bio) -> Option<Receiver<Result<u64, BioError>>> {
        let range = self.blocks(bio.offset(), bio.len());
        let (lba, len) = (range.start, range.end - range.start);
        let records = match &bio.op {
            Op::Write => vec![Record::Write { lba, len: len as u32, sum: sum_of(&bio.buf), run: 0 }],
            Op::Zero | Op::Discard if self.is_hole(&range) && !bio.flags.fua => return None,
            Op::Zero | Op::Discard => vec![Record::Delete { lba, len }],
            Op::Ranges(ops) => ops.iter().map(|op| self.record_of(op)).collect(),
            Op::Read | Op::Extents | Op::Flush => unreachable!("answered where they come in"),
        };
        let data = if bio.op == Op::Write { bio.buf.share() } else { Buf::empty() };
        Some(self.append(below, records, data, bio.tag))
    }

    /// Whether nothing is mapped in a range, and nothing is about to be.
    pub(crate) fn is_hole(&self, range: &Range<u64>) -> bool {
        self.map.borrow().pieces(range.clone()).next().is_none()
            && !self.log.borrow().touches(std::slice::from_ref(range))
    }

    fn record_of(&self, op: &RangeOp) -> Record {
        let block = u64::from(self.geometry.block);
        match *op {
            RangeOp::Clone { src, dst } => {
                Record::Clone { src: src.start() / block, dst: dst / block, len: src.len() / block }
            }
            RangeOp::Move { src, dst } => {
                Record::Move { src: src.start() / block, dst: dst / block, len: src.len() / block }
            }
            RangeOp::Delete { at } => Record::Delete { lba: at.start() / block, len: at.len() / block },
        }
    }

    /// The answer to a request whose batch has come back.
    pub(crate) async fn finish(
        &self,
        below: &Below,
        received: Result<Result<u64, BioError>, esker_rt::sync::Closed>,
        durably: bool,
    ) -> Result<Reply, BioError> {
        let end = received.unwrap_or_else(|_| Err(BioError::Gone(self.config.name.as_str().into())))?;
        if durably {
            self.make_durable(below, end).await?;
        }
        Ok(Reply::Empty)
    }

    /// Makes all records before `seq`, which are in the map, durable. Requests that meet share a flush.
    pub(crate) async fn make_durable(&self, below: &Below, seq: u64) -> Result<(), BioError> {
        let store = self.store(below.clone());
        self.commits.reach(seq, &self.latch, async || self.flush_below(&store).await).await
    }

    /// Flushes what is below: all that is in the map is durable then, the records before the number that this gives.
    pub(crate) async fn flush_below(&self, store: &Store) -> Result<u64, BioError> {
        let (installed, _) = self.log.borrow().installed();
        add(&self.counts.flushes, 1);
        let flushed = store.flush().await.result;
        flushed.inspect_err(|error| self.latch("a flush failed", error))?;
        self.commits.advance(installed);
        Ok(installed)
    }

    /// Makes everything durable that was answered.
    async fn flush(self: Rc<Self>, below: Below, bio: Bio) -> Done {
        let (installed, _) = self.log.borrow().installed();
        let result = self.make_durable(&below, installed).await;
        Done { result: result.map(|()| Reply::Empty), buf: bio.buf }
    }

    /// Which parts of a range hold data, from its start on.
    pub(crate) fn extents(&self, bio: &Bio) -> Reply {
        let block = u64::from(self.geometry.block);
        let range = self.blocks(bio.offset(), bio.len());
        let mut runs: Vec<Run> = Vec::new();
        let mut add = |blocks: u64, state: ExtentState| match runs.last_mut() {
            _ if blocks == 0 => {}
            Some(last) if last.state == state => last.len += blocks * block,
            _ => runs.push(Run { len: blocks * block, state }),
        };
        let (mut at, mut count) = (range.start, 0);
        for piece in self.map.borrow().pieces(range.clone()).take(EXTENTS_MAX) {
            add(piece.lba - at, ExtentState::Hole);
            add(u64::from(piece.len), ExtentState::Data);
            (at, count) = (piece.end(), count + 1);
        }
        if count < EXTENTS_MAX {
            add(range.end - at, ExtentState::Hole);
        }
        match self.is_partial(bio) {
            true => Reply::Extents(partial::cut(&runs, bio.offset() % block, bio.len())),
            false => Reply::Extents(runs.into()),
        }
    }

    pub(crate) fn stats(&self) -> Vec<Stat> {
        let of_volume = self.own_stats().into_iter();
        of_volume.chain(self.collector_stats()).map(|(name, value)| Stat { name, value }).collect()
    }

    /// Bytes that went below for each byte of data, of the last writes; 0 if there were none.
    pub(crate) fn amplification(&self) -> f64 {
        self.counts.amplification.ratio(self.written())
    }

    /// A batch is written.
    pub(crate) fn note_written(&self) {
        self.counts.amplification.note(self.written(), self.geometry.blocks());
    }

    fn written(&self) -> Written {
        let (counts, moved) = (&self.counts, self.collector.moved_blocks());
        let data = counts.data_blocks.get();
        let pages = counts.pages_written.get() * u64::from(self.geometry.page / self.geometry.block);
        Written { data, all: data + counts.record_blocks.get() + moved + pages }
    }

    fn own_stats(&self) -> Vec<(&'static str, f64)> {
        let (map, segments, counts) = (self.map.borrow(), self.segments.borrow(), &self.counts);
        let block = f64::from(self.geometry.block);
        let per = |count: u64| count as f64;
        let in_use = self.geometry.segments - segments.free();
        vec![
            ("mappings", per(map.mappings())),
            ("mapped_bytes", per(map.blocks()) * block),
            ("segments", per(self.geometry.segments)),
            ("segments_free", per(segments.free())),
            ("segments_closed", per(segments.count(State::Closed))),
            ("segments_of_map", per(segments.count(State::Map))),
            ("used_ratio", per(in_use) / per(self.geometry.segments)),
            ("write_amplification", self.amplification()),
            ("batches", per(counts.batches.get())),
            ("records", per(counts.records.get())),
            ("record_bytes", per(counts.record_blocks.get()) * block),
            ("data_bytes", per(counts.data_blocks.get()) * block),
            ("flushes", per(counts.flushes.get())),
            ("checkpoints", per(counts.checkpoints.get())),
            ("map_bytes", per(counts.pages_written.get()) * f64::from(self.geometry.page)),
            ("segments_freed", per(counts.segments_freed.get())),
            ("segments_erased", per(counts.segments_erased.get())),
            ("records_replayed", per(counts.replayed.get())),
            ("latched", f64::from(u8::from(self.latch.is_set()))),
        ]
    }
}

/// The checksum of a payload.
pub(crate) fn sum_of(buf: &Buf) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    buf.for_each_piece(&mut |piece| hasher.update(piece));
    hasher.finalize()
}

/// Keeps a segment's bytes in place as long as it lives.
pub struct SegmentPin {
    volume: Rc<Volume>,
    segment: SegmentNo,
}

impl Drop for SegmentPin {
    fn drop(&mut self) {
        self.volume.segments.borrow_mut().drop_hold(self.segment);
    }
}
