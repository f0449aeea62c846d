//! Forming batches: which requests go together, and where their records and data are put.

use std::rc::Rc;

use esker_block::{Below, Buf, Tag};
use esker_cleaning::Class;

use super::{Flight, Item, Log};
use crate::format::{Batch, HEADS, Position, Record, Runs, SegmentHeader, number_of, records_per};
use crate::number::SegmentNo;
use crate::segments::Segments;
use crate::volume::{ReserveClass, Volume};

/// Free segments beyond those that are kept back at which every class has a head of its own.
const SPARE: u64 = 2;

/// A head of the log.
#[derive(Clone, Copy, Default)]
pub(crate) struct Head {
    /// Where the next batch or data goes, if it fits there.
    pub position: Position,
    /// Whether `position.segment` is open.
    is_open: bool,
    /// Whether it was one of the segments that are kept for deletes.
    is_of_reserve: bool,
    /// The segment before it in this head.
    previous: SegmentNo,
}

impl Head {
    /// A head that goes on at a place.
    pub(super) fn at(position: Position) -> Head {
        Head { position, is_open: position.block > 0, is_of_reserve: false, previous: position.segment }
    }

    /// It takes no more.
    pub(crate) fn leave(&mut self, segments: &mut Segments) {
        if std::mem::take(&mut self.is_open) {
            segments.close(self.position.segment);
            self.previous = self.position.segment;
        }
        self.position.block = 0;
    }

    /// The first block that is not written, behind the header of the segment.
    fn next(&self) -> u64 {
        self.position.block.max(1)
    }
}

/// Why no batch can be formed now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
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
pub(super) enum Who {
    All,
    Deleters,
}

/// What is written to one segment.
pub(super) struct Part {
    pub segment: SegmentNo,
    pub block: u64,
    pub buf: Buf,
}

/// A batch that is ready to go.
pub(super) struct Formed {
    pub number: u64,
    pub parts: Vec<Part>,
    pub below: Below,
    pub tag: Tag,
}

/// What goes into a batch.
struct Picked {
    /// The head that takes the records.
    home: usize,
    items: Vec<Item>,
    /// Records of the items.
    records: usize,
    /// Blocks of data for each head.
    data: [u64; HEADS],
}

impl Picked {
    fn none(home: usize) -> Picked {
        Picked { home, items: Vec::new(), records: 0, data: [0; HEADS] }
    }

    /// Heads that take data but not the records.
    fn apart(&self) -> impl Iterator<Item = usize> {
        (0..HEADS).filter(|head| *head != self.home && self.data[*head] > 0)
    }

    /// Blocks of all records.
    fn front(&self, block: usize) -> u64 {
        (Batch::head_bytes(self.records + self.apart().count(), block) / block) as u64
    }

    /// Blocks that a head takes.
    fn of(&self, head: usize, block: usize) -> u64 {
        self.data[head] + if head == self.home { self.front(block) } else { 0 }
    }

    /// The same with another item, whose data goes to `head`.
    fn with(&self, item: &Item, head: usize) -> Picked {
        let mut data = self.data;
        data[head] += item.data_blocks();
        Picked { home: self.home, items: Vec::new(), records: self.records + item.records.len(), data }
    }
}

impl Volume {
    /// Takes items from the queue into a batch: as many as fit in one block of records, one request below for each head
    /// and the rest of the heads' segments.
    pub(super) fn form(self: &Rc<Self>, who: Who) -> Result<Formed, Obstacle> {
        let mut log = self.log.borrow_mut();
        if !log.may_start() {
            return Err(Obstacle::Wait);
        }
        if self.shortage.is_broken_off() {
            return Err(Obstacle::BrokenOff);
        }
        let Some(at) = log.first(who, 0) else { return Err(Obstacle::Wait) };
        let first = &log.queue[at];
        let taker = first.taker();
        if taker == ReserveClass::Writers && self.is_cleaner_behind() {
            return Err(Obstacle::Cleaner);
        }
        if self.outgrows(&log, first) {
            return Err(Obstacle::NoRoom);
        }
        let home = self.home(&mut log, who, at, taker).ok_or(Obstacle::NoRoom)?;
        let who = if self.is_reserved(&log.heads[home]) { Who::Deleters } else { who };
        if taker == ReserveClass::Writers && who == Who::Deleters {
            return Err(Obstacle::NoRoom);
        }
        let picked = self.pick(&mut log, who, at, home, taker);
        Ok(self.lay_out(&mut log, picked))
    }

    /// The head that takes the records of the next batch, with room for its first item: that of most of the data that
    /// waits. None if no segment may be taken.
    fn home(&self, log: &mut Log, who: Who, at: usize, taker: ReserveClass) -> Option<usize> {
        let block = self.geometry.block as usize;
        let (mut all, mut next) = (Picked::none(log.recent), Some(at));
        while let Some(item) = next.and_then(|next| log.queue.get(next))
            && all.records + item.records.len() <= records_per(block)
            && all.data.iter().sum::<u64>() + item.data_blocks() <= self.config.batch_blocks
        {
            all = all.with(item, item.class.unwrap_or(log.recent));
            next = next.and_then(|next| log.first(who, next + 1));
        }
        let most = all.data.iter().max().filter(|most| **most > 0);
        let home = most.and_then(|most| all.data.iter().position(|data| data == most)).unwrap_or(log.recent);
        let first = &log.queue[at];
        let class = first.class.unwrap_or(home);
        // If its data goes elsewhere it has two records, and needs no room here for data; it may still come here.
        let alone = Picked::none(home).with(first, class);
        let needed = alone.front(block) + first.data_blocks();
        self.head_with_room(log, home, needed, taker)
    }

    /// A head with room for so many blocks: that of the class, or any if there is little space. None if no segment may
    /// be taken.
    fn head_with_room(&self, log: &mut Log, class: usize, needed: u64, taker: ReserveClass) -> Option<usize> {
        let has_room = |head: &Head| head.is_open && head.next() + needed <= self.geometry.segment;
        if has_room(&log.heads[class]) {
            return Some(class);
        }
        let is_scarce = self.segments.borrow().free() <= self.kept_back(ReserveClass::Writers) + SPARE;
        let other = log.heads.iter().position(has_room).filter(|_| is_scarce);
        other.or_else(|| self.open_segment(log, class, taker).then_some(class))
    }

    /// Takes items from the queue, from `at` on, as long as they fit.
    fn pick(&self, log: &mut Log, who: Who, mut at: usize, home: usize, taker: ReserveClass) -> Picked {
        let (block, g) = (self.geometry.block as usize, self.geometry);
        let mut picked = Picked::none(home);
        let mut targets: [Option<usize>; HEADS] = [None; HEADS];
        targets[home] = Some(home);
        while let Some(next) = log.first(who, at) {
            let (class, blocks) = (log.queue[next].class.unwrap_or(home), log.queue[next].data_blocks());
            let target = match targets[class] {
                Some(target) => target,
                // A first item for which no segment can be opened comes home: there is room for it.
                None => self
                    .head_with_room(log, class, blocks, taker)
                    .filter(|head| !self.is_reserved(&log.heads[*head]))
                    .unwrap_or(home),
            };
            let more = picked.with(&log.queue[next], target);
            let room = |head: usize| (g.segment - log.heads[head].next()).min(self.config.batch_blocks);
            let fits = more.records + more.apart().count() <= records_per(block)
                && (0..HEADS).all(|head| more.of(head, block) <= room(head));
            if !picked.items.is_empty() && !fits {
                break;
            }
            targets[class] = Some(target);
            let mut items = std::mem::take(&mut picked.items);
            if let Some(mut item) = log.take(next) {
                item.class = item.class.map(|_| target);
                items.push(item);
            }
            picked = Picked { items, ..more };
            at = next;
        }
        picked
    }

    /// Gives records their numbers and data its place.
    fn lay_out(&self, log: &mut Log, mut picked: Picked) -> Formed {
        let (g, block, home) = (self.geometry, self.geometry.block as usize, picked.home);
        let (before, seq) = (log.positions(), log.seq);
        let front = picked.front(block);
        let place = |log: &Log, head: usize| g.first_of(log.heads[head].position.segment) + log.heads[head].next();
        let apart: Vec<usize> = picked.apart().collect();
        let mut starts = vec![place(log, home) + front];
        starts.extend(apart.iter().map(|head| place(log, *head)));
        let named = |head: &usize| Record::Apart {
            class: number_of(Class::NEW[*head]),
            pba: place(log, *head),
            len: picked.data[*head],
        };
        let mut records: Vec<Record> = apart.iter().map(named).collect();
        for item in &mut picked.items {
            let number = item.class.and_then(|class| apart.iter().position(|head| *head == class));
            item.lie_in(number.map_or(0, |number| number as u8 + 1));
            records.extend(&item.records);
        }
        let end = seq + records.len() as u64;
        let (own, all) = (picked.records as u64, picked.data.iter().sum::<u64>());
        let mut bytes = Some(self.encode(records, seq, front as usize * block));
        let mut parts = Vec::new();
        for head in [home].into_iter().chain(apart) {
            let header = (log.heads[head].position.block == 0).then(|| self.header(log, head, head != home));
            let header = header.map(|header| Buf::from_bytes(self.pool(), &header.encode(&g)));
            let front = bytes.take_if(|_| head == home);
            let data =
                picked.items.iter_mut().filter(|item| item.class.unwrap_or(home) == head && !item.data.is_empty());
            let buf = Buf::chain(header.into_iter().chain(front).chain(data.map(|item| item.data.share())).collect());
            let blocks = picked.of(head, block);
            let Position { segment, block } = log.heads[head].position;
            parts.push(Part { segment, block, buf });
            log.heads[head].position.block = log.heads[head].next() + blocks;
            let mut segments = self.segments.borrow_mut();
            segments.begin(segment, end);
            segments.fill(segment, log.heads[head].position.block);
        }
        let (below, tag) = (picked.items[0].below.clone(), picked.items[0].tag);
        (log.seq, log.recent) = (end, home);
        log.since_checkpoint += front + all;
        let number = log.ended + log.flights.len() as u64;
        let segments = parts.iter().map(|part| part.segment).collect();
        let (heads, runs) = (before, Runs::at(starts));
        log.flights.push_back(Flight { heads, seq, end, runs, segments, items: picked.items, landed: None });
        self.counts.note_batch(own, front, all);
        self.note_written();
        self.owe_cleaning((front + all) * u64::from(g.block));
        Formed { number, parts, below, tag }
    }

    fn header(&self, log: &Log, head: usize, begins_with_data: bool) -> SegmentHeader {
        SegmentHeader {
            volume: self.identity,
            segment: log.heads[head].position.segment,
            seq: log.seq,
            epoch: self.epoch,
            previous: log.heads[head].previous.number(),
            generation: self.generation.get(),
            durable: self.commits.durable(),
            class: Class::NEW[head],
            begins_with_data,
        }
    }

    /// The bytes of a batch's records.
    fn encode(&self, records: Vec<Record>, seq: u64, bytes: usize) -> Buf {
        let batch = Batch { epoch: self.epoch, seq, durable: self.commits.durable(), records };
        let mut front = Buf::unique(self.pool(), bytes);
        batch.encode(front.bytes_mut().expect("just made unique"));
        front
    }

    /// Moves a head of the log to a free segment. False if none may be taken.
    fn open_segment(&self, log: &mut Log, head: usize, taker: ReserveClass) -> bool {
        let mut segments = self.segments.borrow_mut();
        if segments.free() <= self.kept_back(taker) {
            return false;
        }
        let Some(segment) = segments.take_for_log(Class::NEW[head], log.seq) else { return false };
        let opened = &mut log.heads[head];
        opened.leave(&mut segments);
        opened.position = Position { segment, block: 0 };
        opened.is_open = true;
        // It counted as free until now.
        opened.is_of_reserve = segments.free() < self.kept_back(ReserveClass::Writers);
        drop(segments);
        self.note_space();
        true
    }

    /// Whether a head is for deletes alone: nothing else was left when one of them opened it, nor is now.
    fn is_reserved(&self, head: &Head) -> bool {
        head.is_of_reserve && self.segments.borrow().free() <= self.kept_back(ReserveClass::Writers)
    }
}
