//! The log in memory: which records lie where, which have come to their end, what is free.
//!
//! Records are answered in the order of their numbers: replaying stops at the first one that is missing, so nothing
//! behind it may have been promised.

use std::collections::{BTreeSet, VecDeque};

use esker_base::ByteRange;

use crate::format::{Content, Record};
use crate::map::{Map, Where};
use crate::superblock::Superblock;

/// The log.
pub struct Log {
    /// Records from the oldest on, those under way included.
    records: VecDeque<Record>,
    /// Where the next record lies, and its number.
    tail: u64,
    next: u64,
    /// All records below this number have been written.
    done: u64,
    /// Written before an earlier one.
    early: BTreeSet<u64>,
    under_way: usize,
    /// The lowest number that could not be written.
    failed: Option<u64>,
}

/// What came of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It or an earlier one is still under way.
    Open,
    /// It is in the log.
    Written,
    /// It or an earlier one failed.
    Lost,
}

impl Log {
    /// With the records that replay found.
    pub fn new(superblock: &Superblock, records: Vec<Record>) -> Log {
        let (tail, next) = records
            .last()
            .map_or((superblock.first, superblock.number), |last| (last.end(superblock), last.number + 1));
        let records = records.into();
        Log { records, tail, next, done: next, early: BTreeSet::new(), under_way: 0, failed: None }
    }

    /// Records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes between the oldest record and the end.
    pub fn used(&self, superblock: &Superblock) -> u64 {
        self.tail - superblock.first
    }

    /// All records below this number have been written.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// The number of the next one.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Records under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Room for a change of `range`; with it, if the end of the area is too near, a skip that comes first. None if it
    /// is not there. All that are given must come to an end ([`Log::ended`]).
    pub fn reserve(
        &mut self,
        superblock: &Superblock,
        range: ByteRange,
        content: Content,
        durable: u64,
    ) -> Option<Vec<Record>> {
        let record = |number, position, range, content| {
            let epoch = superblock.epoch;
            Record { number, epoch, position, range, content, durable: durable.min(number) }
        };
        let mut wanted = vec![record(self.next, self.tail, range, content)];
        let left = superblock.area - self.tail % superblock.area;
        if wanted[0].len(superblock) > left {
            let nothing = ByteRange::new(0, 0).expect("an empty range");
            let skip = record(self.next, self.tail, nothing, Content::Skip);
            wanted = vec![skip, record(self.next + 1, self.tail + left, range, content)];
        }
        let last = wanted.last().expect("at least one");
        if last.len(superblock) > superblock.area || last.end(superblock) - superblock.first > superblock.area {
            return None;
        }
        (self.tail, self.next) = (last.end(superblock), last.number + 1);
        self.under_way += wanted.len();
        self.records.extend(wanted.iter().cloned());
        Some(wanted)
    }

    /// A record has been written, or could not be. What is now in the log in its order counts in the map.
    pub fn ended(&mut self, superblock: &Superblock, number: u64, is_written: bool, map: &mut Map) {
        self.under_way -= 1;
        match is_written {
            true => drop(self.early.insert(number)),
            false => self.failed = Some(self.failed.map_or(number, |failed| failed.min(number))),
        }
        while self.early.remove(&self.done) {
            let oldest = self.records.front().expect("it is in the log").number;
            enter(&self.records[(self.done - oldest) as usize], superblock, map);
            self.done += 1;
        }
    }

    /// What came of a record.
    pub fn fate(&self, number: u64) -> Fate {
        match self.failed {
            _ if number < self.done => Fate::Written,
            Some(failed) if failed <= number => Fate::Lost,
            _ => Fate::Open,
        }
    }

    /// Forgets the records that are not in the log in their order: the next one takes the place of the first of them.
    pub fn give_up_rest(&mut self) {
        debug_assert!(self.under_way == 0, "what is under way may still reach the medium");
        self.next = self.done;
        while self.records.back().is_some_and(|last| last.number >= self.done) {
            self.tail = self.records.pop_back().expect("just seen").position;
        }
        self.early.clear();
    }

    /// The oldest records, of at most `bytes` of the log in all but at least one, as long as `takes` agrees.
    pub fn oldest(&self, superblock: &Superblock, bytes: u64, takes: impl Fn(&Record) -> bool) -> Vec<Record> {
        let mut taken = Vec::new();
        for record in self.records.iter().take_while(|record| record.number < self.done && takes(record)) {
            if !taken.is_empty() && record.end(superblock) - superblock.first > bytes {
                break;
            }
            taken.push(record.clone());
        }
        taken
    }

    /// Forgets the oldest records, those before `number`.
    pub fn forget(&mut self, number: u64) {
        while self.records.front().is_some_and(|first| first.number < number) {
            self.records.pop_front();
        }
    }
}

/// The newest content of a record's range is in it.
pub fn enter(record: &Record, superblock: &Superblock, map: &mut Map) {
    match record.content {
        Content::Data(_) => map.set(record.range, Where::Log(record.position + u64::from(superblock.block))),
        Content::Zeroes { no_unmap } => map.set(record.range, Where::Zeroes { position: record.position, no_unmap }),
        Content::Skip => {}
    }
}

/// Whether bytes are in this record.
pub fn holds(record: &Record, superblock: &Superblock, at: Where) -> bool {
    at.position().is_some_and(|position| (record.position..record.end(superblock)).contains(&position))
}
