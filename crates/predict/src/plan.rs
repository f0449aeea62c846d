//! The whole comparison: look at the traces, choose the speed, play every candidate, judge.

use std::sync::Arc;

use esker_base::Nanos;
use esker_blktrace::Speed;

use crate::against::Older;
use crate::calibration::Calibration;
use crate::candidate::{Candidate, MeasuredDisk};
use crate::error::PredictError;
use crate::load::Load;
use crate::outcome::{CalibrationUsed, Comparison, Run, WRITTEN_BY};
use crate::pareto;
use crate::replay::Play;
use crate::speed::{SpeedChoice, SpeedFound};
use crate::trace::{Facts, Limit, REPEAT_WINDOW, Trace};
use crate::verdict::Verdict;

/// Is told what is being worked on and how many more requests are behind it. May be called from several threads.
pub type Watch = Arc<dyn Fn(&str, u64) + Send + Sync>;

/// Requests in flight at which a candidate counts as saturated.
pub const INFLIGHT_MAX: u64 = 65_536;
/// The default target for the 99th percentile.
pub const TARGET_P99: Nanos = Nanos::millis(20);
/// The default busy share of the first candidate.
pub const TARGET_BUSY: f64 = 0.7;

/// Repeats above this share of a trace are worth a word.
const REPEATS_NOTED: f64 = 0.01;

/// What is to be compared, and how.
#[derive(Clone)]
pub struct Plan {
    /// The traces, one for each export.
    pub traces: Vec<Trace>,
    /// The stacks; the default ones if there are none.
    pub candidates: Vec<Candidate>,
    /// Measured disks, which become candidates that hold the traces.
    pub disks: Vec<MeasuredDisk>,
    /// Seed of all random streams.
    pub seed: u64,
    /// How requests come.
    pub load: Load,
    /// How fast the traces are played in open loop.
    pub speed: SpeedChoice,
    /// What CPU and devices take, and the name of its file; without one, the manifests' estimates.
    pub calibration: Option<(String, Calibration)>,
    /// An older result to compare with.
    pub against: Option<Older>,
    /// How much of them is played.
    pub limit: Limit,
    /// The most that the 99th percentile may be.
    pub target_p99: Nanos,
    /// Requests in flight above which the player waits.
    pub inflight_max: u64,
    /// Whether each candidate is played twice and must give the same digest.
    pub verify: bool,
}

impl Plan {
    /// The default comparison of these traces.
    pub fn of(traces: Vec<Trace>) -> Plan {
        Plan {
            traces,
            candidates: Vec::new(),
            disks: Vec::new(),
            seed: 1,
            load: Load::Open,
            calibration: None,
            against: None,
            speed: SpeedChoice::Busy(TARGET_BUSY),
            limit: Limit::default(),
            target_p99: TARGET_P99,
            inflight_max: INFLIGHT_MAX,
            verify: false,
        }
    }

    /// Does everything, one candidate after the other.
    ///
    /// # Errors
    /// See [`PredictError`].
    pub fn compare(self, watch: &Watch) -> Result<Comparison, PredictError> {
        let prepared = self.prepare(watch)?;
        let runs: Result<Vec<Run>, _> = (0..prepared.candidates().len()).map(|at| prepared.run(at, watch)).collect();
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
        let facts: Result<Vec<Facts>, _> = self.traces.iter().map(|trace| trace.scan(&self.limit, watch)).collect();
        let mut facts = facts?;
        Facts::distinguish(&mut facts);
        if self.candidates.is_empty() {
            self.candidates = Candidate::defaults(&facts);
        }
        let disks: Result<Vec<Candidate>, _> = self.disks.iter().map(|disk| Candidate::of_disk(disk, &facts)).collect();
        self.candidates.extend(disks?);
        let traces = self.traces.len();
        if let Some(odd) = self.candidates.iter().find(|candidate| candidate.spec.exports.len() != traces) {
            let (candidate, exports) = (odd.name.clone(), odd.spec.exports.len());
            return Err(PredictError::Exports { candidate, exports, traces });
        }
        self.load.check()?;
        let speed = self.found_speed(&facts, watch)?;
        Ok(Prepared { plan: self, facts, speed })
    }

    /// In closed loop there is none.
    fn found_speed(&self, facts: &[Facts], watch: &Watch) -> Result<Option<SpeedFound>, PredictError> {
        if self.load != Load::Open {
            return Ok(None);
        }
        let found = match self.speed {
            SpeedChoice::Factor(factor) => SpeedFound::given(factor),
            SpeedChoice::Busy(target) => {
                let first = &self.candidates[0];
                SpeedFound::search(&first.name, target, |factor| {
                    let speed = SpeedFound::given(factor)?;
                    Ok(self.play(facts, first, Some(&speed), watch).run()?.busy)
                })
            }
        };
        found.map(Some)
    }

    fn play<'a>(
        &'a self,
        facts: &'a [Facts],
        candidate: &'a Candidate,
        speed: Option<&SpeedFound>,
        watch: &'a Watch,
    ) -> Play<'a> {
        Play {
            traces: &self.traces,
            facts,
            candidate,
            calibration: self.calibration.as_ref().map(|(_, calibration)| calibration),
            seed: self.seed,
            load: self.load,
            speed: speed.map_or(Speed::RECORDED, SpeedFound::speed),
            limit: self.limit,
            inflight_max: self.inflight_max,
            watch,
        }
    }
}

/// A plan whose traces were looked at and whose speed is known. Its candidates can be played in any order, also by
/// several threads.
pub struct Prepared {
    plan: Plan,
    facts: Vec<Facts>,
    speed: Option<SpeedFound>,
}

impl Prepared {
    /// The candidates.
    pub fn candidates(&self) -> &[Candidate] {
        &self.plan.candidates
    }

    /// What is in the traces.
    pub fn facts(&self) -> &[Facts] {
        &self.facts
    }

    /// How fast they are played, in open loop.
    pub fn speed(&self) -> Option<&SpeedFound> {
        self.speed.as_ref()
    }

    /// Requests that are behind the watch when every candidate was played.
    pub fn requests(&self) -> u64 {
        let rounds = if self.plan.verify { 2 } else { 1 };
        self.facts.iter().map(|facts| facts.requests).sum::<u64>() * self.candidates().len() as u64 * rounds
    }

    /// Plays candidate number `at`.
    ///
    /// # Errors
    /// A stack that cannot be built, an unreadable trace, requests that are never answered, two runs that differ.
    pub fn run(&self, at: usize, watch: &Watch) -> Result<Run, PredictError> {
        let candidate = &self.plan.candidates[at];
        let play = || self.plan.play(&self.facts, candidate, self.speed.as_ref(), watch).run();
        let run = play()?;
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
        Ok(run)
    }

    /// Plays candidate number `at` in real time, on real devices and paced models: what [`Prepared::run`] predicts.
    ///
    /// # Errors
    /// As [`Prepared::run`], and what the kernel refuses.
    pub fn run_really(&self, at: usize, watch: &Watch) -> Result<Run, PredictError> {
        self.plan.play(&self.facts, &self.plan.candidates[at], self.speed.as_ref(), watch).run_really()
    }

    /// Judges the runs of all candidates, in their order.
    pub fn conclude(self, runs: Vec<Run>) -> Comparison {
        let verdict = Verdict::of(&runs, self.plan.target_p99);
        let caveats = self.caveats(&runs);
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

    /// What to know before quoting a figure.
    fn caveats(&self, runs: &[Run]) -> Vec<String> {
        let mut told = vec![
            "All times, energies and prices are simulated in virtual time. How far such predictions were from the truth \
             is told for each class of devices."
                .to_string(),
            self.load_caveat().to_string(),
            "Writes are answered from volatile write caches, and the traces hold no flush unless one is counted; data \
             that a cache still holds at the end is not written out."
                .to_string(),
        ];
        told.extend(self.facts.iter().filter_map(unaligned));
        told.extend(self.facts.iter().filter_map(|facts| self.repeats(facts)));
        let damage = |facts: &Facts| facts.damage.as_ref().map(|damage| format!("{}: {damage}", facts.name));
        told.extend(self.facts.iter().filter_map(damage));
        let fitted = |run: &Run| Some(run.fitted.text()).filter(|text| !text.is_empty());
        told.extend(runs.iter().filter_map(|run| Some(format!("{}: requests {}.", run.name, fitted(run)?))));
        told
    }

    fn load_caveat(&self) -> &'static str {
        match self.plan.load {
            Load::Open => {
                "Open loop: requests come at their recorded times divided by the speed, however slow the answers are. A \
                 real program that waits for answers would ask for less when a device is slow."
            }
            Load::Closed { .. } => {
                "Closed loop: a request comes when an earlier one is answered, so recorded times do not matter, and a \
                 faster stack is asked for more. Latencies count from the sending."
            }
        }
    }

    fn repeats(&self, facts: &Facts) -> Option<String> {
        let share = facts.repeats as f64 / facts.requests as f64;
        let handled = match self.plan.limit.dedup_window {
            None => "They were played as recorded; --dedup-window 1ms leaves them out.",
            Some(_) => "They remain although repeats inside the window were left out.",
        };
        (share > REPEATS_NOTED).then(|| {
            format!(
                "{}: {} of {} requests ({:.1} %) repeat range and operation of one less than {REPEAT_WINDOW} before, \
                 which is typical of a converter that kept both the queueing and the dispatch of a request. {handled}",
                facts.name,
                facts.repeats,
                facts.requests,
                share * 100.0
            )
        })
    }
}

fn unaligned(facts: &Facts) -> Option<String> {
    let share = facts.unaligned as f64 / facts.requests as f64;
    (facts.unaligned > 0).then(|| {
        format!(
            "{}: {} of {} requests ({:.1} %) do not begin and end at multiples of 4 KiB, the block of the models unless \
             they are told another. Over such blocks an unaligned read takes the whole blocks around it, and an unaligned \
             write pays for reading, changing and writing back those that it fills in part.",
            facts.name,
            facts.unaligned,
            facts.requests,
            share * 100.0
        )
    })
}
