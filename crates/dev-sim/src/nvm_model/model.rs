//! The DIMMs as a function from (state, access, instant) to the access's end.
//!
//! Each DIMM is a ledger of the time that its lines take at its rates; an access ends when its latency has passed and
//! its DIMMs have served it and all before it. A DIMM reads and writes whole lines: a write of a part of one reads it
//! first, unless it is the line that the DIMM used last, which it still holds.

use esker_base::{ByteRange, Nanos, Time};
use esker_block::KindError;

use crate::catalogue::{self, Numbers};
use crate::meter::Bill;

/// The numbers of a set of DIMMs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NvmSpec {
    /// Bytes of all.
    pub capacity: u64,
    /// How many share the addresses.
    pub dimms: u32,
    /// Consecutive bytes on one.
    pub interleave: u64,
    /// Bytes that one reads or writes at once.
    pub line: u64,
    /// Latency of a read.
    pub read: Nanos,
    /// Latency of a read from the line that was used last.
    pub buffered: Nanos,
    /// Latency of a write.
    pub write: Nanos,
    /// Bytes per second that one reads, and writes.
    pub read_rate: u64,
    /// Bytes per second that one writes.
    pub write_rate: u64,
    /// Power and price of all.
    pub bill: Bill,
}

/// DIMMs without state.
#[derive(Clone, Debug)]
pub struct NvmModel {
    spec: NvmSpec,
    /// Time of one line.
    read_line: Nanos,
    write_line: Nanos,
}

/// What one DIMM is doing.
#[derive(Clone, Copy, Debug)]
struct Dimm {
    free: Time,
    /// The line that it used last.
    line: u64,
}

/// What all DIMMs are doing.
#[derive(Clone, Debug)]
pub struct NvmState {
    dimms: Vec<Dimm>,
}

const DIMMS_MAX: u32 = 1024;

impl NvmSpec {
    /// Memory of the catalogue.
    pub fn profile(name: &str) -> Option<NvmSpec> {
        let entry = catalogue::find(super::KIND.name, name).ok()?;
        NvmSpec::of(&Numbers::of_entry(&super::KIND, &entry).ok()?).ok()
    }

    /// The memory that the numbers make.
    ///
    /// # Errors
    /// A number that is unknown.
    pub fn of(numbers: &Numbers) -> Result<NvmSpec, KindError> {
        Ok(NvmSpec {
            capacity: numbers.int("capacity")?,
            dimms: numbers.count("dimms")?,
            interleave: numbers.int("interleave")?,
            line: numbers.int("line")?,
            read: numbers.span("read")?,
            buffered: numbers.span("buffered")?,
            write: numbers.span("write")?,
            read_rate: numbers.int("read_rate")?,
            write_rate: numbers.int("write_rate")?,
            bill: Bill::of(numbers)?,
        })
    }
}

impl NvmModel {
    /// The model of DIMMs.
    ///
    /// # Errors
    /// Numbers out of their range, by name.
    pub fn new(spec: NvmSpec) -> Result<NvmModel, KindError> {
        let unfit = |text: String| Err(KindError::Unfit(format!("nvm-model: {text}")));
        if !(1..=DIMMS_MAX).contains(&spec.dimms) {
            return unfit(format!("dimms = {}; choose 1 to {DIMMS_MAX}", spec.dimms));
        }
        if !spec.line.is_power_of_two() || spec.interleave == 0 || !spec.interleave.is_multiple_of(spec.line) {
            let text = "line must be a power of two and interleave a multiple of it";
            return unfit(format!("line = {}, interleave = {}; {text}", spec.line, spec.interleave));
        }
        let rates = [("capacity", spec.capacity), ("read_rate", spec.read_rate), ("write_rate", spec.write_rate)];
        if let Some((name, _)) = rates.iter().find(|(_, value)| *value == 0) {
            return unfit(format!("{name} must be above 0"));
        }
        let (read_line, write_line) =
            (Nanos::transfer(spec.line, spec.read_rate), Nanos::transfer(spec.line, spec.write_rate));
        Ok(NvmModel { spec, read_line, write_line })
    }

    /// Its numbers.
    pub fn spec(&self) -> &NvmSpec {
        &self.spec
    }

    /// DIMMs at rest.
    pub fn at_rest(&self) -> NvmState {
        NvmState { dimms: vec![Dimm { free: Time::ZERO, line: u64::MAX }; self.spec.dimms as usize] }
    }

    /// Reads `range` from `now` on and returns when its bytes are there.
    pub fn read(&self, state: &mut NvmState, range: ByteRange, now: Time) -> Time {
        let mut finish = now;
        for part in range.split_at_multiples(self.spec.interleave) {
            let (first, last) = self.lines(part);
            let dimm = self.dimm(state, part);
            let held = dimm.line == first;
            let lines = last - first + u64::from(!held);
            let latency = if held { self.spec.buffered } else { self.spec.read };
            dimm.free = dimm.free.max(now) + self.read_line * lines;
            dimm.line = last;
            finish = finish.max(now + latency + self.read_line * (last - first)).max(dimm.free);
        }
        finish
    }

    /// Writes `range` from `now` on and returns when its bytes are durable.
    pub fn write(&self, state: &mut NvmState, range: ByteRange, now: Time) -> Time {
        let mut finish = now;
        for part in range.split_at_multiples(self.spec.interleave) {
            let (first, last) = self.lines(part);
            let dimm = self.dimm(state, part);
            let (head, tail) =
                (!part.start().is_multiple_of(self.spec.line), !part.end().is_multiple_of(self.spec.line));
            let held = dimm.line == first;
            let read_first = u64::from(head && !held) + u64::from(tail && !(first == last && (head || held)));
            // What goes on in the line that is held has been paid for with the write that began it.
            let lines = last - first + u64::from(!(held && head));
            let work = self.read_line * read_first + self.write_line * lines;
            dimm.free = dimm.free.max(now) + work;
            dimm.line = last;
            finish = finish.max(now + self.spec.write + self.write_line * (last - first)).max(dimm.free);
        }
        finish
    }

    /// First and last line of a range that is not empty.
    fn lines(&self, part: ByteRange) -> (u64, u64) {
        (part.start() / self.spec.line, (part.end() - 1) / self.spec.line)
    }

    fn dimm<'a>(&self, state: &'a mut NvmState, part: ByteRange) -> &'a mut Dimm {
        let at = part.start() / self.spec.interleave % u64::from(self.spec.dimms);
        &mut state.dimms[at as usize]
    }
}

impl NvmState {
    /// When everything that was asked for is done.
    pub fn idle_from(&self) -> Time {
        self.dimms.iter().map(|dimm| dimm.free).max().unwrap_or_default()
    }
}
