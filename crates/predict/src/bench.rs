//! One stack in the real world, played many times with requests of the caller's.

use std::rc::Rc;

use esker_base::Nanos;
use esker_stack::{DeviceSpec, ExportSpec, Location, Spec};
use esker_trace_block::{Op, Record, Speed};

use crate::candidate::Candidate;
use crate::error::PredictError;
use crate::feed::Counting;
use crate::input::{Reel, Trace};
use crate::load::Load;
use crate::measure::Latencies;
use crate::play::{Built, Play, Played};
use crate::player::Bounds;
use crate::seats::Seat;
use crate::teller::Teller;
use crate::world::World;

/// The volume that is played on, in every spec of this module.
const VOLUME: &str = "vol";

/// A stack in a world of its own.
pub struct Bench {
    world: World,
    candidate: Candidate,
    built: Built,
    teller: Rc<Teller>,
}

/// What it took.
pub struct Taken {
    /// From the first request to the last answer, by request, in nanoseconds.
    pub cycle_ns: f64,
    played: Played,
}

impl Taken {
    /// Mean time between a client's answer and its next request in nanoseconds.
    pub fn turn_ns(&self) -> f64 {
        let tally = self.played.tally();
        tally.turning.0 as f64 / tally.turns.max(1) as f64
    }

    /// Of one operation.
    pub fn latencies(&self, op: Op) -> Latencies {
        self.played.tally().sum(|volume| match op {
            Op::Read => vec![&volume.reads],
            Op::Write => vec![&volume.writes],
            Op::Flush => vec![&volume.flushes],
            Op::Discard => vec![&volume.discards],
        })
    }
}

impl Bench {
    /// Builds the stack of these devices, of which the last one is played on.
    ///
    /// # Errors
    /// What cannot be built.
    pub fn new(devices: Vec<DeviceSpec>, seed: u64) -> Result<Bench, PredictError> {
        let top = devices.last().map(|device| device.name.clone()).unwrap_or_default();
        let at = Location::new("calibration", 0);
        let export = ExportSpec { name: VOLUME.to_string(), device: top, nbd: None, read_only: false, at };
        let spec = Spec { devices, exports: vec![export], ..Spec::default() };
        let candidate = Candidate::of("calibration", "", spec);
        let (world, teller) = (World::real(seed)?, Teller::silent());
        let built = play(&candidate, &[], 1, &teller).build(&world)?;
        Ok(Bench { world, candidate, built, teller })
    }

    /// The logical block of the volume.
    pub fn block(&self) -> u32 {
        self.built.block(VOLUME)
    }

    /// The bytes of the volume.
    pub fn size(&self) -> u64 {
        self.built.size(VOLUME)
    }

    /// Writes everything once.
    ///
    /// # Errors
    /// As [`Bench::take`].
    pub fn fill(&self) -> Result<(), PredictError> {
        play(&self.candidate, &[], 1, &self.teller).fill(&self.world, &self.built)
    }

    /// Plays requests to the volume, `depth` at a time.
    ///
    /// # Errors
    /// As [`ComparisonPlan::compare`](crate::ComparisonPlan::compare), of one candidate.
    pub fn take(&self, requests: Vec<Record>, depth: u32) -> Result<Taken, PredictError> {
        let count = requests.len().max(1);
        let reels = [Reel::whole(Trace::from_records(VOLUME, requests), 0)];
        let played = play(&self.candidate, &reels, depth, &self.teller).play_on(&self.world, &self.built)?;
        Ok(Taken { cycle_ns: played.elapsed.0 as f64 / count as f64, played })
    }
}

fn play<'a>(candidate: &'a Candidate, reels: &'a [Reel], depth: u32, teller: &Rc<Teller>) -> Play<'a> {
    Play {
        reels,
        facts: &[],
        seats: &[Seat { export: 0, base: 0 }],
        exports: &[],
        candidate,
        calibration: None,
        seed: 1,
        load: Load::Closed { depth, think: Nanos::ZERO },
        speed: Speed::RECORDED,
        counting: Counting::ALL,
        bounds: Bounds::NONE,
        teller: teller.clone(),
    }
}
