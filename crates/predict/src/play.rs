//! Plays the traces against one candidate in a world of its own and says what came of it.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use esker_base::units::size_human;
use esker_base::{ByteRange, Nanos, Time};
use esker_block::{Bio, Buf, Device, ExtentState, Kind, Reply, Stat};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::Notify;
use esker_stack::{Export, ExportSpec, PartStats, Spec, Stack};
use esker_trace_block::Speed;

use crate::calibration::{Calibration, ClientCost, twin};
use crate::candidate::Candidate;
use crate::error::PredictError;
use crate::facts::Facts;
use crate::feed::{Counting, Feed};
use crate::input::Reel;
use crate::known_error;
use crate::load::Load;
use crate::measure::{Tally, VolumeTally};
use crate::outcome::{CandidateRun, DeviceRun, LayerRun, LayerStat, VolumeRun};
use crate::player::{Bounds, Player, Stop, Volume, Volumes, play_all};
use crate::product::Product;
use crate::seats::Seat;
use crate::teller::Teller;
use crate::world::World;

/// Idle memory that a world keeps for payloads of devices that need bytes.
const POOLED: usize = 16 << 20;

/// Bytes of one write that fills a volume.
const FILL: u64 = 1 << 20;

/// A stack that needs more than this share of the planned time after the last arrival has fallen behind...
const DRAIN_SHARE: f64 = 0.05;
/// ...unless that is a short time by itself.
const DRAIN_MIN: Nanos = Nanos::millis(100);

/// What is played, and how. In closed loop the bounds do not hold.
#[derive(Clone)]
pub(crate) struct Play<'a> {
    pub reels: &'a [Reel],
    /// One for each volume.
    pub facts: &'a [Facts],
    /// Where each volume lies.
    pub seats: &'a [Seat],
    /// What each export must serve.
    pub exports: &'a [Facts],
    pub candidate: &'a Candidate,
    pub calibration: Option<&'a Calibration>,
    pub seed: u64,
    pub load: Load,
    pub speed: Speed,
    pub counting: Counting,
    pub bounds: Bounds,
    pub teller: Rc<Teller>,
}

/// A candidate's stack in a world.
pub(crate) struct Built {
    stack: Rc<Stack>,
    pool: Pool,
    client: ClientCost,
}

impl Built {
    /// The logical block of an export; 0 if there is none.
    pub(crate) fn block(&self, export: &str) -> u32 {
        self.stack.export(export).map_or(0, |export| export.limits().block)
    }

    /// The bytes of an export; 0 if there is none.
    pub(crate) fn size(&self, export: &str) -> u64 {
        self.stack.export(export).map_or(0, |export| export.limits().size)
    }
}

/// A run that has ended.
pub(crate) struct Played {
    player: Rc<Player>,
    /// From the begin of counting to the last answer.
    pub elapsed: Nanos,
}

impl Played {
    /// What was counted.
    pub(crate) fn tally(&self) -> std::cell::Ref<'_, Tally> {
        self.player.tally.borrow()
    }
}

impl Play<'_> {
    /// Plays it once in virtual time.
    ///
    /// # Errors
    /// A stack that cannot be built or has the wrong exports, an unreadable trace, requests that are never answered.
    pub(crate) fn run(&self) -> Result<CandidateRun, PredictError> {
        let world = World::in_virtual_time(self.seed);
        let built = self.build(&world)?;
        Ok(self.conclude(&world, &self.play_on(&world, &built)?))
    }

    /// Plays it once in virtual time and tells only whether it keeps up with a 99th percentile of at most `target`, and
    /// how many requests were sent until that was known.
    ///
    /// # Errors
    /// As [`Play::run`].
    pub(crate) fn bears(&self, target: Nanos) -> Result<(bool, u64), PredictError> {
        let world = World::in_virtual_time(self.seed);
        let built = self.build(&world)?;
        let played = self.played_on(&world, &built, Tally::without_intervals)?;
        let (tally, stop) = (played.tally(), played.player.stop.get());
        let drain = tally.last_answer.since(tally.last_due);
        let keeps_up = stop.is_none() && tally.failed == 0 && !self.falls_behind(drain);
        Ok((keeps_up && tally.all().summary().p99() <= target, tally.sent))
    }

    /// Plays it once in real time, with files that are files and models that are paced. Volumes of devices that keep
    /// bytes are written in full before: what was never written is not read as what was.
    ///
    /// # Errors
    /// As [`Play::run`], and what the kernel refuses.
    pub(crate) fn run_realtime(&self) -> Result<CandidateRun, PredictError> {
        let world = World::real(self.seed)?;
        let built = self.build(&world)?;
        self.fill(&world, &built)?;
        Ok(self.conclude(&world, &self.play_on(&world, &built)?))
    }

    /// Builds the stack.
    ///
    /// # Errors
    /// What cannot be built, or is not in the calibration.
    pub(crate) fn build(&self, world: &World) -> Result<Built, PredictError> {
        let rt = world.rt();
        let pool = Pool::new(POOLED);
        let (spec, kinds, client) = self.arranged(rt.is_sim())?;
        let built = Stack::build(&rt, &pool, kinds, &spec);
        let stack = built.map_err(|source| PredictError::Build { candidate: self.candidate.name.clone(), source })?;
        Ok(Built { stack, pool, client })
    }

    /// Builds the stack in virtual time and forgets it.
    ///
    /// # Errors
    /// As [`Play::build`].
    pub(crate) fn check_built(&self) -> Result<(), PredictError> {
        self.build(&World::in_virtual_time(self.seed)).map(drop)
    }

    /// Refuses a stack that is smaller than the traces reach, if it can be built.
    ///
    /// # Errors
    /// [`PredictError::TooSmall`].
    pub(crate) fn check_sizes(&self) -> Result<(), PredictError> {
        let Ok(built) = self.build(&World::in_virtual_time(self.seed)) else { return Ok(()) };
        for (export, facts) in self.candidate.spec.exports.iter().zip(self.exports) {
            let size = built.size(&export.name);
            if size < facts.reach_bytes {
                return Err(PredictError::TooSmall {
                    candidate: self.candidate.name.clone(),
                    export: export.name.clone(),
                    size: size_human(size),
                    trace: facts.name.clone(),
                    reach: size_human(facts.reach_bytes),
                });
            }
        }
        Ok(())
    }

    /// Writes all bytes of the exports whose payload is carried, unless all of them hold data.
    ///
    /// # Errors
    /// Requests that are never answered.
    pub(crate) fn fill(&self, world: &World, built: &Built) -> Result<(), PredictError> {
        for export in self.exports(&built.stack).iter() {
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
    pub(crate) fn play_on(&self, world: &World, built: &Built) -> Result<Played, PredictError> {
        let tally = |volumes| match self.load.is_open() {
            true => Tally::new(volumes, self.span()),
            false => Tally::of_unknown_span(volumes),
        };
        self.played_on(world, built, tally)
    }

    fn played_on(&self, world: &World, built: &Built, tally: impl Fn(usize) -> Tally) -> Result<Played, PredictError> {
        let rt = world.rt();
        let volumes = self.volumes(&built.stack);
        // Reading a trace is no part of what is measured in real time.
        let counting = &self.counting;
        let feed =
            |reel: &Reel| Ok((reel.first, if rt.is_sim() { reel.feed(counting)? } else { reel.loaded(counting)? }));
        let feeds: Result<Vec<(usize, Feed)>, PredictError> = self.reels.iter().map(feed).collect();
        let player = Rc::new(self.player(&rt, built, tally(volumes.len())));
        world.run(&self.candidate.name, play_all(player.clone(), volumes, feeds?))??;
        let elapsed = rt.now().since(player.tally.borrow().start);
        Ok(Played { elapsed, player })
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

    fn player(&self, rt: &Rt, built: &Built, tally: Tally) -> Player {
        let start = rt.now();
        Player {
            rt: rt.clone(),
            pool: built.pool.clone(),
            load: self.load,
            speed: self.speed,
            tally: RefCell::new(tally.from(start)),
            fitted: Cell::default(),
            bounds: if self.load.is_open() { self.bounds } else { Bounds::NONE },
            stop: Cell::default(),
            stopped: Notify::default(),
            misses: Cell::default(),
            quiet: Notify::default(),
            teller: self.teller.clone(),
            client: built.client.clone(),
            wakes: RefCell::new(rt.rng("client wakes")),
            mix: RefCell::default(),
            pattern: RefCell::new(Buf::empty()),
            start,
            counting: self.counting,
            begun: if self.counting == Counting::ALL { OnceCell::from(Vec::new()) } else { OnceCell::new() },
            stack: built.stack.clone(),
        }
    }

    /// The time from the begin of counting to the last arrival in open loop.
    fn span(&self) -> Nanos {
        self.speed.apply(self.counting.span(Facts::last(self.facts)))
    }

    /// The exports in the order of the text.
    fn exports(&self, stack: &Rc<Stack>) -> Vec<Export> {
        let export = |spec: &ExportSpec| stack.export(&spec.name).expect("a stack that was built has its exports");
        self.candidate.spec.exports.iter().map(export).collect()
    }

    /// The volumes in the order of the traces.
    fn volumes(&self, stack: &Rc<Stack>) -> Volumes {
        let exports = self.exports(stack);
        self.seats.iter().map(|seat| Volume { export: exports[seat.export].clone(), base: seat.base }).collect()
    }

    fn conclude(&self, world: &World, played: &Played) -> CandidateRun {
        let (tally, elapsed, player) = (played.tally(), played.elapsed, &played.player);
        let all = tally.all();
        let drain = tally.last_answer.since(tally.last_due);
        let devices = self.devices(player, elapsed);
        let is_model = !devices.is_empty();
        let per_second = |count: u64| if elapsed == Nanos::ZERO { 0.0 } else { count as f64 / elapsed.as_secs_f64() };
        CandidateRun {
            name: self.candidate.name.clone(),
            what: self.candidate.what.clone(),
            stack: self.candidate.spec.to_toml(),
            served: self.candidate.served.as_ref().map(Spec::to_toml),
            reads: tally.sum(|volume| vec![&volume.reads]).summary(),
            writes: tally.sum(|volume| vec![&volume.writes]).summary(),
            flushes: tally.sum(|volume| vec![&volume.flushes]).summary(),
            volumes: tally.volumes.iter().zip(self.facts).map(volume).collect(),
            elapsed_ns: elapsed.0,
            drain_ns: drain.0,
            requests_per_s: per_second(all.summary().requests),
            bytes_per_s: per_second(tally.bytes()),
            inflight_max: tally.inflight_max,
            played: tally.sent,
            saturated: self.saturation(player, drain, per_second(all.summary().requests)),
            headroom: None,
            failed: tally.failed,
            first_failure: tally.first_failure.clone(),
            fitted: player.fitted.get(),
            busy: devices.iter().map(|device| device.busy).reduce(f64::max),
            energy_j: is_model.then(|| devices.iter().map(|device| device.energy_j).sum()),
            price_usd: is_model.then(|| devices.iter().map(|device| device.price_usd).sum()),
            devices,
            layers: layers(player),
            known_errors: known_error::of(&self.candidate.spec),
            events: world.digest().map_or(0, |(_, events)| events),
            digest: world.digest().map(|(digest, _)| digest),
            cdf: all.cdf(),
            intervals: tally.intervals(),
            all: all.summary(),
            latencies: all,
        }
    }

    fn devices(&self, player: &Player, elapsed: Nanos) -> Vec<DeviceRun> {
        let stack = &player.stack;
        let before = |name: &str| player.begun.get()?.iter().find(|part| part.name == name)?.usage;
        let spec = |name: &str| self.candidate.spec.devices.iter().find(|device| device.name == name);
        let device = |part: PartStats| {
            let usage = part.usage?.since(&before(&part.name).unwrap_or_default());
            let size_bytes = stack.device(&part.name).map_or(0, |device| device.limits().size);
            Some(DeviceRun {
                product: spec(&part.name).and_then(Product::of),
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

    /// Why the stack counts as overloaded, if it does; it answered so many requests a second.
    fn saturation(&self, player: &Player, drain: Nanos, answered_per_s: f64) -> Option<String> {
        let (span, sent) = (self.span(), player.tally.borrow().sent);
        let total = self.counting.passes * self.facts.iter().map(|facts| facts.requests).sum::<u64>();
        let whole = span + self.speed.apply(self.counting.from);
        let cut = |at: Time, why: String| {
            let at = at.since(player.start);
            let came = sent as f64 / at.as_secs_f64();
            format!(
                "{why} {at} into a run of {whole}; cut off after {sent} of {total} requests: {came:.0} came a second and \
                 {answered_per_s:.0} were answered"
            )
        };
        match player.stop.get() {
            Some(Stop::Full(at)) => Some(cut(at, format!("{} requests were in flight", self.bounds.inflight_max))),
            Some(Stop::Late(at)) => Some(cut(at, format!("an answer took longer than {}", self.bounds.latency_max))),
            Some(Stop::Missed) => Some("too many requests took longer than the target".to_string()),
            None => self
                .falls_behind(drain)
                .then(|| format!("it needed {drain} after the last arrival of a run of {span} to answer what waited")),
        }
    }

    /// Whether a run that took so long after its last arrival fell behind.
    fn falls_behind(&self, drain: Nanos) -> bool {
        let share = drain.as_secs_f64() / self.span().as_secs_f64();
        self.load.is_open() && drain > DRAIN_MIN && share > DRAIN_SHARE
    }
}

/// What the layers tell of themselves, if they tell anything.
fn layers(player: &Player) -> Vec<LayerRun> {
    let begin = |part: &PartStats, name: &str| {
        let part = player.begun.get()?.iter().find(|before| before.name == part.name)?;
        part.stats.iter().find(|stat| stat.name == name).map(|stat| stat.value)
    };
    let layer = |part: PartStats| {
        let stat = |stat: &Stat| LayerStat { name: stat.name, begin: begin(&part, stat.name), end: stat.value };
        LayerRun { kind: part.kind, stats: part.stats.iter().map(stat).collect(), name: part.name.clone() }
    };
    let told = player.stack.stats().into_iter().filter(|part| part.usage.is_none() && !part.stats.is_empty());
    told.map(layer).collect()
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
        flushes: tally.flushes.summary(),
        read_bytes: tally.read_bytes,
        written_bytes: tally.written_bytes,
    }
}
