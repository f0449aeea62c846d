//! The log: requests gather in batches, batches go to the head segments several at a time, and are taken into the map
//! and answered in the order of their numbers, however they come back.
//!
//! There is a head for each class of new data. A batch and most of its data lie in one of them, the rest of its data in
//! the other. So a batch is one block of records. Data that will die at about the same time shares segments.
//!
//! When a batch starts: at once, if none is on its way (a lone writer never waits); else when enough has gathered to
//! make a second one worth its block of records. So the time for which requests gather is the time that the device
//! takes, and no clock is needed.

mod form;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use esker_block::{Below, BioError, Buf, Tag};
use esker_rt::sync::{Receiver, Sender, join_all, oneshot};

use crate::apply::apply;
use crate::format::{HEADS, Heads, Record, Runs};
use crate::map::{Change, TRACT};
use crate::number::SegmentNo;
use crate::segments::Stage;
use crate::shortage::is_short;
use crate::volume::{ReserveClass, Volume};
use form::{Formed, Head, Obstacle, Part, Who};

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
    /// The head for its data, by index; none if it has no data.
    class: Option<usize>,
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

    /// Its data lies in this run of its batch.
    fn lie_in(&mut self, number: u8) {
        for record in &mut self.records {
            if let Record::Write { run, .. } = record {
                *run = number;
            }
        }
    }

    fn data_blocks(&self) -> u64 {
        self.records.iter().map(Record::data).sum()
    }
}

/// A batch on its way.
struct Flight {
    /// Where the heads were before it.
    heads: Heads,
    seq: u64,
    end: u64,
    /// Where its data lies.
    runs: Runs,
    /// Segments that it is written to.
    segments: Vec<SegmentNo>,
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
    /// The heads, by class of new data.
    pub heads: [Head; HEADS],
    /// The head that took the records of the last batch.
    recent: usize,
    /// Blocks written since the last checkpoint.
    pub since_checkpoint: u64,
}

impl Log {
    /// A log that goes on with record `seq` at one of these places; block 0 of a segment means that none is open.
    pub(crate) fn at(seq: u64, heads: Heads) -> Log {
        Log { seq, heads: heads.map(Head::at), ..Log::default() }
    }

    /// Where the heads are now.
    fn positions(&self) -> Heads {
        self.heads.map(|head| head.position)
    }

    /// Where the log begins that is not yet in the map.
    pub(crate) fn installed(&self) -> (u64, Heads) {
        self.flights.front().map_or_else(|| (self.seq, self.positions()), |flight| (flight.seq, flight.heads))
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

    /// Nodes for which an item needs space: deletions do not wait for writers.
    fn growth_with(&self, item: &Item) -> u64 {
        match item.growth {
            0 => 0,
            own if item.only_frees() => own,
            _ => self.growth,
        }
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
        Record::Apart { .. } => [0..0, 0..0],
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
        let (growth, class) = (self.growth_of(&records), self.class_of_new(&records));
        if let Err(error) = self.latch.check() {
            answer.send(Err(error));
            return receiver;
        }
        let mut log = self.log.borrow_mut();
        log.records += records.len();
        log.bytes += data.len();
        log.growth += growth;
        log.queue.push_back(Item { records, data, growth, below: below.clone(), tag, class, answer });
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

    /// Nodes that records may add to the map. For extents that are copied, as many as these take, twice, because nodes
    /// are split in half; for what shares its nodes with others, the paths to it.
    fn growth_of(&self, records: &[Record]) -> u64 {
        let (map, log) = (self.map.borrow(), self.log.borrow());
        let copied = |src: u64, dst: u64, len: u64| {
            // What is on its way may decide that extents are copied.
            let ends = [src, dst].map(|start| start + len..(start + len).next_multiple_of(TRACT));
            let extents = |range| 2 + map.pieces(range).count() as u64;
            match log.touches(&ends) {
                true => extents(src..src + len),
                false => map.copied_by(src, dst, len).into_iter().map(extents).sum(),
            }
        };
        let (mut copies, mut paths) = (0, 0);
        for record in records {
            match *record {
                Record::Clone { src, dst, len } | Record::Move { src, dst, len } => {
                    copies += copied(src, dst, len);
                    paths += map.copied_to_clear(&(dst..dst + len));
                    if let Record::Move { .. } = record {
                        paths += map.copied_to_clear(&(src..src + len));
                    }
                }
                Record::Write { lba, len, .. } => paths += map.copied_for(&(lba..lba + u64::from(len))),
                Record::Delete { lba, len } => paths += map.copied_to_clear(&(lba..lba + len)),
                Record::Apart { .. } => {}
            }
        }
        (2 * copies).div_ceil(self.geometry.fanout().leaf as u64) + paths
    }

    /// Whether the first item, with what waits beside it, could make the map larger than a checkpoint has space for.
    /// Then no checkpoint could be made any more, and nothing would become free.
    fn outgrows(&self, log: &Log, first: &Item) -> bool {
        let growth = log.growth_with(first);
        growth > 0 && self.segments.borrow().free() <= self.kept_for(growth, first.taker())
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

    /// Writes all parts of a batch side by side.
    async fn fly(self: Rc<Self>, formed: Formed) {
        let Formed { number, parts, below, tag } = formed;
        let store = self.store(below);
        let write = |Part { segment, block, buf }: Part| store.append(segment, block, buf, tag).into_future();
        // One that failed for good counts before one that found no space.
        let failed = join_all(parts.into_iter().map(write)).await.into_iter().filter_map(|done| done.result.err());
        let failed = failed.min_by_key(is_short);
        self.landed(number, failed.map_or(Ok(()), Err));
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
        let Flight { end, mut runs, segments, items, landed, .. } = flight;
        let result = self.latch.check().and_then(|()| self.in_order(landed.unwrap_or(Ok(()))));
        if result.is_ok() {
            let mut map = self.map.borrow_mut();
            for record in items.iter().flat_map(|item| &item.records) {
                let image = match *record {
                    Record::Clone { dst, len, .. } | Record::Move { dst, len, .. } => Some(dst..dst + len),
                    Record::Write { .. } | Record::Delete { .. } | Record::Apart { .. } => None,
                };
                let mut added = Vec::new();
                apply(&mut map, record, runs.next(record), &mut |change| {
                    if let (Some(image), Change::Added(mapping)) = (&image, change) {
                        added.extend(mapping.extent.clip(image));
                    }
                    self.count(change);
                });
                self.collector.note_record(record, &added);
            }
            drop(map);
            if self.give_back_some() {
                self.returns.wake();
            }
            if !self.config.volatile {
                self.commits.advance(end);
            }
        }
        segments.into_iter().for_each(|segment| self.segments.borrow_mut().end(segment));
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

    /// What leaves refer to has changed.
    pub(crate) fn count(&self, change: Change) {
        let mut segments = self.segments.borrow_mut();
        match change {
            Change::Added(mapping) => {
                if segments.refer(mapping.extent) != Stage::Rest {
                    self.collector.note(mapping, self.geometry.segment_of(mapping.extent.pba));
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
        let growth = log.growth_with(first);
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
