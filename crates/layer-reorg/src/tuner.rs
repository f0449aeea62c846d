//! The tuner: which interval and which share of the write buffer would have cost least.
//!
//! It replays the records of the last interval against nine settings, each on a disk of its own, and takes the best.

use std::collections::BTreeMap;

use esker_base::{Nanos, Time};
use esker_dev_sim::disk_model::{DiskModel, DiskSpec};

use crate::analyzer::{Analyzer, Bounds};
use crate::graph::AccessGraph;
use crate::layout::Slot;
use crate::miniature::Miniature;
use crate::planner::{Plan, WEIGHT_MIN, plan};
use crate::profile::AccessRecord;
use crate::{PAGE, ReorgParams};

/// Records that are kept at most: 24 MiB.
const RECORDS_MAX: usize = 1 << 20;
/// The disk on which settings are tried.
const PROFILE: &str = "hdd-7200-2021";

/// What the tuner may choose.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setting {
    /// Time between two plans.
    pub interval: Nanos,
    /// Share of the slots that take writes.
    pub write_buffer: f64,
}

impl Setting {
    /// Slots of plans.
    pub fn reads(&self, slots: Slot) -> Slot {
        slots - (f64::from(slots) * self.write_buffer).round() as Slot
    }
}

/// Gathers records and judges settings. It goes from worker to worker.
pub(crate) struct Tuner {
    model: DiskModel,
    home: u64,
    slots: Slot,
    settings: Vec<Setting>,
    longest: Nanos,
    records: Vec<AccessRecord>,
    /// What was known when the records began.
    master: AccessGraph,
    analyzer: Analyzer,
    begun: Option<Time>,
}

impl Tuner {
    pub(crate) fn new(params: &ReorgParams, slots: Slot) -> Tuner {
        let spec = DiskSpec::profile(PROFILE).expect("it is in the catalogue");
        // A disk that is just large enough, if such a disk can be.
        let fitting = DiskSpec { capacity: params.home + u64::from(slots) * PAGE, ..spec }.parts();
        let parts = fitting.or_else(|_| spec.parts()).expect("the catalogue describes disks");
        let (interval, share) = (params.interval, params.write_buffer);
        let settings = [(interval, share), (Nanos(interval.0 / 2), share), (Nanos(interval.0 / 4), share)];
        let shares = [1.0, 0.5, 2.0];
        let settings = shares
            .iter()
            .flat_map(|by| settings.map(|(interval, share)| Setting { interval, write_buffer: (share * by).min(0.9) }));
        Tuner {
            model: DiskModel::new(parts),
            home: params.home,
            slots,
            settings: settings.collect(),
            longest: interval,
            records: Vec::new(),
            master: AccessGraph::default(),
            analyzer: Analyzer::new(params.assoc, Bounds::default()),
            begun: None,
        }
    }

    /// Keeps records.
    pub(crate) fn note(&mut self, records: &[AccessRecord]) {
        let room = RECORDS_MAX - self.records.len();
        self.records.extend(&records[..records.len().min(room)]);
    }

    /// A plan was made at `now`. If the records are those of a whole interval, the setting that would have cost least;
    /// then new ones are gathered, behind what `analyzer` knows and `master` says.
    pub(crate) fn planned(&mut self, now: Time, analyzer: &Analyzer, master: &AccessGraph) -> Option<Setting> {
        let begun = *self.begun.get_or_insert(Time::ZERO);
        if now.since(begun) < self.longest {
            return None;
        }
        let best = self.best(begun, now);
        self.begun = Some(now);
        self.records.clear();
        self.master = master.clone();
        self.analyzer = analyzer.clone();
        best
    }

    fn best(&self, begun: Time, ended: Time) -> Option<Setting> {
        if self.records.is_empty() {
            return None;
        }
        let mut plans: BTreeMap<Slot, Plan> = BTreeMap::new();
        let mut judge = |setting: &Setting| {
            let reads = setting.reads(self.slots);
            let first = plans
                .entry(reads)
                .or_insert_with(|| plan(&self.master, u64::from(reads.saturating_sub(1)), WEIGHT_MIN));
            self.busy(setting, first, begun, ended)
        };
        // Where nothing was known before, a long interval would have had no plan at all: only shares are compared.
        let knows = !self.master.vertices().is_empty();
        let compared = self.settings.iter().filter(|setting| knows || setting.interval == self.longest);
        // Of equal settings the first one is taken.
        let judged = compared.map(|setting| (judge(setting), *setting));
        judged.min_by_key(|(busy, _)| *busy).map(|(_, setting)| setting)
    }

    fn busy(&self, setting: &Setting, first: &Plan, begun: Time, ended: Time) -> Nanos {
        let reads = setting.reads(self.slots);
        let mut mini = Miniature::new(&self.model, self.home, self.slots, reads, first);
        let mut analyzer = self.analyzer.clone();
        let (mut due, mut from) = (begun + setting.interval, 0);
        let mut replan = |mini: &mut Miniature<'_>, at: Time, records: &[AccessRecord]| {
            analyzer.learn(records);
            mini.reorganise(at, &plan(&analyzer.master(), u64::from(reads.saturating_sub(1)), WEIGHT_MIN));
            analyzer.age();
        };
        for (number, record) in self.records.iter().enumerate() {
            while record.at >= due && due < ended {
                replan(&mut mini, due, &self.records[from..number]);
                (due, from) = (due + setting.interval, number);
            }
            mini.serve(record);
        }
        // Each setting pays for its last plan, so that short intervals are not alone with what plans cost.
        replan(&mut mini, ended, &self.records[from..]);
        mini.busy()
    }
}
