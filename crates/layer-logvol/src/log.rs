//! The log: requests gather in batches, batches go to the head segment several at a time, and are taken into the map
//! and answered in the order of their numbers, however they come back.
//!
//! When a batch starts: at once, if none is on its way (a lone writer never waits); else when enough has gathered to
//! make a second one worth its block of records. So the time for which requests gather is the time that the device
//! takes, and no clock is needed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use esker_block::{Below, BioError, Buf, Tag};
use esker_rt::sync::{Receiver, Sender, oneshot};

use crate::apply::{Change, apply};
use crate::format::{Batch, Position, Record, SegmentHeader, records_per};
use crate::number::SegmentNo;
use crate::segments::{Stage, State};
use crate::shortage::is_short;
use crate::store::SegmentStore;
use crate::volume::{ReserveClass, Volume};

/// Batches on their way at once.
const FLIGHTS_MAX: usize = 4;
/// Records that must have gathered for a further batch to start while others are on their way.
const RECORDS_MIN: usize = 8;
/// Bytes that must have gathered, whatever the number of records.
const BYTES_MIN: usize = 256 << 10;

/// A request that waits for its batch. All of its records are in one.
struct Item {
    records: Vec<Record>,
    data: Buf,
    /// Nodes by which it may make the map larger.
    growth: u64,
    below: Below,
    tag: Tag,
    answer: Sender<Result<u64, BioError>>,
}

impl Item {
    /// Whether it only gives space back: it may use what is kept in reserve.
    fn only_frees(&self) -> bool {
        self.records.iter().all(|record| matches!(record, Record::Delete { .. }))
    }

    fn taker(&self) -> ReserveClass {
        if self.only_frees() { ReserveClass::Deleters } else { ReserveClass::Writers }
    }

    fn data_blocks(&self) -> u64 {
        self.records.iter().map(Record::data).sum()
    }
}

/// A batch on its way.
struct Flight {
    /// Where its records begin, and where the next batch would.
    position: Position,
    seq: u64,
    end: u64,
    /// First block of its data.
    pba: u64,
    items: Vec<Item>,
    landed: Option<Result<(), BioError>>,
}

/// What gathers, what is on its way, and where the log ends.
#[derive(Default)]
pub(crate) struct Log {
    queue: VecDeque<Item>,
    records: usize,
    bytes: usize,
    /// Nodes by which all that is not yet in the map may make it larger.
    growth: u64,
    flights: VecDeque<Flight>,
    /// Flights that have ended.
    ended: u64,
    /// Whether a task is about to look at the queue.
    is_called: bool,
    /// Number of the next record.
    pub seq: u64,
    /// Where the next batch goes, if it fits there.
    pub position: Position,
    /// Whether `position.segment` is the head.
    pub is_open: bool,
    /// Whether the head was one of the segments that are kept for deletes.
    is_of_reserve: bool,
    /// Blocks written since the last checkpoint.
    pub since_checkpoint: u64,
}

/// Why no batch can be formed now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    /// Nothing to do, or others must come back first.
    Wait,
    /// Writers wait for the cleaner.
    Cleaner,
    /// No segment may be taken.
    NoRoom,
    /// The log is broken off.
    BrokenOff,
}

/// Whose requests a batch may hold. Requests that are under way together have no order, so that requests that give
/// space back need not wait behind requests that wait for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    All,
    Deleters,
}

/// A batch that is ready to go.
struct Formed {
    number: u64,
    segment: SegmentNo,
    block: u64,
    buf: Buf,
    below: Below,
    tag: Tag,
}

impl Log {
    /// A log that goes on with record `seq` at a place; block 0 of a segment means that none is open.
    pub(crate) fn at(seq: u64, position: Position) -> Log {
        Log { seq, position, is_open: position.block > 0, ..Log::default() }
    }

    /// Where the log begins that is not yet in the map.
    pub(crate) fn installed(&self) -> (u64, Position) {
        self.flights.front().map_or((self.seq, self.position), |flight| (flight.seq, flight.position))
    }

    /// Whether no batch is on its way.
    pub(crate) fn is_settled(&self) -> bool {
        self.flights.is_empty()
    }

    /// An item whose batch failed waits for another one. It still counts in what the map may grow by.
    fn put_back(&mut self, item: Item) {
        self.records += item.records.len();
        self.bytes += item.data.len();
        self.queue.push_back(item);
    }

    /// Where the request that waits longest goes below.
    pub(crate) fn next_below(&self) -> Option<Below> {
        self.queue.front().map(|item| item.below.clone())
    }

    /// Whether records that have a number, or are about to get one, change what these logical blocks map to. Each time
    /// that records leave the log, [`Volume::logged`] is notified.
    pub(crate) fn touches(&self, ranges: &[std::ops::Range<u64>]) -> bool {
        let waiting = self.queue.iter().chain(self.flights.iter().flat_map(|flight| &flight.items));
        waiting.flat_map(|item| &item.records).any(|record| {
            changed(record)
                .iter()
                .any(|changed| ranges.iter().any(|range| changed.start < range.end && range.start < changed.end))
        })
    }

    fn may_start(&self) -> bool {
        let is_worth_it = self.records >= RECORDS_MIN || self.bytes >= BYTES_MIN;
        !self.queue.is_empty() && (self.flights.is_empty() || (self.flights.len() < FLIGHTS_MAX && is_worth_it))
    }

    /// The place in the queue of the first that may go now, from `at` on.
    fn first(&self, who: Who, at: usize) -> Option<usize> {
        (at..self.queue.len()).find(|at| who == Who::All || self.queue[*at].only_frees())
    }

    fn take(&mut self, at: usize) -> Option<Item> {
        let item = self.queue.remove(at)?;
        self.records -= item.records.len();
        self.bytes -= item.data.len();
        Some(item)
    }
}

/// Logical blocks that a record changes.
fn changed(record: &Record) -> [std::ops::Range<u64>; 2] {
    match *record {
        Record::Write { lba, len, .. } => [lba..lba + u64::from(len), 0..0],
        Record::Clone { dst, len, .. } => [dst..dst + len, 0..0],
        Record::Move { src, dst, len } => [src..src + len, dst..dst + len],
        Record::Delete { lba, len } => [lba..lba + len, 0..0],
    }
}

impl Volume {
    /// Puts records with their data into the log: the number behind them, once they are in the map.
    pub(crate) fn append(
        self: &Rc<Self>,
        below: &Below,
        records: Vec<Record>,
        data: Buf,
        tag: Tag,
    ) -> Receiver<Result<u64, BioError>> {
        let (answer, receiver) = oneshot();
        let growth = self.growth_of(&records);
        if let Err(error) = self.latch.check() {
            answer.send(Err(error));
            return receiver;
        }
        let mut log = self.log.borrow_mut();
        log.records += records.len();
        log.bytes += data.len();
        log.growth += growth;
        log.queue.push_back(Item { records, data, growth, below: below.clone(), tag, answer });
        if log.may_start() && !log.is_called {
            log.is_called = true;
            let volume = self.clone();
            // A task that is ready to write now writes before the batch is closed.
            let look = async move {
                volume.rt().yield_now().await;
                volume.log.borrow_mut().is_called = false;
                volume.start_batches();
            };
            drop(log);
            self.rt().spawn("log", look).detach();
        }
        receiver
    }

    /// Nodes that clones and moves may add to the map: as many as their extents take, twice, because nodes are split in
    /// half.
    fn growth_of(&self, records: &[Record]) -> u64 {
        let map = self.map.borrow();
        let extents = records.iter().map(|record| match *record {
            Record::Clone { src, len, .. } | Record::Move { src, len, .. } => {
                2 + map.pieces(src..src + len).count() as u64
            }
            Record::Write { .. } | Record::Delete { .. } => 0,
        });
        (2 * extents.sum::<u64>()).div_ceil(self.geometry.fanout().leaf as u64)
    }

    /// Whether what waits could make the map larger than the space that a checkpoint has for it: then no checkpoint
    /// could be made any more, and nothing would become free.
    fn outgrows(&self, log: &Log) -> bool {
        log.growth > 0 && self.segments.borrow().free() <= self.kept_for(log.growth, ReserveClass::Writers)
    }

    /// Starts as many batches as may start now.
    pub(crate) fn start_batches(self: &Rc<Self>) {
        loop {
            let formed = match self.form(Who::All) {
                Err(obstacle) if obstacle != Obstacle::Wait => self.form(Who::Deleters).map_err(|_| obstacle),
                formed => formed,
            };
            match formed {
                Ok(formed) => {
                    let volume = self.clone();
                    self.rt().spawn("batch", async move { volume.fly(formed).await }).detach();
                }
                Err(Obstacle::Wait | Obstacle::Cleaner) => return,
                Err(Obstacle::NoRoom) => return self.seek_room(),
                Err(Obstacle::BrokenOff) => return self.mend(),
            }
        }
    }

    async fn fly(self: Rc<Self>, formed: Formed) {
        let Formed { number, segment, block, buf, below, tag } = formed;
        let done = self.store(below).append(segment, block, buf, tag).await;
        self.landed(number, done.result.map(drop));
    }

    /// Takes items from the queue into a batch: as many as fit in one block of records, one request below and the
    /// segment.
    fn form(self: &Rc<Self>, who: Who) -> Result<Formed, Obstacle> {
        let mut log = self.log.borrow_mut();
        if !log.may_start() {
            return Err(Obstacle::Wait);
        }
        if self.shortage.is_broken_off() {
            return Err(Obstacle::BrokenOff);
        }
        let Some(mut at) = log.first(who, 0) else { return Err(Obstacle::Wait) };
        let first = &log.queue[at];
        let g = self.geometry;
        let block = g.block as usize;
        let head_of = |records: usize| (Batch::head_bytes(records, block) / block) as u64;
        let needs = |records: usize, data: u64| head_of(records) + data;
        let (taker, needed) = (first.taker(), needs(first.records.len(), first.data_blocks()));
        if taker == ReserveClass::Writers && self.is_cleaner_behind() {
            return Err(Obstacle::Cleaner);
        }
        let needs_segment = !log.is_open || log.position.block + needed > g.segment;
        if first.growth > 0 && self.outgrows(&log) || needs_segment && !self.open_segment(&mut log, taker) {
            return Err(Obstacle::NoRoom);
        }
        let who = if self.is_reserved(&log) { Who::Deleters } else { who };
        if taker == ReserveClass::Writers && who == Who::Deleters {
            return Err(Obstacle::NoRoom);
        }
        let is_first = log.position.block == 0;
        let start = log.position.block.max(1);
        let room = (g.segment - start).min(self.config.batch_blocks);
        let (mut items, mut records, mut data): (Vec<Item>, usize, u64) = (Vec::new(), 0, 0);
        while let Some(next) = log.first(who, at) {
            let item = &log.queue[next];
            let (more, blocks) = (records + item.records.len(), data + item.data_blocks());
            let fits = more <= records_per(block) && needs(more, blocks) <= room;
            if !items.is_empty() && !fits {
                break;
            }
            (records, data) = (more, blocks);
            items.extend(log.take(next));
            at = next;
        }
        let head_blocks = head_of(records);
        let segment = log.position.segment;
        let position = Position { segment, block: start };
        let (seq, end) = (log.seq, log.seq + records as u64);
        let pba = g.first_of(segment) + start + head_blocks;
        let buf = self.encode(&mut items, seq, head_blocks as usize * block, is_first.then(|| self.head_at(&log)));
        let (below, tag) = (items[0].below.clone(), items[0].tag);
        log.seq = end;
        log.position.block = start + head_blocks + data;
        log.since_checkpoint += head_blocks + data;
        let number = log.ended + log.flights.len() as u64;
        log.flights.push_back(Flight { position, seq, end, pba, items, landed: None });
        self.segments.borrow_mut().begin(segment, end);
        self.counts.note_batch(records as u64, head_blocks, data);
        self.owe_cleaning((head_blocks + data) * u64::from(g.block));
        let block = if is_first { 0 } else { start };
        Ok(Formed { number, segment, block, buf, below, tag })
    }

    fn head_at(&self, log: &Log) -> SegmentHeader {
        SegmentHeader {
            volume: self.identity,
            segment: log.position.segment,
            seq: log.seq,
            epoch: self.epoch,
            previous: self.previous.get(),
            generation: self.generation.get(),
            durable: self.commits.durable(),
        }
    }

    /// The bytes of a batch: the segment's head if it is the first in one, its records, its data.
    fn encode(&self, items: &mut [Item], seq: u64, head_bytes: usize, head: Option<SegmentHeader>) -> Buf {
        let records = items.iter().flat_map(|item| item.records.iter().copied()).collect();
        let batch = Batch { epoch: self.epoch, seq, durable: self.commits.durable(), records };
        let mut front = Buf::unique(self.pool(), head_bytes);
        batch.encode(front.bytes_mut().expect("just made unique"));
        let head = head.map(|head| Buf::from_bytes(self.pool(), &head.encode(&self.geometry)));
        let data = items.iter_mut().filter(|item| !item.data.is_empty()).map(|item| item.data.share());
        Buf::chain(head.into_iter().chain([front]).chain(data).collect())
    }

    /// Moves the head of the log to a free segment. False if none may be taken.
    fn open_segment(&self, log: &mut Log, taker: ReserveClass) -> bool {
        let mut segments = self.segments.borrow_mut();
        if segments.free() <= self.kept_back(taker) {
            return false;
        }
        let Some(segment) = segments.take(State::Open, log.seq) else { return false };
        if log.is_open {
            segments.close(log.position.segment);
            self.previous.set(log.position.segment.number());
        }
        log.position = Position { segment, block: 0 };
        log.is_open = true;
        // It counted as free until now.
        log.is_of_reserve = segments.free() < self.kept_back(ReserveClass::Writers);
        drop(segments);
        self.note_space();
        true
    }

    /// Whether the head of the log is for deletes alone: nothing else was left when one of them opened it, nor is now.
    fn is_reserved(&self, log: &Log) -> bool {
        log.is_of_reserve && self.segments.borrow().free() <= self.kept_back(ReserveClass::Writers)
    }

    /// A batch came back. What is now complete from the front on goes into the map and is answered.
    fn landed(self: &Rc<Self>, number: u64, result: Result<(), BioError>) {
        if let Some(error) = result.as_ref().err().filter(|error| !is_short(error)) {
            self.latch("a batch of the log could not be written", error);
        }
        let mut log = self.log.borrow_mut();
        let place = (number - log.ended) as usize;
        log.flights[place].landed = Some(result);
        drop(log);
        while let Some(flight) = self.next_landed() {
            self.end_flight(flight);
        }
        self.logged.notify_all();
        if self.latch.check().is_err() {
            self.fail_queue(|| self.latch.check().expect_err("it is latched"), |_| true);
        }
        self.start_batches();
        if self.is_checkpoint_due() {
            self.checkpoints.wake();
        }
    }

    fn next_landed(&self) -> Option<Flight> {
        let mut log = self.log.borrow_mut();
        log.flights.front().filter(|flight| flight.landed.is_some())?;
        log.ended += 1;
        log.flights.pop_front()
    }

    /// Takes a batch into the map, all at once for readers, unless it or one before it failed.
    fn end_flight(&self, flight: Flight) {
        let Flight { position, end, mut pba, items, landed, .. } = flight;
        let result = self.latch.check().and_then(|()| self.in_order(landed.unwrap_or(Ok(()))));
        if result.is_ok() {
            let mut map = self.map.borrow_mut();
            for record in items.iter().flat_map(|item| &item.records) {
                apply(&mut map, record, pba, &mut |change| self.count(change));
                pba += record.data();
            }
            if !self.config.volatile {
                self.commits.advance(end);
            }
        }
        self.segments.borrow_mut().end(position.segment);
        let is_short = result.as_ref().is_err_and(is_short);
        if result.is_ok() {
            self.shortage.relent();
        }
        for item in items {
            match is_short && item.only_frees() && self.shortage.may_give_back() {
                true => self.log.borrow_mut().put_back(item),
                false => {
                    self.log.borrow_mut().growth -= item.growth;
                    item.answer.send(result.clone().map(|()| end));
                }
            }
        }
    }

    /// What becomes of a batch below which all has landed: none counts behind one that found no space.
    fn in_order(&self, landed: Result<(), BioError>) -> Result<(), BioError> {
        match (self.shortage.is_broken_off(), landed) {
            (true, Ok(())) => Err(self.no_space()),
            (false, Err(error)) => {
                self.break_off(&error);
                Err(error)
            }
            (_, landed) => landed,
        }
    }

    fn count(&self, change: Change) {
        let mut segments = self.segments.borrow_mut();
        match change {
            Change::Added(extent) => {
                if segments.refer(extent) != Stage::Rest {
                    self.collector.note(extent, self.geometry.segment_of(extent.pba));
                }
            }
            Change::Removed(extent) => segments.release(extent),
        }
    }

    /// Answers those in the queue that are `chosen` with an error.
    pub(crate) fn fail_queue(&self, error: impl Fn() -> BioError, chosen: impl Fn(bool) -> bool) {
        let mut log = self.log.borrow_mut();
        let mut kept = VecDeque::new();
        let mut failed = Vec::new();
        while let Some(item) = log.take(0) {
            match chosen(item.only_frees()) {
                true => failed.push(item),
                false => kept.push_back(item),
            }
        }
        log.records = kept.iter().map(|item| item.records.len()).sum();
        log.bytes = kept.iter().map(|item| item.data.len()).sum();
        log.queue = kept;
        log.growth -= failed.iter().map(|item| item.growth).sum::<u64>();
        drop(log);
        failed.into_iter().for_each(|item| item.answer.send(Err(error())));
        self.logged.notify_all();
    }

    /// No segment may be taken: what a checkpoint and the collector can do is done; if that is nothing, a request that
    /// needs space is told that there is none.
    fn seek_room(self: &Rc<Self>) {
        let log = self.log.borrow();
        let Some(first) = log.queue.front() else { return };
        let (below, taker, is_settled) = (first.below.clone(), first.taker(), log.flights.is_empty());
        let growth = if first.growth > 0 { log.growth } else { 0 };
        drop(log);
        if !is_settled || self.seeks_room.get() {
            return;
        }
        self.seeks_room.set(true);
        let volume = self.clone();
        let seek = async move {
            let has_room = volume.make_room(&volume.store(below), taker, growth).await;
            volume.seeks_room.set(false);
            if !has_room.unwrap_or(false) {
                volume.refuse_writers();
            }
            volume.start_batches();
        };
        self.rt().spawn("room", seek).detach();
    }

    /// Tells requests that need space that there is none; and deletes too, if even they find none.
    fn refuse_writers(&self) {
        let error = || self.no_space();
        self.fail_queue(error, |only_frees| !only_frees);
        if self.segments.borrow().free() <= self.kept_back(ReserveClass::Deleters) {
            self.fail_queue(error, |_| true);
        }
    }
}

pub(crate) type LogCell = RefCell<Log>;
