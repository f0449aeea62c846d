//! The whole comparison: look at the traces, choose the speed, play every candidate, judge.

use std::rc::Rc;
use std::sync::Arc;

use esker_base::{Nanos, Progress};
use esker_trace_block::{Record, Speed};

use crate::against::Older;
use crate::calibration::Calibration;
use crate::candidate::{Candidate, Making, MeasuredDisk, Volumes};
use crate::caveats::{self, Told};
use crate::error::PredictError;
use crate::facts::Facts;
use crate::feed::{Counting, Limit, RecordIter, Warm};
use crate::headroom::{self, Headroom};
use crate::input::{Loaded, Reel, Trace};
use crate::load::Load;
use crate::outcome::{CalibrationUsed, CandidateRun, Comparison, WRITTEN_BY};
use crate::pareto;
use crate::play::Play;
use crate::player::Bounds;
use crate::seats::{Seat, Seats};
use crate::speed::{self, SpeedChoice, SpeedFound};
use crate::teller::Teller;
use crate::verdict::{self, Verdict};

/// Is told how far a part is: a probe of the search for the speed, or a candidate. The requests of a candidate count on
/// under another name while its headroom is searched. May be called from several threads.
pub type Watch = Arc<dyn Fn(Progress<'_>) + Send + Sync>;

/// Requests in flight at which a candidate counts as saturated.
pub const INFLIGHT_MAX: u64 = 65_536;
/// The default target for the 99th percentile.
pub const TARGET_P99: Nanos = Nanos::millis(20);
/// The busy share of the first candidate at which the built-in traces are played.
pub const TARGET_BUSY: f64 = 0.7;

/// The default bound of the memory for records of traces, in bytes.
pub const MEMORY: u64 = 256 << 20;

/// An answer that takes longer, or ten times the target, tells that a candidate does not keep up.
const LATENCY_MAX: Nanos = Nanos::secs(60);
const LATENCY_MAX_TARGETS: u64 = 10;

/// Requests that one run of the search for headroom plays at most.
const HEADROOM_REQUESTS: u64 = 1 << 20;
/// The shortest such run, in multiples of the target.
const HEADROOM_TARGETS: u64 = 10;

/// What is to be compared, and how.
#[derive(Clone)]
pub struct ComparisonPlan {
    /// The traces; each of their volumes needs an export.
    pub traces: Vec<Trace>,
    /// The stacks; the default ones if there are none.
    pub candidates: Vec<Candidate>,
    /// Measured disks, which become candidates that hold the traces.
    pub disks: Vec<MeasuredDisk>,
    /// Seed of all random streams.
    pub seed: u64,
    /// How requests come.
    pub load: Load,
    /// How fast the traces are played at their recorded times.
    pub speed: SpeedChoice,
    /// What CPU and devices take, and the name of its file; without one, the manifests' estimates.
    pub calibration: Option<(String, Calibration)>,
    /// An older result to compare with.
    pub against: Option<Older>,
    /// Whether one export holds all volumes, one behind the other.
    pub joined: bool,
    /// How much of them is played.
    pub limit: Limit,
    /// Bytes of memory for the records of all traces; a trace that does not fit is decoded again for each pass.
    pub memory: u64,
    /// The most that the 99th percentile may be.
    pub target_p99: Nanos,
    /// Requests in flight at which a candidate counts as saturated and is cut off.
    pub inflight_max: u64,
    /// Whether the headroom of each candidate is searched.
    pub headroom: bool,
    /// How candidates are made for the traces, and what of those that are given is changed.
    pub making: Making,
    /// Whether each candidate is played twice and must give the same digest.
    pub verify: bool,
}

impl ComparisonPlan {
    /// The comparison of the built-in traces, at a speed at which they need more than one disk.
    pub fn embedded() -> ComparisonPlan {
        ComparisonPlan { speed: SpeedChoice::Busy(TARGET_BUSY), ..ComparisonPlan::of(Trace::embedded()) }
    }

    /// The comparison of these traces as they were recorded.
    pub fn of(traces: Vec<Trace>) -> ComparisonPlan {
        ComparisonPlan {
            traces,
            candidates: Vec::new(),
            disks: Vec::new(),
            seed: 1,
            load: Load::Open,
            calibration: None,
            against: None,
            speed: SpeedChoice::Factor(1.0),
            joined: false,
            limit: Limit::default(),
            memory: MEMORY,
            target_p99: TARGET_P99,
            inflight_max: INFLIGHT_MAX,
            headroom: false,
            making: Making::default(),
            verify: false,
        }
    }

    /// Does everything, one candidate after the other.
    ///
    /// # Errors
    /// See [`PredictError`].
    pub fn compare(self, watch: &Watch) -> Result<Comparison, PredictError> {
        let prepared = self.prepare(watch)?;
        prepared.check_built()?;
        let runs: Result<Vec<CandidateRun>, _> =
            (0..prepared.candidates().len()).map(|at| prepared.run(at, watch)).collect();
        Ok(prepared.conclude(runs?))
    }

    /// Looks at the traces, makes the default candidates if there are none, and finds the speed.
    ///
    /// # Errors
    /// An unreadable trace, a candidate with the wrong exports or that cannot be built, a speed that is none.
    pub fn prepare(mut self, watch: &Watch) -> Result<Prepared, PredictError> {
        if self.traces.is_empty() {
            return Err(PredictError::NoTraces);
        }
        self.load.check()?;
        if !(0.0..=1.0).contains(&self.making.fill) {
            return Err(PredictError::Fill(self.making.fill));
        }
        let loaded = self.loaded()?;
        let (mut facts, mut reels): (Vec<Facts>, Vec<Reel>) = (Vec::new(), Vec::new());
        for (trace, loaded) in self.traces.iter().zip(loaded) {
            let mut reel = Reel::new(trace, self.limit, self.load, facts.len(), loaded.records);
            reel.warm = loaded.facts.iter().map(|facts| facts.warm).sum();
            reels.push(reel);
            facts.extend(loaded.facts);
        }
        Facts::distinguish(&mut facts);
        let counting = self.counting(&facts)?;
        let Seats { seats, exports } = if self.joined { Seats::joined(&facts) } else { Seats::apart(&facts) };
        self.candidates = self.made_candidates(&exports)?;
        let mut prepared = Prepared { plan: self, reels, facts, seats, exports, counting, speed: None, first: None };
        prepared.check_sizes()?;
        (prepared.speed, prepared.first) = prepared.found_speed(watch)?;
        Ok(prepared)
    }

    /// Which requests count.
    fn counting(&self, facts: &[Facts]) -> Result<Counting, PredictError> {
        let last = Facts::last(facts);
        match self.limit.warm {
            Some(Warm::Span(warm)) if warm > last => Err(PredictError::AllWarm { warm, last }),
            warm => Ok(Counting::of(warm, last)),
        }
    }

    /// Loads the traces, in their order, while memory lasts. Traces without times are played in closed loop.
    fn loaded(&mut self) -> Result<Vec<Loaded>, PredictError> {
        let mut memory = self.memory;
        let mut load = |trace: &Trace| {
            let loaded = trace.load(&self.limit, self.load, memory)?;
            memory -= loaded.bytes();
            Ok(loaded)
        };
        let loaded = self.traces.iter().map(&mut load).collect::<Result<Vec<_>, PredictError>>()?;
        let untimed = loaded.iter().position(|loaded| !loaded.is_timed).filter(|_| self.load == Load::Open);
        if let Some(untimed) = untimed.map(|at| self.traces[at].name().to_string()) {
            if let Some(timed) = loaded.iter().position(|loaded| loaded.is_timed) {
                return Err(PredictError::Untimed { untimed, timed: self.traces[timed].name().to_string() });
            }
            if let SpeedChoice::Busy(_) = self.speed {
                return Err(PredictError::NoSpeed(untimed));
            }
            self.load = Load::ONE_CLIENT;
        }
        Ok(loaded)
    }

    /// The candidates that were given, or the default ones, and the measured disks.
    fn made_candidates(&self, facts: &[Facts]) -> Result<Vec<Candidate>, PredictError> {
        let mut candidates = match self.candidates.as_slice() {
            [] => Candidate::defaults(facts, &self.making)?,
            given => given.iter().map(|candidate| candidate.clone().filled(self.making.fill)).collect(),
        };
        for disk in &self.disks {
            candidates.push(Candidate::of_disk(disk, facts, &self.making)?);
        }
        check_outlets(&candidates, facts)?;
        Ok(candidates)
    }
}

/// Refuses candidates with mounts, and those with more or fewer exports than there are volumes.
fn check_outlets(candidates: &[Candidate], facts: &[Facts]) -> Result<(), PredictError> {
    if let Some(odd) = candidates.iter().find(|candidate| !candidate.spec.mounts.is_empty()) {
        return Err(PredictError::Mounts(odd.name.clone()));
    }
    if let Some(odd) = candidates.iter().find(|candidate| candidate.spec.exports.len() != facts.len()) {
        let (candidate, exports, volumes) = (odd.name.clone(), odd.spec.exports.len(), facts.len());
        let named = facts.iter().map(|facts| facts.volume.as_str()).collect::<Vec<_>>().join(", ");
        return Err(PredictError::Exports { candidate, exports, volumes, named });
    }
    Ok(())
}

/// A plan whose traces were looked at and whose speed is known. Its candidates can be played in any order, also by
/// several threads.
pub struct Prepared {
    plan: ComparisonPlan,
    reels: Vec<Reel>,
    facts: Vec<Facts>,
    /// Where each volume lies.
    seats: Vec<Seat>,
    /// What each export must serve.
    exports: Vec<Facts>,
    counting: Counting,
    speed: Option<SpeedFound>,
    /// The run of candidate 0 at that speed, if the search for the speed has played it.
    first: Option<CandidateRun>,
}

impl Prepared {
    /// The candidates.
    pub fn candidates(&self) -> &[Candidate] {
        &self.plan.candidates
    }

    /// Adds candidates that are made for what is known now: volumes and speed.
    ///
    /// # Errors
    /// A candidate with mounts, with the wrong exports, or smaller than the traces reach.
    pub fn add(&mut self, more: Vec<Candidate>) -> Result<(), PredictError> {
        check_outlets(&more, &self.exports)?;
        let fill = self.plan.making.fill;
        self.plan.candidates.extend(more.into_iter().map(|candidate| candidate.filled(fill)));
        self.check_sizes()
    }

    /// The volumes that the default candidates have.
    ///
    /// # Errors
    /// A trace that reaches further than the largest of them.
    pub fn volumes(&self) -> Result<Volumes, PredictError> {
        Volumes::usual(&self.exports, &self.plan.making)
    }

    /// What is in the traces, for each volume.
    pub fn facts(&self) -> &[Facts] {
        &self.facts
    }

    /// What each export must serve, by its number.
    pub fn exports(&self) -> &[Facts] {
        &self.exports
    }

    /// Tells the requests of a single pass over all traces in the order of their times. Each comes at its time at the
    /// speed of the plan. Its volume is the number of its export, and its offset is a byte of that export.
    ///
    /// # Errors
    /// An unreadable trace.
    pub fn visit_requests(&self, mut visit: impl FnMut(&Record)) -> Result<(), PredictError> {
        let speed = self.speed.as_ref().map_or(Speed::RECORDED, SpeedFound::speed);
        let mut feeds = self.reels.iter().map(Reel::once).collect::<Result<Vec<_>, _>>()?;
        let mut heads = feeds.iter_mut().map(RecordIter::next).collect::<Result<Vec<_>, _>>()?;
        loop {
            let earliest = heads.iter().enumerate().filter_map(|(at, head)| Some((head.as_ref()?.at, at))).min();
            let Some((_, at)) = earliest else { return Ok(()) };
            let next = feeds[at].next()?;
            let record = std::mem::replace(&mut heads[at], next).expect("the earliest one is there");
            let seat = self.seats[self.reels[at].first + record.volume as usize];
            let offset = record.offset.saturating_add(seat.base);
            visit(&Record { at: speed.apply(record.at), volume: seat.export as u32, offset, ..record });
        }
    }

    /// How fast they are played, at their recorded times.
    pub fn speed(&self) -> Option<&SpeedFound> {
        self.speed.as_ref()
    }

    /// Requests that are behind the watch when every candidate was played.
    pub fn requests(&self) -> u64 {
        (0..self.candidates().len()).map(|at| self.requests_of(at)).sum()
    }

    /// Those of candidate number `at`.
    fn requests_of(&self, at: usize) -> u64 {
        let candidate = &self.plan.candidates[at];
        let is_played = at == 0 && self.first.is_some();
        let runs = u64::from(self.plan.verify) + u64::from(!is_played);
        self.total(candidate) * runs + self.headroom_requests(candidate)
    }

    /// Which requests of a candidate's runs count.
    fn counting_of(&self, candidate: &Candidate) -> Counting {
        match self.counting {
            Counting::ALL if candidate.learns => Counting::of(Some(Warm::Once), Facts::last(&self.facts)),
            counting => counting,
        }
    }

    /// Requests of one run of a candidate.
    fn total(&self, candidate: &Candidate) -> u64 {
        self.counting_of(candidate).passes * self.facts.iter().map(|facts| facts.requests).sum::<u64>()
    }

    /// Requests of one run that count.
    fn counted(&self) -> u64 {
        self.facts.iter().map(|facts| facts.requests - facts.warm).sum()
    }

    /// Layers that learn have times that fit one speed, so they are not played at others.
    fn searches_headroom(&self, candidate: &Candidate) -> bool {
        self.plan.headroom && self.plan.load.is_open() && !candidate.learns
    }

    /// Most requests of one search for headroom.
    fn headroom_requests(&self, candidate: &Candidate) -> u64 {
        let each = || self.total(candidate).min(HEADROOM_REQUESTS);
        if self.searches_headroom(candidate) { headroom::PROBES_MAX * each() } else { 0 }
    }

    /// Plays candidate number `at`, unless the search for the speed has played it, and searches its headroom.
    ///
    /// # Errors
    /// A stack that cannot be built, an unreadable trace, requests that are never answered, two runs that differ.
    pub fn run(&self, at: usize, watch: &Watch) -> Result<CandidateRun, PredictError> {
        let candidate = &self.plan.candidates[at];
        let teller = Teller::new(watch, candidate.name.as_str(), self.requests_of(at));
        let play = || self.play(candidate, &self.reels, &teller).run();
        let mut run = match self.first.as_ref().filter(|_| at == 0) {
            Some(run) => run.clone(),
            None => play()?,
        };
        if self.plan.verify {
            let again = play()?;
            if again != run {
                let [first, second] = [run, again].map(|run| run.digest.unwrap_or_default());
                return Err(PredictError::Differs {
                    candidate: candidate.name.clone(),
                    seed: self.plan.seed,
                    first,
                    second,
                });
            }
        }
        if self.searches_headroom(candidate) {
            run.headroom = Some(self.headroom(candidate, &mut run, &teller)?);
        }
        teller.end();
        Ok(run)
    }

    /// Of a long trace only the beginning is played, again and again.
    fn headroom(
        &self,
        candidate: &Candidate,
        run: &mut CandidateRun,
        teller: &Rc<Teller>,
    ) -> Result<Headroom, PredictError> {
        teller.at(&format!("headroom of {}", candidate.name));
        let (target, total) = (self.plan.target_p99, self.counted());
        let share = HEADROOM_REQUESTS / self.reels.len() as u64;
        let is_long = total > HEADROOM_REQUESTS;
        let reels: Vec<Reel> = match is_long {
            true => self.reels.iter().map(|reel| reel.shortened(share)).collect(),
            false => self.reels.clone(),
        };
        let factor = self.speed.as_ref().map_or(1.0, |speed| speed.factor);
        let misses = Some((target, total.min(HEADROOM_REQUESTS) / 100));
        let mut searched = 0;
        let bears = |times: f64| {
            let Some(speed) = Speed::new(factor * times) else { return Ok(false) };
            let mut play = self.play(candidate, &reels, teller);
            (play.speed, play.bounds) = (speed, Bounds { misses, ..play.bounds });
            let (bears, sent) = play.bears(target)?;
            searched += sent;
            Ok(bears)
        };
        // At a speed at which all requests come within a few targets, a queue bears them and the device need not.
        let most = run.elapsed_ns as f64 / target.0.saturating_mul(HEADROOM_TARGETS).max(1) as f64;
        let found = Headroom::search(verdict::meets(run, target), most, bears)?;
        run.played += searched;
        Ok(Headroom { requests: is_long.then_some(share), ..found })
    }

    /// Builds every candidate once in virtual time, so that one that cannot be built is refused before others are
    /// played.
    ///
    /// # Errors
    /// The first one that cannot be built.
    pub fn check_built(&self) -> Result<(), PredictError> {
        let silent = Teller::silent();
        self.candidates().iter().try_for_each(|candidate| self.play(candidate, &self.reels, &silent).check_built())
    }

    /// Refuses candidates that are smaller than the traces reach. One that cannot be built is refused when it is
    /// played.
    fn check_sizes(&self) -> Result<(), PredictError> {
        if self.plan.making.wraps {
            return Ok(());
        }
        let silent = Teller::silent();
        self.candidates().iter().try_for_each(|candidate| self.play(candidate, &self.reels, &silent).check_sizes())
    }

    /// How fast the traces are played, and the run of candidate 0 at that speed if there was a search. Where recorded
    /// times do not matter there is no speed.
    fn found_speed(&self, watch: &Watch) -> Result<(Option<SpeedFound>, Option<CandidateRun>), PredictError> {
        if self.plan.load != Load::Open {
            return Ok((None, None));
        }
        let (found, run) = match self.plan.speed {
            SpeedChoice::Factor(factor) => (SpeedFound::given(factor)?, None),
            SpeedChoice::Busy(target) => {
                let first = &self.candidates()[0];
                let mut probe = 0;
                SpeedFound::search(&first.name, target, |factor| {
                    probe += 1;
                    let part = format!("probe {probe} of at most {}", speed::PROBES_MAX);
                    let teller = Teller::new(watch, part, self.total(first));
                    let mut play = self.play(first, &self.reels, &teller);
                    play.speed = SpeedFound::given(factor)?.speed();
                    let run = play.run()?;
                    teller.end();
                    Ok((run.busy, run))
                })?
            }
        };
        Ok((Some(found), run))
    }

    fn play<'a>(&'a self, candidate: &'a Candidate, reels: &'a [Reel], teller: &Rc<Teller>) -> Play<'a> {
        let plan = &self.plan;
        let latency_max = LATENCY_MAX.max(Nanos(plan.target_p99.0.saturating_mul(LATENCY_MAX_TARGETS)));
        Play {
            reels,
            facts: &self.facts,
            seats: &self.seats,
            exports: &self.exports,
            candidate,
            calibration: plan.calibration.as_ref().map(|(_, calibration)| calibration),
            seed: plan.seed,
            load: plan.load,
            speed: self.speed.as_ref().map_or(Speed::RECORDED, SpeedFound::speed),
            counting: self.counting_of(candidate),
            bounds: Bounds { inflight_max: plan.inflight_max, latency_max, misses: None },
            teller: teller.clone(),
        }
    }

    /// Plays candidate number `at` in real time, on real devices and paced models: what [`Prepared::run`] predicts.
    ///
    /// # Errors
    /// As [`Prepared::run`], and what the kernel refuses.
    pub fn run_realtime(&self, at: usize, watch: &Watch) -> Result<CandidateRun, PredictError> {
        let teller = Teller::new(watch, self.candidates()[at].name.as_str(), self.total(&self.candidates()[at]));
        self.play(&self.plan.candidates[at], &self.reels, &teller).run_realtime()
    }

    /// Judges the runs of all candidates, in their order.
    pub fn conclude(self, runs: Vec<CandidateRun>) -> Comparison {
        let remark = self.speed.as_ref().and_then(SpeedFound::remark);
        let verdict = Verdict::of(&runs, self.plan.target_p99, remark.as_deref());
        let (load, limit, fill) = (self.plan.load, &self.plan.limit, self.plan.making.fill);
        let learning: Vec<&str> =
            self.candidates().iter().filter(|one| one.learns).map(|one| one.name.as_str()).collect();
        let factor = self.speed.as_ref().map_or(1.0, |speed| speed.factor);
        let caveats = caveats::of(&Told { load, limit, fill, factor, learning, facts: &self.facts, runs: &runs });
        let calibration = self.plan.calibration.as_ref().map(|(name, calibration)| CalibrationUsed {
            name: name.clone(),
            machine: calibration.machine.clone(),
            measured: calibration.kinds.len() + calibration.devices.len(),
        });
        let mut comparison = Comparison {
            written_by: WRITTEN_BY,
            version: env!("CARGO_PKG_VERSION"),
            simulated: true,
            seed: self.plan.seed,
            joined: self.plan.joined,
            limit: self.plan.limit,
            verified: self.plan.verify,
            traces: self.facts,
            load: self.plan.load,
            speed: self.speed,
            calibration,
            pareto: pareto::front(&runs),
            against: None,
            runs,
            verdict,
            caveats,
        };
        comparison.against = self.plan.against.map(|older| older.compared(&comparison));
        comparison
    }
}
