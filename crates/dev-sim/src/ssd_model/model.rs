//! The drive as a function from (state, access, instant) to a plan. It knows when everything ends as soon as it is
//! asked.

use esker_base::{ByteRange, Nanos, Stream, Time};
use esker_block::KindError;

use super::ftl::{Cleaner, Ftl, Geometry, Moved, UnitState};
use super::nand::{Nand, Wire};
use super::spec::{SsdSpec, UNIT};
use crate::planned::AccessPlan;

/// How the translation layer works, and what the drive holds when the world begins.
#[derive(Clone, Debug)]
pub struct FtlSetup {
    /// How the collector chooses.
    pub cleaner: Cleaner,
    /// Where it writes.
    pub moved: Moved,
    /// Share of the capacity that holds data, written at random until nothing changes any more; 0 for a new drive.
    pub fill: f64,
    /// What filling draws from.
    pub rng: Stream,
}

/// A drive without state.
#[derive(Clone, Debug)]
pub struct SsdModel {
    spec: SsdSpec,
    geometry: Geometry,
    /// From the arrival of a command until it needs the interface.
    lead: Nanos,
}

/// Where everything is, and when its parts are free.
pub struct SsdState {
    ftl: Ftl,
    nand: Nand,
    link: Time,
    host: Wire,
    stalls: u64,
}

/// How a write is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ack {
    /// When it is in the write buffer.
    Buffered,
    /// When it is on flash.
    Stable,
}

/// Where the bytes of a unit come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The write buffer, or nowhere.
    Buffer,
    /// A page of flash: its number and die.
    Page(u64, u32),
}

/// Pages of data that were there before the world began have numbers above those of all others.
const BEFORE: u64 = 1 << 32;

/// A part of a read that comes from one source.
struct ReadExtent {
    source: Source,
    bytes: u64,
}

impl SsdModel {
    /// The model of a drive.
    ///
    /// # Errors
    /// Numbers out of their range, by name.
    pub fn new(spec: SsdSpec) -> Result<SsdModel, KindError> {
        Ok(SsdModel { spec, geometry: spec.geometry()?, lead: spec.overhead.saturating_sub(spec.serial) })
    }

    /// Its numbers.
    pub fn spec(&self) -> &SsdSpec {
        &self.spec
    }

    /// A drive at rest.
    pub fn at_rest(&self, setup: &FtlSetup) -> SsdState {
        let mut ftl = Ftl::new(self.geometry, setup.cleaner.clone(), setup.moved);
        let filled = (f64::from(self.geometry.units) * setup.fill) as u32;
        if filled > 0 {
            ftl.fill(filled, &mut setup.rng.clone());
        }
        let host = Wire::new(self.spec.host_rate);
        SsdState { ftl, nand: Nand::new(&self.spec), link: Time::ZERO, host, stalls: 0 }
    }

    /// Takes the controller and the host interface for a command with `bytes`, in the order of arrival, and returns
    /// until when. Reads hold it from their arrival, not from their data's: only so can a later read on an idle die
    /// overtake, and the sum of all transfers still never exceeds the rate.
    #[inline]
    fn take_link(&self, state: &mut SsdState, now: Time, bytes: u64) -> Time {
        state.link =
            state.link.max(now + self.lead) + self.spec.serial.min(self.spec.overhead) + state.host.span(bytes);
        state.link
    }

    /// Reads `range` from `now` on.
    #[inline]
    pub fn read(&self, state: &mut SsdState, range: ByteRange, now: Time) -> AccessPlan {
        let start = now + self.spec.overhead;
        let link = self.take_link(state, now, range.len());
        state.nand.begin(now);
        let (mut first, mut last, mut tail) = (Time(u64::MAX), start, 0);
        let mut end_run = |state: &mut SsdState, run: ReadExtent| {
            let there = match run.source {
                Source::Buffer => start,
                Source::Page(_, die) => state.nand.read(die, start, run.bytes),
            };
            (first, last, tail) = (first.min(there), last.max(there), run.bytes);
        };
        let mut run = ReadExtent { source: Source::Buffer, bytes: 0 };
        for part in range.split_at_multiples(UNIT) {
            let source = self.source(state, (part.start() / UNIT) as u32);
            if source != run.source && run.bytes > 0 {
                end_run(state, run);
                run = ReadExtent { source, bytes: 0 };
            }
            run = ReadExtent { source, bytes: run.bytes + part.len() };
        }
        end_run(state, run);
        let streamed = if first < last { first + state.host.span(range.len()) } else { last };
        let finish = (last + state.host.span(tail)).max(streamed).max(link);
        AccessPlan { finish, stable: Some(finish), closed: None }
    }

    /// Where `unit` is read from. What was never written is data from before the world began, in the order of its
    /// addresses; what was trimmed takes no flash.
    #[inline]
    fn source(&self, state: &SsdState, unit: u32) -> Source {
        let ftl = &state.ftl;
        match ftl.locate(unit) {
            UnitState::Trimmed => Source::Buffer,
            UnitState::At(place) if ftl.host_page(place) >= ftl.host_pages() - state.nand.leaving() as i64 => {
                Source::Buffer
            }
            UnitState::At(place) => Source::Page(u64::from(ftl.page_of(place)), ftl.die_of(place)),
            UnitState::Never => {
                let page = unit / self.geometry.page_units;
                Source::Page(BEFORE + u64::from(page), page % self.geometry.dies)
            }
        }
    }

    /// Writes `range` from `now` on.
    #[inline]
    pub fn write(&self, state: &mut SsdState, range: ByteRange, ack: Ack, now: Time) -> AccessPlan {
        let arrived = self.take_link(state, now, range.len());
        state.nand.begin(now);
        let mut accepted = arrived;
        for part in range.split_at_multiples(UNIT) {
            accepted = state.nand.accept(accepted);
            let unit = (part.start() / UNIT) as u32;
            if part.len() < UNIT
                && let Source::Page(_, die) = self.source(state, unit)
            {
                state.nand.read_first(die, arrived);
            }
            if !state.ftl.write(unit, &mut state.nand) {
                state.nand.release();
            }
        }
        state.stalls += u64::from(accepted > arrived);
        if ack == Ack::Stable {
            state.ftl.pad(&mut state.nand);
        }
        let programs = state.nand.programs();
        let last = programs.map(|(_, last)| last);
        let stable = if state.nand.open_units() == 0 { last } else { None };
        let finish = if ack == Ack::Stable { last.map_or(accepted, |last| last.max(accepted)) } else { accepted };
        AccessPlan { finish, stable, closed: programs.map(|(first, _)| first) }
    }

    /// Makes all that was written stable.
    pub fn flush(&self, state: &mut SsdState, now: Time) -> AccessPlan {
        state.nand.begin(now);
        state.ftl.pad(&mut state.nand);
        let finish = state.nand.programmed().max(now + self.spec.overhead) + self.spec.flush;
        AccessPlan { finish, stable: Some(finish), closed: Some(finish) }
    }

    /// Forgets the whole units of `range`: zeroing and discarding change the map only.
    pub fn trim(&self, state: &mut SsdState, range: ByteRange, now: Time) -> AccessPlan {
        let (first, end) = (range.start().div_ceil(UNIT), range.end() / UNIT);
        if first < end {
            state.ftl.trim(first as u32, end as u32);
        }
        AccessPlan { stable: None, ..self.command(now) }
    }

    /// A command that moves no data and changes nothing.
    pub fn command(&self, now: Time) -> AccessPlan {
        let finish = now + self.spec.overhead;
        AccessPlan { finish, stable: Some(finish), closed: None }
    }
}

impl SsdState {
    /// The translation layer.
    pub fn ftl(&self) -> &Ftl {
        &self.ftl
    }

    /// Bytes in the write buffer, counting those that were programmed since the last request came.
    pub fn buffered_bytes(&self) -> u64 {
        self.nand.buffered_bytes()
    }

    /// Writes that waited for room in the buffer.
    pub fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Sum of the time that dies were busy or are planned to be.
    pub fn dies_busy(&self) -> Nanos {
        self.nand.busy()
    }
}
