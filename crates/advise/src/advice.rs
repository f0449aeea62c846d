//! What comes of it: which proposal answers the question, why, and what would change that.

use esker_base::Nanos;
use esker_base::units::size_human;
use esker_predict::deploy::{about_models, commented, over_files};
use esker_predict::{CandidateRun, Facts};
use esker_tiering::sizing::{self, Workload};
use esker_tiering::{Collector, Objective, Sheet, Smoothing, Transfers};
use serde::Serialize;

use crate::adviser::responses;
use crate::catalogue::Offer;
use crate::columns::{Columns, LINES};
use crate::error::AdviseError;
use crate::proposal::Shape;
use crate::question::{Question, Responses};
use crate::reasons::{changes, reasons};
use crate::screen::Screened;
use crate::service::Service;

/// The mark by which files of ours are known.
pub const WRITTEN_BY: &str = "esker advise";
/// Bytes of an extent in the sizing of tiers.
const EXTENT: u64 = 16 << 20;
/// Types of devices and extents up to which the least devices are searched on which each epoch packs.
const JOINT_TYPES: usize = 4;
const JOINT_EXTENTS: f64 = 65_536.0;
/// Epochs into which the traces are cut for it.
const EPOCHS: u64 = 12;

/// The whole advice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// [`WRITTEN_BY`].
    pub written_by: &'static str,
    /// Version of the program.
    pub version: &'static str,
    /// Always true: all times are virtual, or estimated.
    pub simulated: bool,
    /// Seed of all random streams.
    pub seed: u64,
    /// What was asked.
    pub question: String,
    /// How fast the traces were played.
    pub pace: String,
    /// The traces.
    pub traces: Vec<Facts>,
    /// Requests of which estimates are made, and those before and behind them that are only played.
    pub requests: [u64; 2],
    /// When the former begin, in nanoseconds since the start of the traces.
    pub window_begun_ns: u64,
    /// The best proposal; `None` if none answers the question.
    pub winner: Option<usize>,
    /// The answer in one sentence.
    pub headline: String,
    /// Why.
    pub reasons: Vec<String>,
    /// What would change it.
    pub changes: Vec<String>,
    /// What is missing, by dimension, if nothing answers the question.
    pub deficits: Vec<String>,
    /// Median of how far screens were from runs, by the 95th percentile; `None` without runs.
    pub screen_error: Option<f64>,
    /// Every proposal, the cheapest first.
    pub rows: Vec<AdviceRow>,
    /// What tiering alone would buy.
    pub sizing: TierSizing,
    /// The share of reads that LRU caches answer, with lines of 64 KiB: bytes and share.
    pub curve: Vec<(u64, f64)>,
}

/// A proposal with what is known of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdviceRow {
    /// Short name.
    pub name: String,
    /// What it is.
    pub what: String,
    /// How it is put together.
    pub shape: Shape,
    /// US dollars.
    pub usd: f64,
    /// Estimated.
    pub screened: Screened,
    /// Simulated, if it was played.
    pub played: Option<Played>,
    /// The whole run.
    #[serde(skip)]
    pub run: Option<CandidateRun>,
}

/// What a run gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Played {
    /// Mean response, nanoseconds.
    pub mean_ns: f64,
    /// 95 % are faster.
    pub p95_ns: f64,
    /// 99 % are faster.
    pub p99_ns: f64,
    /// The longest.
    pub max_ns: f64,
    /// Share of time at work of the busiest device.
    pub busy: f64,
    /// Joules of all devices.
    pub energy_j: f64,
    /// Bytes written to all devices.
    pub written_bytes: u64,
    /// Why the stack does not keep up, if it does not.
    pub saturated: Option<String>,
    /// Requests that failed.
    pub failed: u64,
    /// Digest of the run.
    pub digest: Option<String>,
}

impl Played {
    pub(crate) fn of(run: &CandidateRun) -> Played {
        Played {
            mean_ns: run.all.mean_ns as f64,
            p95_ns: run.all.p95_ns as f64,
            p99_ns: run.all.p99_ns as f64,
            max_ns: run.all.max_ns as f64,
            busy: run.busy.unwrap_or(0.0),
            energy_j: run.energy_j.unwrap_or(0.0),
            written_bytes: run.devices.iter().map(|device| device.written_bytes).sum(),
            saturated: run.saturated.clone(),
            failed: run.failed,
            digest: run.digest.clone(),
        }
    }

    /// Whether it keeps up and fails no request.
    pub fn is_sound(&self) -> bool {
        self.saturated.is_none() && self.failed == 0
    }

    pub(crate) fn responses(&self) -> Responses {
        Responses { mean_ns: self.mean_ns, p95_ns: self.p95_ns, p99_ns: self.p99_ns }
    }
}

/// How many devices of each type extent-based dynamic tiering needs, and what they cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierSizing {
    /// Names of the types.
    pub devices: Vec<String>,
    /// Whole devices of each.
    pub counts: Vec<u32>,
    /// The same without rounding.
    pub fractional: Vec<f64>,
    /// Needs of each epoch, by type, in devices.
    pub epochs: Vec<Vec<f64>>,
    /// US dollars of the whole devices, and without rounding.
    pub usd: [f64; 2],
    /// The least devices on which each epoch packs, if any do.
    pub joint: Option<Vec<u32>>,
}

/// What the advice is made of, beside the rows.
pub(crate) struct Told<'a> {
    pub question: Question,
    pub lacking_bytes: u64,
    pub least_usd: Option<f64>,
    pub traces: &'a [Facts],
    pub pace: String,
    pub columns: &'a Columns,
    pub offers: &'a [Offer],
    pub services: &'a [Service],
    pub growth: f64,
    pub seed: u64,
}

impl Advice {
    pub(crate) fn new(told: &Told<'_>, rows: Vec<AdviceRow>, winner: Option<usize>) -> Advice {
        let deficits = if winner.is_some() { Vec::new() } else { deficits(told, &rows) };
        Advice {
            written_by: WRITTEN_BY,
            version: env!("CARGO_PKG_VERSION"),
            simulated: true,
            seed: told.seed,
            question: told.question.to_string(),
            pace: told.pace.clone(),
            traces: told.traces.to_vec(),
            requests: [told.columns.len() as u64, told.columns.left_out],
            window_begun_ns: told.columns.begun,
            headline: headline(told, &rows, winner),
            reasons: winner.map_or(Vec::new(), |winner| reasons(told, &rows, winner)),
            changes: winner.map_or(Vec::new(), |winner| changes(told, &rows, winner)),
            deficits,
            screen_error: screen_error(&rows),
            sizing: sizing(told),
            curve: curve(told.columns),
            winner,
            rows,
        }
    }

    /// As one JSON object; equal advice gives equal bytes.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("no map in it has keys that are not texts")
    }

    /// The run of the best proposal.
    pub fn best(&self) -> Option<(&AdviceRow, &CandidateRun)> {
        let row = &self.rows[self.winner?];
        Some((row, row.run.as_ref()?))
    }

    /// The text of `stack.toml`: what was simulated, then the best stack over files. `None` without a best one.
    ///
    /// # Errors
    /// If the stack does not read back, which would be a bug.
    pub fn stack_toml(&self, folder: &str) -> Result<Option<String>, AdviseError> {
        let Some((row, run)) = self.best() else { return Ok(None) };
        let mut about = vec![
            format!("Written by {WRITTEN_BY} {}. Replaced by its next run in this folder.", self.version),
            row.what.clone(),
            format!("Predicted (simulated, virtual time), seed {}, digest {}:", self.seed, run.digest()),
            format!("p95 {}, p99 {}, {}", Nanos(run.all.p95_ns), run.all.p99(), self.pace),
        ];
        if let Some(error) = self.screen_error {
            about.push(format!(
                "Estimates of those that were not played miss the p95 by {:.0} % (median).",
                error * 100.0
            ));
        }
        about.extend(about_models(run));
        let spec = over_files(run, folder)?;
        Ok(Some(commented(&about, &spec)))
    }

    /// Proposals that were played, the cheapest first.
    pub fn played(&self) -> impl Iterator<Item = (usize, &AdviceRow, &Played)> {
        self.rows.iter().enumerate().filter_map(|(at, row)| Some((at, row, row.played.as_ref()?)))
    }
}

pub(crate) fn span(ns: f64) -> Nanos {
    Nanos(ns as u64)
}

fn headline(told: &Told<'_>, rows: &[AdviceRow], winner: Option<usize>) -> String {
    match (winner, told.question) {
        (Some(winner), Question::Target(target)) => {
            let (row, played) = (&rows[winner], rows[winner].played.as_ref().expect("it was played"));
            format!(
                "Buy {}: ${:.0}, the cheapest of {} proposals with a {target}; its p95 is {}.",
                row.what,
                row.usd,
                rows.len(),
                span(played.p95_ns)
            )
        }
        (Some(winner), Question::Budget(usd)) => {
            let (row, played) = (&rows[winner], rows[winner].played.as_ref().expect("it was played"));
            format!(
                "Buy {}: ${:.0} of ${usd}, the lowest p95 of {} proposals, {}.",
                row.what,
                row.usd,
                rows.len(),
                span(played.p95_ns)
            )
        }
        (None, question) => format!("Nothing that can be bought answers this: {question}."),
    }
}

fn deficits(told: &Told<'_>, rows: &[AdviceRow]) -> Vec<String> {
    let mut lacks = Vec::new();
    if told.lacking_bytes > 0 {
        lacks.push(format!(
            "room: {} are missing even with as many devices of one type as can be bought",
            size_human(told.lacking_bytes)
        ));
    }
    if let (Question::Budget(usd), Some(least)) = (told.question, told.least_usd)
        && least > usd
    {
        lacks.push(format!(
            "price: the cheapest devices that hold the data cost ${least}, ${} above ${usd}",
            least - usd
        ));
    }
    let played = || rows.iter().filter_map(|row| Some((row, row.played.as_ref()?)));
    if let Question::Target(target) = told.question {
        let sound = played().filter(|(_, played)| played.is_sound());
        let excess = |played: &Played| target.excess(&played.responses());
        if let Some((row, nearest)) = sound.min_by(|a, b| excess(a.1).total_cmp(&excess(b.1))) {
            let missed = target.missed(&nearest.responses()).join(", ");
            lacks.push(format!("time: the nearest of those that were played is {}, whose {missed}", row.what));
        }
    }
    lacks.extend(
        played()
            .filter_map(|(row, played)| {
                Some(format!("load: {} is saturated, {}", row.what, played.saturated.as_ref()?))
            })
            .take(3),
    );
    if lacks.is_empty() {
        lacks.push("devices: no proposal fits; allow more of them in the catalogue".to_string());
    }
    lacks
}

/// The median error of screens, as a share of what was played.
pub(crate) fn screen_error(rows: &[AdviceRow]) -> Option<f64> {
    let error = |row: &AdviceRow| {
        let played = row.played.as_ref().filter(|played| played.is_sound())?;
        Some((responses(&row.screened).p95_ns - played.p95_ns).abs() / played.p95_ns.max(1.0))
    };
    let mut errors: Vec<f64> = rows.iter().filter_map(error).collect();
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied()
}

fn curve(columns: &Columns) -> Vec<(u64, f64)> {
    let (line, most) = (2, columns.footprint().max(LINES[2]));
    let sizes = (0..16).map(|step| (most >> (15 - step)).max(LINES[line]));
    sizes.map(|bytes| (bytes, columns.read_hits(line, bytes))).collect()
}

/// The adviser of the thesis on extending storage, section 3.4.4, on the devices of the catalogue.
fn sizing(told: &Told<'_>) -> TierSizing {
    let columns = told.columns;
    let (extents, length) = (columns.reach.div_ceil(EXTENT).max(1), (columns.span_ns() / EPOCHS).max(1));
    let smoothing = Smoothing { alpha: 1.0, transfers: Transfers::Sequential };
    let mut collector = Collector::new(u32::try_from(extents).unwrap_or(u32::MAX), smoothing);
    let (mut epochs, mut end) = (Vec::new(), length);
    for row in 0..columns.len() {
        while columns.at[row] >= end {
            collector.roll_over(length as f64 / 1e9);
            epochs.push(collector.in_use());
            end += length;
        }
        let extent = (columns.offset[row] / EXTENT) as u32;
        collector.count(extent, columns.bytes[row].into(), columns.is_random[row]);
    }
    let sheets: Vec<Sheet> =
        told.offers.iter().zip(told.services).map(|(offer, service)| service.sheet(offer)).collect();
    let growth = told.growth;
    let load = Workload { extent_bytes: EXTENT as f64, extents, epochs: &epochs, growth };
    let sizes = sizing::edt(&sheets, &load, Objective::Cost);
    let is_small = sheets.len() <= JOINT_TYPES && extents as f64 * growth <= JOINT_EXTENTS;
    TierSizing {
        devices: told.offers.iter().map(|offer| offer.name.clone()).collect(),
        epochs: sizes.epochs.iter().map(|needs| needs.iter().map(|need| need.devices()).collect()).collect(),
        usd: [sizes.usd(&sheets), sizes.usd_fractional(&sheets)],
        joint: is_small.then(|| sizing::joint(&sheets, &load, Objective::Cost)).flatten(),
        counts: sizes.counts,
        fractional: sizes.fractional,
    }
}
