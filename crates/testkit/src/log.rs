//! What happened at a device, and what each block may hold after a crash.
//!
//! The rule: a write is durable once it is answered, with FUA or by a device without a volatile cache; else once a
//! flush is answered that started after the write was answered. After a crash, a unit (what a power cut leaves whole)
//! holds what was there before, if no durable write covers it, or the bytes of any write that is not *superseded*. A
//! write is superseded when a durable write of the same unit started after it was answered. Units are independent: so
//! reordering, loss and tearing are all covered.
//!
//! A range vector counts as one write per destination and erased range, durable when it is answered. Before that, any
//! part of any element may be done, but a moved source is erased only where its copy cannot be lost any more.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use esker_base::ByteRange;
use esker_block::RangeOp;

/// What a write leaves in a unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// These bytes.
    Bytes(Arc<[u8]>),
    /// Zeroes or anything that was ever there: a discard.
    Anything,
}

/// A change of a run of units.
#[derive(Clone, Debug)]
struct Change {
    range: ByteRange,
    values: Vec<Value>,
    /// Without it, it takes a flush.
    durable_at_answer: bool,
    started: usize,
    answered: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Started(usize),
    Answered,
    FlushStarted,
    /// Holds the entry at which the flush started.
    FlushAnswered(usize),
}

/// Two changes that are one element of a vector.
#[derive(Clone, Copy, Debug)]
struct Move {
    copied: usize,
    erased: usize,
}

/// Events in their order, each with a stamp that never falls.
#[derive(Clone, Debug)]
pub struct Log {
    unit: u64,
    entries: Vec<(u64, What)>,
    changes: Vec<Change>,
    moves: Vec<Move>,
}

/// What a unit may hold, oldest first; `None` stands for what was there before the log.
pub type Candidates = Vec<Option<Value>>;

/// A unit whose content is on its way to another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moving {
    /// The unit that is erased.
    pub from: u64,
    /// What it may hold as long as it is not erased.
    pub unerased: Candidates,
    /// The unit that takes its content.
    pub to: u64,
    /// What that unit may hold once it has done so.
    pub copied: Candidates,
}

impl Log {
    /// An empty log over units of `unit` bytes.
    pub fn new(unit: u32) -> Log {
        Log { unit: u64::from(unit), entries: Vec::new(), changes: Vec::new(), moves: Vec::new() }
    }

    /// Notes the start of a write of `bytes`, which are whole units, and returns its number. Without
    /// `durable_at_answer` (force unit access, or a device without a volatile cache), it takes a flush.
    pub fn write_started(&mut self, stamp: u64, at: u64, bytes: &[u8], durable_at_answer: bool) -> usize {
        let values = bytes.chunks(self.unit as usize).map(|unit| Value::Bytes(unit.into())).collect();
        let range = ByteRange::new(at, bytes.len() as u64).expect("a range that a device took");
        self.started(stamp, range, values, durable_at_answer)
    }

    /// Notes the start of a discard.
    pub fn discard_started(&mut self, stamp: u64, range: ByteRange) -> usize {
        let values = vec![Value::Anything; (range.len() / self.unit) as usize];
        self.started(stamp, range, values, false)
    }

    /// Notes the start of a range vector and returns the numbers of its changes. `before` gives what the device held
    /// before the log.
    ///
    /// # Panics
    /// If its elements overlap each other: what a crash between them leaves is not modelled.
    pub fn vector_started(
        &mut self,
        stamp: u64,
        ops: &[RangeOp],
        before: &dyn Fn(ByteRange) -> Vec<u8>,
    ) -> Range<usize> {
        check_apart(ops);
        let first = self.changes.len();
        for op in ops {
            let (src, dst) = op.ranges().expect("a vector that a device took");
            let copied = src.map(|src| {
                let values = self.units(src).map(|unit| self.newest(unit, before)).collect();
                self.started(stamp, dst, values, true)
            });
            let erased = match op {
                RangeOp::Clone { .. } => continue,
                RangeOp::Move { src, .. } => *src,
                RangeOp::Delete { at } => *at,
            };
            let zeroes: Arc<[u8]> = vec![0; self.unit as usize].into();
            let values = self.units(erased).map(|_| Value::Bytes(zeroes.clone())).collect();
            let erased = self.started(stamp, erased, values, true);
            self.moves.extend(copied.map(|copied| Move { copied, erased }));
        }
        first..self.changes.len()
    }

    /// What a unit holds in normal operation. Open, if its last change was not answered with success.
    fn newest(&self, unit: u64, before: &dyn Fn(ByteRange) -> Vec<u8>) -> Value {
        match self.changes.iter().rev().find(|change| self.units(change.range).contains(&unit)) {
            None => Value::Bytes(before(self.range_of(unit)).into()),
            Some(change) if change.answered.is_none() => Value::Anything,
            Some(change) => self.value(change, unit),
        }
    }

    fn value(&self, change: &Change, unit: u64) -> Value {
        change.values[(unit - change.range.start() / self.unit) as usize].clone()
    }

    /// What each touched unit holds if nothing is lost.
    pub fn newest_values(&self) -> BTreeMap<u64, Value> {
        let changes = self.changes.iter();
        changes.flat_map(|change| self.units(change.range).map(|unit| (unit, self.value(change, unit)))).collect()
    }

    /// The events with stamps below `end`, where the server is killed, as its client sees them. What was not durable
    /// then may be lost, because servers have caches too.
    pub fn interrupted(&self, end: u64) -> Log {
        let mut log = self.cut(end);
        let durable = log.durable(&log.entries);
        for (change, _) in log.changes.iter_mut().zip(durable).filter(|(_, is_durable)| !is_durable) {
            change.answered = None;
        }
        log
    }

    /// The events with stamps below `end`. What was not answered then never is.
    fn cut(&self, end: u64) -> Log {
        let entries = self.until(end).to_vec();
        let begun = self.changes.iter().filter(|change| change.started < entries.len());
        let changes: Vec<Change> = begun
            .map(|change| Change { answered: change.answered.filter(|at| *at < entries.len()), ..change.clone() })
            .collect();
        let moves = self.moves.iter().filter(|of| of.erased < changes.len()).copied().collect();
        Log { unit: self.unit, entries, changes, moves }
    }

    /// The events with stamps below `end`, where the client is killed, as the device sees them. What was not answered
    /// is in its cache.
    pub fn killed(&self, end: u64) -> Log {
        let mut log = self.cut(end);
        for change in log.changes.iter_mut().filter(|change| change.answered.is_none()) {
            (change.answered, change.durable_at_answer) = (Some(log.entries.len() - 1), false);
        }
        log
    }

    /// The bytes of a unit.
    pub fn range_of(&self, unit: u64) -> ByteRange {
        ByteRange::new(unit * self.unit, self.unit).expect("a unit that a device took")
    }

    /// The numbers of the units that `range` touches.
    pub fn units(&self, range: ByteRange) -> Range<u64> {
        range.start() / self.unit..range.end().div_ceil(self.unit)
    }

    fn started(&mut self, stamp: u64, range: ByteRange, values: Vec<Value>, durable_at_answer: bool) -> usize {
        assert!(range.is_aligned(self.unit), "{range} is not whole units of {} bytes", self.unit);
        let number = self.changes.len();
        self.changes.push(Change { range, values, durable_at_answer, started: self.entries.len(), answered: None });
        self.entries.push((stamp, What::Started(number)));
        number
    }

    /// Notes that change `number` was answered with success. One that failed may have happened or not.
    pub fn answered(&mut self, stamp: u64, number: usize) {
        self.changes[number].answered = Some(self.entries.len());
        self.entries.push((stamp, What::Answered));
    }

    /// Notes the start of a flush and returns its number.
    pub fn flush_started(&mut self, stamp: u64) -> usize {
        self.entries.push((stamp, What::FlushStarted));
        self.entries.len() - 1
    }

    /// Notes that flush `number` was answered with success.
    pub fn flush_answered(&mut self, stamp: u64, number: usize) {
        self.entries.push((stamp, What::FlushAnswered(number)));
    }

    /// Stamps of the answers to flushes.
    pub fn flush_answers(&self) -> impl Iterator<Item = u64> {
        let answered = |(stamp, what): &(u64, What)| matches!(what, What::FlushAnswered(_)).then_some(*stamp);
        self.entries.iter().filter_map(answered)
    }

    fn until(&self, end: u64) -> &[(u64, What)] {
        &self.entries[..self.entries.partition_point(|(stamp, _)| *stamp < end)]
    }

    /// The changes of each unit that was touched in `entries`.
    fn touched(&self, entries: &[(u64, What)]) -> BTreeMap<u64, Vec<usize>> {
        let mut units: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for number in started(entries) {
            self.units(self.changes[number].range).for_each(|unit| units.entry(unit).or_default().push(number));
        }
        units
    }

    /// What each touched unit may hold after the events with stamps below `end`.
    pub fn candidates(&self, end: u64) -> BTreeMap<u64, Candidates> {
        let entries = self.until(end);
        let durable = self.durable(entries);
        let judged = self.touched(entries).into_iter();
        judged.map(|(unit, changes)| (unit, self.of_unit(unit, &changes, &durable))).collect()
    }

    /// The units that are being moved after the events with stamps below `end`.
    pub fn moving(&self, end: u64) -> Vec<Moving> {
        let entries = self.until(end);
        let durable = self.durable(entries);
        let touched = self.touched(entries);
        let open = |of: &&Move| self.changes[of.erased].started < entries.len() && !durable[of.erased];
        let of_move = |Move { copied, erased }: &Move| {
            let units = self.units(self.changes[*erased].range).zip(self.units(self.changes[*copied].range));
            let moving = units.map(|(from, to)| {
                let others: Vec<usize> = touched[&from].iter().copied().filter(|number| number != erased).collect();
                let since: Vec<usize> = touched[&to].iter().copied().filter(|number| number >= copied).collect();
                let [unerased, mut copied] =
                    [(from, others), (to, since)].map(|(u, all)| self.of_unit(u, &all, &durable));
                copied.retain(Option::is_some);
                Moving { from, unerased, to, copied }
            });
            moving.collect::<Vec<_>>()
        };
        self.moves.iter().filter(open).flat_map(of_move).collect()
    }

    fn of_unit(&self, unit: u64, changes: &[usize], durable: &[bool]) -> Candidates {
        let superseded = |number: usize| {
            let Some(answered) = self.changes[number].answered else { return false };
            changes.iter().any(|other| durable[*other] && self.changes[*other].started > answered)
        };
        let mut out = if changes.iter().any(|number| durable[*number]) { vec![] } else { vec![None] };
        for number in changes.iter().filter(|number| !superseded(**number)) {
            let value = Some(self.value(&self.changes[*number], unit));
            if !out.contains(&value) {
                out.push(value);
            }
        }
        out
    }

    /// Which changes are durable after `entries`.
    fn durable(&self, entries: &[(u64, What)]) -> Vec<bool> {
        let flushed = |(_, what): &(u64, What)| if let What::FlushAnswered(start) = what { Some(*start) } else { None };
        let last_flush = entries.iter().filter_map(flushed).max();
        let is_durable = |change: &Change| match change.answered.filter(|at| *at < entries.len()) {
            Some(answered) => change.durable_at_answer || last_flush.is_some_and(|flush| flush > answered),
            None => false,
        };
        self.changes.iter().map(is_durable).collect()
    }
}

/// Numbers of the changes that started.
fn started(entries: &[(u64, What)]) -> impl Iterator<Item = usize> {
    entries.iter().filter_map(|(_, what)| if let What::Started(number) = what { Some(*number) } else { None })
}

fn check_apart(ops: &[RangeOp]) {
    let ranges = ops.iter().filter_map(RangeOp::ranges).flat_map(|(src, dst)| src.into_iter().chain([dst]));
    let ranges: Vec<ByteRange> = ranges.collect();
    let overlaps = |at: usize| ranges[..at].iter().any(|other| other.overlaps(ranges[at]));
    assert!(!(1..ranges.len()).any(overlaps), "elements overlap: {ops:?}");
}
