//! What happened at a device, and what each block may hold after a crash.
//!
//! The rule: a write is durable once it is answered with FUA, or once a flush is answered that started after the write was
//! answered. After a crash, a unit (what a power cut leaves whole) holds what was there before, if no durable write covers
//! it, or the bytes of any write that is not *superseded*: a write is superseded when a durable write of the same unit
//! started after it was answered. Units are independent: so reordering, loss and tearing are all covered.

use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::ByteRange;

/// What a write leaves in a unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// These bytes.
    Bytes(Rc<[u8]>),
    /// Zeroes or anything that was ever there: a discard.
    Anything,
}

/// A change of a run of units.
#[derive(Clone, Debug)]
struct Change {
    range: ByteRange,
    values: Vec<Value>,
    fua: bool,
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

/// Events in their order, each with a stamp that never falls.
#[derive(Clone, Debug)]
pub struct Log {
    unit: u64,
    entries: Vec<(u64, What)>,
    changes: Vec<Change>,
}

/// A unit that holds what it must not.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("crash before event {point}: byte {at} reads as {got:#04x}; allowed are {allowed}")]
pub struct Lost {
    /// How many events of the recorded device had happened.
    pub point: u64,
    /// First wrong byte.
    pub at: u64,
    /// What is there.
    pub got: u8,
    /// The first bytes of what could be there.
    pub allowed: String,
}

impl Log {
    /// An empty log over units of `unit` bytes.
    pub fn new(unit: u32) -> Log {
        Log { unit: u64::from(unit), entries: Vec::new(), changes: Vec::new() }
    }

    /// Notes the start of a write of `bytes`, which are whole units, and returns its number.
    pub fn write_started(&mut self, stamp: u64, at: u64, bytes: &[u8], fua: bool) -> usize {
        let values = bytes.chunks(self.unit as usize).map(|unit| Value::Bytes(unit.into())).collect();
        let range = ByteRange::new(at, bytes.len() as u64).expect("a range that a device took");
        self.started(stamp, range, values, fua)
    }

    /// Notes the start of a discard.
    pub fn discard_started(&mut self, stamp: u64, range: ByteRange) -> usize {
        let values = vec![Value::Anything; (range.len() / self.unit) as usize];
        self.started(stamp, range, values, false)
    }

    fn started(&mut self, stamp: u64, range: ByteRange, values: Vec<Value>, fua: bool) -> usize {
        assert!(range.is_aligned(self.unit), "{range} is not whole units of {} bytes", self.unit);
        let number = self.changes.len();
        self.changes.push(Change { range, values, fua, started: self.entries.len(), answered: None });
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

    /// What each touched unit may hold after the events with stamps below `end`, oldest first, besides what was there
    /// before the log: `None` stands for that.
    pub fn candidates(&self, end: u64) -> BTreeMap<u64, Vec<Option<Value>>> {
        let entries = &self.entries[..self.entries.partition_point(|(stamp, _)| *stamp < end)];
        let durable = self.durable(entries);
        let mut units: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for number in started(entries) {
            let range = self.changes[number].range;
            (range.start() / self.unit..range.end() / self.unit).for_each(|u| units.entry(u).or_default().push(number));
        }
        let judged = units.into_iter().map(|(unit, changes)| (unit, self.of_unit(unit, &changes, &durable)));
        judged.collect()
    }

    fn of_unit(&self, unit: u64, changes: &[usize], durable: &[bool]) -> Vec<Option<Value>> {
        let superseded = |number: usize| {
            let Some(answered) = self.changes[number].answered else { return false };
            changes.iter().any(|other| durable[*other] && self.changes[*other].started > answered)
        };
        let mut out = if changes.iter().any(|number| durable[*number]) { vec![] } else { vec![None] };
        for number in changes.iter().filter(|number| !superseded(**number)) {
            let change = &self.changes[*number];
            let value = Some(change.values[(unit - change.range.start() / self.unit) as usize].clone());
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
            Some(answered) => change.fua || last_flush.is_some_and(|flush| flush > answered),
            None => false,
        };
        self.changes.iter().map(is_durable).collect()
    }

    /// Checks what a device holds after a crash before event `point` of the device below: `read` gives the bytes of a
    /// range, `before` what was there before the log began.
    ///
    /// # Errors
    /// The first unit that holds what it must not.
    pub fn judge(
        &self,
        point: u64,
        before: &dyn Fn(ByteRange) -> Vec<u8>,
        read: &dyn Fn(ByteRange) -> Vec<u8>,
    ) -> Result<(), Lost> {
        // What was answered above without a further event below happened before the crash.
        for (unit, allowed) in self.candidates(point + 1) {
            let range = ByteRange::new(unit * self.unit, self.unit).expect("a unit that a device took");
            let got = read(range);
            let fits = |value: &Option<Value>| match value {
                Some(Value::Bytes(bytes)) => **bytes == *got,
                Some(Value::Anything) => true,
                None => before(range) == got,
            };
            if !allowed.iter().any(fits) {
                return Err(lost(point, range, &got, &allowed));
            }
        }
        Ok(())
    }
}

/// Numbers of the changes that started.
fn started(entries: &[(u64, What)]) -> impl Iterator<Item = usize> {
    entries.iter().filter_map(|(_, what)| if let What::Started(number) = what { Some(*number) } else { None })
}

fn lost(point: u64, range: ByteRange, got: &[u8], allowed: &[Option<Value>]) -> Lost {
    let newest = allowed.iter().rev().find_map(|v| if let Some(Value::Bytes(b)) = v { Some(b) } else { None });
    let off = newest.and_then(|b| b.iter().zip(got).position(|(a, b)| a != b)).unwrap_or(0);
    let texts = allowed.iter().map(|value| match value {
        Some(Value::Bytes(bytes)) => format!("{:#04x}", bytes[off]),
        Some(Value::Anything) => "anything".to_string(),
        None => "the byte before".to_string(),
    });
    let allowed = texts.collect::<Vec<_>>().join(", ");
    Lost { point, at: range.start() + off as u64, got: got[off], allowed }
}
