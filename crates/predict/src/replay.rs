//! Plays the traces against one candidate in a world of its own and says what came of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_blktrace::Speed;
use esker_block::{Bio, Buf, Device, ExtentState, Kind, Reply};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::{Credits, Notify};
use esker_stack::{Export, Spec, Stack};

use crate::calibration::{Calibration, ClientCost, twin};
use crate::candidate::Candidate;
use crate::error::PredictError;
use crate::known_error;
use crate::load::Load;
use crate::measure::{Tally, VolumeTally};
use crate::outcome::{DeviceRun, Run, VolumeRun};
use crate::plan::Watch;
use crate::player::{Player, play_all};
use crate::trace::{Facts, Feed, Limit, Trace};
use crate::world::World;

/// Idle memory that a world keeps for payloads of devices that need bytes.
const POOLED: usize = 16 << 20;

/// Bytes of one write that fills a volume.
const FILL: u64 = 1 << 20;

/// A stack that needs more than this share of the planned time after the last arrival has fallen behind...
const DRAIN_SHARE: f64 = 0.05;
/// ...unless that is a short time by itself.
const DRAIN_MIN: Nanos = Nanos::millis(100);

/// What is played, and how.
pub(crate) struct Play<'a> {
    pub traces: &'a [Trace],
    pub facts: &'a [Facts],
    pub candidate: &'a Candidate,
    pub calibration: Option<&'a Calibration>,
    pub seed: u64,
    pub load: Load,
    pub speed: Speed,
    pub limit: Limit,
    pub inflight_max: u64,
    pub watch: &'a Watch,
}

/// A candidate's stack in a world.
pub(crate) struct Built {
    stack: Rc<Stack>,
    pool: Pool,
    client: ClientCost,
}

impl Built {
    /// The logical block of an export; 0 if there is none.
    pub fn block(&self, export: &str) -> u32 {
        self.stack.export(export).map_or(0, |export| export.limits().block)
    }

    /// The bytes of an export; 0 if there is none.
    pub fn size(&self, export: &str) -> u64 {
        self.stack.export(export).map_or(0, |export| export.limits().size)
    }
}

/// A run that has ended.
pub(crate) struct Played {
    player: Rc<Player>,
    /// From the start to the last answer.
    pub elapsed: Nanos,
}

impl Played {
    /// What was counted.
    pub fn tally(&self) -> std::cell::Ref<'_, Tally> {
        self.player.tally.borrow()
    }
}

impl Play<'_> {
    /// Plays it once in virtual time.
    ///
    /// # Errors
    /// A stack that cannot be built or has the wrong exports, an unreadable trace, requests that are never answered.
    pub fn run(&self) -> Result<Run, PredictError> {
        let world = World::in_virtual_time(self.seed);
        let built = self.build(&world)?;
        Ok(self.conclude(&world, &built, &self.play_on(&world, &built)?))
    }

    /// Plays it once in real time, with files that are files and models that are paced. Volumes of devices that keep
    /// bytes are written in full before: what was never written is not read as what was.
    ///
    /// # Errors
    /// As [`Play::run`], and what the kernel refuses.
    pub fn run_really(&self) -> Result<Run, PredictError> {
        let world = World::real(self.seed)?;
        let built = self.build(&world)?;
        self.fill(&world, &built)?;
        Ok(self.conclude(&world, &built, &self.play_on(&world, &built)?))
    }

    /// Builds the stack.
    ///
    /// # Errors
    /// What cannot be built, or is not in the calibration.
    pub fn build(&self, world: &World) -> Result<Built, PredictError> {
        let rt = world.rt();
        let pool = Pool::new(POOLED);
        let (spec, kinds, client) = self.arranged(rt.is_sim())?;
        let built = Stack::build(&rt, &pool, kinds, &spec);
        let stack = built.map_err(|source| PredictError::Build { candidate: self.candidate.name.clone(), source })?;
        Ok(Built { stack, pool, client })
    }

    /// Writes all bytes of the exports whose payload is carried, unless all of them hold data.
    ///
    /// # Errors
    /// A stack without the exports.
    pub fn fill(&self, world: &World, built: &Built) -> Result<(), PredictError> {
        for export in self.exports(&built.stack)? {
            let limits = export.limits();
            if !limits.described && world.run(&self.candidate.name, has_holes(export.clone()))? {
                let pieces = ByteRange::new(0, limits.size).into_iter().flat_map(|all| all.split_at_multiples(FILL));
                world.run(&self.candidate.name, write_all(export.clone(), built.pool.clone(), pieces.collect()))?;
            }
        }
        Ok(())
    }

    /// Plays on a stack that may have been played on before.
    ///
    /// # Errors
    /// As [`Play::run`].
    pub fn play_on(&self, world: &World, built: &Built) -> Result<Played, PredictError> {
        let rt = world.rt();
        let exports = self.exports(&built.stack)?;
        // Reading a trace is no part of what is measured in real time.
        let feed = |trace: &Trace| if rt.is_sim() { trace.feed(&self.limit) } else { trace.loaded(&self.limit) };
        let feeds: Result<Vec<Feed>, _> = self.traces.iter().map(feed).collect();
        let volumes = exports.into_iter().zip(feeds?).collect();
        let player = Rc::new(self.player(&rt, built));
        let start = player.start;
        world.run(&self.candidate.name, play_all(player.clone(), volumes))??;
        Ok(Played { elapsed: rt.now().since(start), player })
    }

    /// The stack's text as it is built: as it stands in the real world, its calibrated twin in virtual time.
    fn arranged(&self, is_sim: bool) -> Result<(Spec, &'static [&'static Kind], ClientCost), PredictError> {
        let (spec, name) = (&self.candidate.spec, &self.candidate.name);
        match self.calibration.filter(|_| is_sim) {
            None => Ok((spec.clone(), esker_kinds::ALL, ClientCost::default())),
            Some(calibration) => {
                let twin = twin::of(calibration, name, spec)?;
                Ok((twin.spec, twin::kinds(), twin.client))
            }
        }
    }

    fn player(&self, rt: &Rt, built: &Built) -> Player {
        let tally = match self.load {
            Load::Open => Tally::new(self.traces.len(), self.span()),
            Load::Closed { .. } => Tally::of_unknown_span(self.traces.len()),
        };
        let start = rt.now();
        Player {
            rt: rt.clone(),
            pool: built.pool.clone(),
            load: self.load,
            speed: self.speed,
            tally: RefCell::new(tally.from(start)),
            fitted: Cell::default(),
            credits: Credits::new(self.inflight_max),
            held: Cell::default(),
            quiet: Notify::default(),
            watch: self.watch.clone(),
            name: self.candidate.name.clone(),
            client: built.client.clone(),
            wakes: RefCell::new(rt.rng("client wakes")),
            mix: RefCell::default(),
            pattern: RefCell::new(Buf::empty()),
            start,
        }
    }

    /// The time of the last arrival in open loop.
    fn span(&self) -> Nanos {
        let longest = self.facts.iter().map(|facts| facts.duration_ns).max().unwrap_or(0);
        self.speed.apply(Nanos(longest))
    }

    fn exports(&self, stack: &Rc<Stack>) -> Result<Vec<Export>, PredictError> {
        let named: Vec<Export> =
            self.candidate.spec.exports.iter().filter_map(|export| stack.export(&export.name)).collect();
        if named.len() == self.traces.len() {
            return Ok(named);
        }
        let (candidate, exports, traces) = (self.candidate.name.clone(), named.len(), self.traces.len());
        Err(PredictError::Exports { candidate, exports, traces })
    }

    fn conclude(&self, world: &World, built: &Built, played: &Played) -> Run {
        let (tally, elapsed, player) = (played.tally(), played.elapsed, &played.player);
        let all = tally.sum(|volume| vec![&volume.reads, &volume.writes, &volume.others]);
        let drain = tally.last_answer.since(tally.last_due);
        let devices = devices(&built.stack, elapsed);
        let is_model = !devices.is_empty();
        let per_second = |count: u64| if elapsed == Nanos::ZERO { 0.0 } else { count as f64 / elapsed.as_secs_f64() };
        Run {
            name: self.candidate.name.clone(),
            what: self.candidate.what.clone(),
            stack: self.candidate.spec.to_toml(),
            reads: tally.sum(|volume| vec![&volume.reads]).summary(),
            writes: tally.sum(|volume| vec![&volume.writes]).summary(),
            volumes: tally.volumes.iter().zip(self.facts).map(volume).collect(),
            elapsed_ns: elapsed.0,
            drain_ns: drain.0,
            requests_per_s: per_second(all.summary().requests),
            bytes_per_s: per_second(tally.bytes()),
            inflight_max: tally.inflight_max,
            saturated: self.saturation(player.held.get(), drain),
            failed: tally.failed,
            first_failure: tally.first_failure.clone(),
            fitted: player.fitted.get(),
            busy: devices.iter().map(|device| device.busy).reduce(f64::max),
            energy_j: is_model.then(|| devices.iter().map(|device| device.energy_j).sum()),
            price_usd: is_model.then(|| devices.iter().map(|device| device.price_usd).sum()),
            devices,
            known_errors: known_error::of(&self.candidate.spec),
            events: world.digest().map_or(0, |(_, events)| events),
            digest: world.digest().map(|(digest, _)| digest),
            cdf: all.cdf(),
            intervals: tally.intervals(),
            all: all.summary(),
            latencies: all,
        }
    }

    fn saturation(&self, held: u64, drain: Nanos) -> Option<String> {
        if self.load != Load::Open {
            return None;
        }
        let span = self.span();
        if held > 0 {
            let bound = self.inflight_max;
            return Some(format!("{held} requests came while {bound} were in flight, which is the bound"));
        }
        let is_late = drain > DRAIN_MIN && drain.as_secs_f64() > DRAIN_SHARE * span.as_secs_f64();
        is_late.then(|| format!("it needed {drain} after the last arrival of a run of {span} to answer what waited"))
    }
}

/// Whether a volume has, or may have, bytes that were never written.
async fn has_holes(export: Export) -> bool {
    let answer = export.request(Bio::extents(0, export.limits().size)).await;
    match answer.result {
        Ok(Reply::Extents(extents)) => extents.iter().any(|extent| extent.state != ExtentState::Data),
        _ => true,
    }
}

/// Failures show again when the volume is read.
async fn write_all(export: Export, pool: Pool, pieces: Vec<ByteRange>) {
    let mut bytes = Buf::zeroed(&pool, FILL as usize);
    for piece in pieces {
        let piece_bytes = bytes.slice(0, piece.len() as usize);
        export.request(Bio::write(piece.start(), piece_bytes)).await;
    }
}

fn volume((tally, facts): (&VolumeTally, &Facts)) -> VolumeRun {
    VolumeRun {
        name: facts.volume.clone(),
        reads: tally.reads.summary(),
        writes: tally.writes.summary(),
        read_bytes: tally.read_bytes,
        written_bytes: tally.written_bytes,
    }
}

fn devices(stack: &Rc<Stack>, elapsed: Nanos) -> Vec<DeviceRun> {
    let device = |part: esker_stack::PartStats| {
        let usage = part.usage?;
        let size_bytes = stack.device(&part.name).map_or(0, |device| device.limits().size);
        Some(DeviceRun {
            name: part.name,
            kind: part.kind,
            size_bytes,
            busy: if elapsed == Nanos::ZERO { 0.0 } else { usage.busy.as_secs_f64() / elapsed.as_secs_f64() },
            energy_j: usage.energy_j,
            price_usd: usage.price_usd,
            read_bytes: usage.read,
            written_bytes: usage.written,
        })
    };
    stack.stats().into_iter().filter_map(device).collect()
}
