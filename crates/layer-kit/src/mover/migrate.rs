//! Migration: pre-copy beside clients, then a short hold.
//!
//! Clients read and write the source throughout, and what they change is copied again. Changes wait only while the
//! record of a switch is made durable: so none is answered whose bytes a restart would not find. The steps:
//!
//! 1. The caller reserves the destination.
//! 2. The range is watched.
//! 3. All units are copied, paced.
//! 4. What was marked is copied again, a few times. The destination is flushed.
//! 5. Changes are held. What is still marked is copied with force unit access.
//! 6. The caller makes the record durable, and then publishes it.
//! 7. The hold ends.
//! 8. The requests that were routed before have ended. Only now the source is free.
//!
//! A hold that takes too long is given up, and its bytes are copied beside clients again. After a few such holds the
//! range switches unit by unit.
//!
//! Lock order: a piece of work enters the stack first and holds then.

use std::ops::Range;

use esker_base::{Bits, Nanos};
use esker_block::split::LowerAddress;
use esker_block::{Bio, Buf, Tag};
use esker_rt::sync::{Either, race};

use super::{Go, Move, Moved, Mover, Pace, Settings, Way};
use crate::gate::{Gate, Watch};
use crate::io::Io;

/// Holds that are given up before the grain becomes finer, or the migration ends.
const HOLDS_MAX: u32 = 3;

/// How a mover migrates.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Bytes that are copied by one request: at most what both lower devices transfer at once.
    pub unit: u64,
    /// What switches at once.
    pub grain: Grain,
    /// How often units that clients changed are copied again before changes are held.
    pub passes: u32,
    /// How long a hold may last before its record is written; one that lasts longer is given up.
    pub hold_max: Nanos,
    /// Units that are copied at once.
    pub width: usize,
    /// The tag of all requests.
    pub tag: Tag,
    /// Whether copies carry no bytes, as in a simulation: both lower devices take described payloads
    /// ([`Limits::described`](esker_block::Limits::described)).
    pub described: bool,
}

impl Rules {
    /// Batches of a mover as units.
    pub(super) fn of(settings: &Settings) -> Rules {
        let Settings { batch: unit, width, tag, .. } = *settings;
        Rules { unit, grain: Grain::Whole, passes: 2, hold_max: Nanos::millis(50), width, tag, described: false }
    }

    /// Units as batches.
    pub(super) fn settings(&self) -> Settings {
        Settings { batch: self.unit, width: self.width, pause: Nanos::ZERO, durable: true, tag: self.tag }
    }
}

/// What a record switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grain {
    /// The range, at the end.
    Whole,
    /// Each unit as soon as it is copied, in order, so that the destination serves it at once.
    Unit,
}

/// Called under a hold, when these bytes of the migration are durable at their destination: the whole move, or its
/// next unit. It makes the record of that durable, and only then routes requests to the destination. After an error
/// they go to the source, and the extension must latch: nothing says whether a restart would find the record.
pub type Switched<'a> = Moved<'a>;

/// What became of a migration. No request of it is under way any more, and no client's is at a place that it left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All lies at the destination, and the source is free.
    Moved {
        /// How often changed units were copied again before a hold, at most.
        passes: u32,
        /// The longest time for which changes waited.
        held: Nanos,
    },
    /// The first units lie at the destination, the others at the source.
    Part {
        /// Units that were switched.
        units: u32,
        /// Why no more were.
        why: Cause,
    },
    /// All lies at the source.
    Abandoned(Cause),
}

/// Why a migration ended before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The source cannot be read.
    Read,
    /// The destination cannot be written or flushed, or the record cannot.
    Write,
    /// Clients change these bytes so much that each hold was given up.
    Hot,
    /// The stack or the extension has ended.
    Stopped,
    /// The pace said so, or other bytes of the range migrate already.
    Cancelled,
}

impl Mover {
    /// Moves a range beside its clients, which go through the mover's gate.
    pub async fn migrate(&self, way: &Way, transit: Move, pace: &dyn Pace, switched: Switched<'_>) -> Outcome {
        let range = transit.upper_range();
        let Some(_transit) = self.transits.try_begin(vec![range]) else { return Outcome::Abandoned(Cause::Cancelled) };
        let rules = &self.rules;
        let units = usize::try_from(range.len().div_ceil(rules.unit)).expect("as many units as memory can count");
        let mut stale = Bits::new(units);
        stale.set_all();
        let watch = self.gate.watch(range, rules.unit);
        let (gate, reached) = (&self.gate, Reached::default());
        let mut course = Course { way, rules, gate, pace, switched, transit, units, watch, stale, reached };
        let end = course.run().await;
        let Reached { units, passes, held, .. } = course.reached;
        let left = course.part(&(0..units)).upper_range();
        drop(course);
        // A request that was routed before a switch may still be at the source.
        self.gate.drained(left).await;
        match end {
            Ok(()) => Outcome::Moved { passes, held },
            Err(why) if units > 0 => Outcome::Part { units: units as u32, why },
            Err(why) => Outcome::Abandoned(why),
        }
    }
}

/// One migration.
struct Course<'a> {
    way: &'a Way,
    rules: &'a Rules,
    gate: &'a Gate,
    pace: &'a dyn Pace,
    switched: Switched<'a>,
    transit: Move,
    units: usize,
    watch: Watch,
    /// Units whose copy is missing, or older than the source and no longer noted by the watch.
    stale: Bits,
    reached: Reached,
}

/// How far it is.
#[derive(Default)]
struct Reached {
    /// Units that are switched.
    units: usize,
    passes: u32,
    held: Nanos,
    /// Whether copies are not durable yet.
    is_unflushed: bool,
}

impl Course<'_> {
    async fn run(&mut self) -> Result<(), Cause> {
        let (mut grain, mut given_up) = (self.rules.grain, 0);
        while self.reached.units < self.units {
            let first = self.reached.units;
            let part = match grain {
                Grain::Whole => first..self.units,
                Grain::Unit => first..first + 1,
            };
            match self.switch(&part).await {
                Ok(()) => (self.reached.units, given_up) = (part.end, 0),
                Err(Cause::Hot) if given_up + 1 < HOLDS_MAX => given_up += 1,
                Err(Cause::Hot) if part.len() > 1 => (grain, given_up) = (Grain::Unit, 0),
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Copies units beside clients and switches them.
    async fn switch(&mut self, part: &Range<usize>) -> Result<(), Cause> {
        self.pre_copy(part).await?;
        let (_permit, io) = self.way.enter().await.ok_or(Cause::Stopped)?;
        if self.reached.is_unflushed {
            let flush = Bio::flush().tagged(self.rules.tag).to(io.lower(self.transit.to.lower));
            io.submit(flush).await.result.map_err(|_| Cause::Write)?;
            self.reached.is_unflushed = false;
        }
        self.switch_held(&io, part).await
    }

    async fn pre_copy(&mut self, part: &Range<usize>) -> Result<(), Cause> {
        let lowers = [self.transit.from.lower, self.transit.to.lower];
        for pass in 0..=self.rules.passes {
            let stale = self.stale_in(part);
            if stale.is_empty() {
                break;
            }
            self.reached.passes = self.reached.passes.max(pass);
            for units in stale.chunks(self.rules.width) {
                let bytes = units.len() as u64 * self.rules.unit;
                if self.pace.earn(&lowers, bytes).await == Go::Stop {
                    return Err(Cause::Cancelled);
                }
                let (_permit, io) = self.way.enter().await.ok_or(Cause::Stopped)?;
                let begin = io.rt().now();
                self.copy(&io, units, false).await?;
                self.pace.took(&lowers, io.rt().now().since(begin));
            }
        }
        Ok(())
    }

    /// Switches units while their changes wait. Whatever ends this lets them go.
    async fn switch_held(&mut self, io: &Io, part: &Range<usize>) -> Result<(), Cause> {
        let moved = self.part(part);
        let begin = io.rt().now();
        let deadline = begin + self.rules.hold_max;
        let hold = self.gate.hold_range(moved.upper_range());
        let Either::Left(hold) = race(hold, io.rt().sleep_until(deadline)).await else { return Err(Cause::Hot) };
        loop {
            let stale = self.stale_in(part);
            if io.rt().now() >= deadline {
                return Err(Cause::Hot);
            }
            let Some(units) = stale.chunks(self.rules.width).next() else { break };
            self.copy(io, units, true).await?;
        }
        (self.switched)(io, &[moved]).await.map_err(|_| Cause::Write)?;
        drop(hold);
        self.reached.held = self.reached.held.max(io.rt().now().since(begin));
        Ok(())
    }

    /// The units of `part` that must be copied.
    fn stale_in(&mut self, part: &Range<usize>) -> Vec<usize> {
        self.watch.take().add_to(&mut self.stale);
        self.stale.iter().skip_while(|unit| *unit < part.start).take_while(|unit| *unit < part.end).collect()
    }

    /// Copies units. A change that comes meanwhile is noted by the watch, whatever the copy holds of it.
    async fn copy(&mut self, io: &Io, units: &[usize], durable: bool) -> Result<(), Cause> {
        let Move { from, to, .. } = self.transit;
        let moves: Vec<Move> = units.iter().map(|unit| self.part(&(*unit..unit + 1))).collect();
        let bio = |bio: Bio, place: LowerAddress| bio.tagged(self.rules.tag).to(io.lower(place.lower));
        let buf = |len: usize| if self.rules.described { Buf::described(len, 0) } else { Buf::unique(io.pool(), len) };
        let read = |one: &Move| bio(Bio::read(one.from.at, buf(one.len as usize)), from);
        let read = io.all(moves.iter().map(read).collect(), self.rules.width).await;
        if read.iter().any(|returned| returned.result.is_err()) {
            return Err(Cause::Read);
        }
        let write = |(one, read): (&Move, crate::io::Returned)| {
            let write = bio(Bio::write(one.to.at, Buf::chain(vec![read.bio.buf])), to);
            if durable { write.fua() } else { write }
        };
        let written = io.all(moves.iter().zip(read).map(write).collect(), self.rules.width).await;
        if written.iter().any(|returned| returned.result.is_err()) {
            return Err(Cause::Write);
        }
        units.iter().for_each(|unit| self.stale.clear(*unit));
        self.reached.is_unflushed |= !durable;
        Ok(())
    }

    /// The move of some units.
    fn part(&self, units: &Range<usize>) -> Move {
        let Move { upper, from, to, len } = self.transit;
        let [at, end] = [units.start, units.end].map(|unit| (unit as u64 * self.rules.unit).min(len));
        Move { upper: upper + at, from: from.plus(at), to: to.plus(at), len: end - at }
    }
}

#[cfg(test)]
mod tests;
