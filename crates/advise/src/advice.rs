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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Played {
    /// Mean response, nanoseconds.
    pub mean_ns: f64,
    /// 95 % are faster.
    pub p95_ns: f64,
    /// 99 % are faster.
    pub p99_ns: f64,
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

fn span(ns: f64) -> Nanos {
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

/// Why the winner wins, and the best of the other uses does not.
fn reasons(told: &Told<'_>, rows: &[AdviceRow], winner: usize) -> Vec<String> {
    let (row, columns) = (&rows[winner], told.columns);
    let mut reasons = vec![use_of(row, columns)];
    let kind = |shape: &Shape| std::mem::discriminant(shape);
    let mut told_of = vec![kind(&row.shape)];
    for other in rows.iter().filter(|other| other.played.is_some()) {
        if told_of.contains(&kind(&other.shape)) {
            continue;
        }
        told_of.push(kind(&other.shape));
        reasons.push(against(told, row, best_of(rows, other, told)));
    }
    reasons.extend(plain_why(told, rows, row));
    if let Some(error) = screen_error(rows) {
        reasons.push(format!(
            "Screens of those that were played miss the 95th percentile by {:.0} % (median). Proposals that were only \
             screened are that uncertain.",
            error * 100.0
        ));
    }
    reasons
}

/// What its fast side does for it.
fn use_of(row: &AdviceRow, columns: &Columns) -> String {
    let share = row.screened.fast_share.unwrap_or(0.0) * 100.0;
    match &row.shape {
        Shape::Plain(_) => {
            let writes = columns.is_write.iter().filter(|is_write| **is_write).count() as f64;
            let random = columns.is_random.iter().filter(|is_random| **is_random).count() as f64;
            let all = columns.len() as f64;
            format!(
                "{:.0} % of the requests are writes and {:.0} % are random; outside long streams they use {}.",
                100.0 * writes / all,
                100.0 * random / all,
                size_human(columns.footprint())
            )
        }
        Shape::Cache { line, .. } => format!(
            "Lines of {} answer about {share:.0} % of the reads, because so many come back to what was used within the \
             cache's size ({} are used outside long streams).",
            size_human(LINES[*line]),
            size_human(columns.footprint())
        ),
        Shape::Both { line, extent, .. } => format!(
            "Lines of {} answer about {share:.0} % of the reads; below them, busy extents of {} lie on the rest of the \
             fast end.",
            size_human(LINES[*line]),
            size_human(*extent)
        ),
        Shape::Resting { .. } => format!(
            "The fast device takes all writes and answers about {share:.0} % of the reads, so the disk rests in between."
        ),
        Shape::Reorganised(_) => format!(
            "Pages that are asked for in turn lie side by side; {} are used outside long streams.",
            size_human(columns.footprint())
        ),
        Shape::Tier { extent, .. } => format!(
            "Extents of {} on the fast end serve about {share:.0} % of the reads; about {} move.",
            size_human(*extent),
            size_human(row.screened.moved_bytes)
        ),
    }
}

/// The best run of the same use as `like`.
fn best_of<'r>(rows: &'r [AdviceRow], like: &'r AdviceRow, told: &Told<'_>) -> &'r AdviceRow {
    let same = rows.iter().filter(|row| {
        row.played.is_some() && std::mem::discriminant(&row.shape) == std::mem::discriminant(&like.shape)
    });
    let key = |row: &&AdviceRow| {
        let played = row.played.as_ref().expect("only such rows are looked at");
        match told.question {
            Question::Target(target) => {
                let excess = target.excess(&played.responses());
                if excess <= 1.0 { (0.0, row.usd) } else { (excess, row.usd) }
            }
            Question::Budget(_) => (played.p95_ns, row.usd),
        }
    };
    same.min_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    })
    .unwrap_or(like)
}

fn against(told: &Told<'_>, winner: &AdviceRow, other: &AdviceRow) -> String {
    let played = other.played.as_ref().expect("only such rows are looked at");
    let p95 = span(played.p95_ns);
    match (&played.saturated, told.question) {
        (Some(why), _) => format!("{} does not keep up: {why}.", other.what),
        (None, Question::Target(target)) => match target.missed(&played.responses()).join(", ") {
            missed if missed.is_empty() => {
                format!("{} meets the target too, for ${:.0} more.", other.what, other.usd - winner.usd)
            }
            missed => format!("{} costs ${:.0}, and misses the target: its {missed}.", other.what, other.usd),
        },
        (None, Question::Budget(_)) => format!("{} has a p95 of {p95} for ${:.0}.", other.what, other.usd),
    }
}

/// That a cache or a tier was weighed if plain devices win.
fn plain_why(told: &Told<'_>, rows: &[AdviceRow], winner: &AdviceRow) -> Option<String> {
    let Shape::Plain(ends) = winner.shape else { return None };
    let is_only = rows.iter().all(|row| matches!(row.shape, Shape::Plain(_)));
    let name = &told.offers[ends.offer].name;
    Some(match is_only {
        true => {
            format!("No cache and no tier is proposed: no device is three times as fast as another one beside {name}.")
        }
        false => format!("{name} alone holds all of the data, so a second device would only add to the price."),
    })
}

/// Targets, or budgets, at which another proposal that was played would win.
fn changes(told: &Told<'_>, rows: &[AdviceRow], winner: usize) -> Vec<String> {
    let best = rows[winner].played.as_ref().expect("it was played");
    let sound: Vec<(&AdviceRow, &Played)> = rows
        .iter()
        .filter_map(|row| Some((row, row.played.as_ref()?)))
        .filter(|(row, played)| played.is_sound() && !std::ptr::eq(*row, &rows[winner]))
        .collect();
    let mut told_of = Vec::new();
    let cheaper = sound.iter().filter(|(row, _)| row.usd < rows[winner].usd);
    let faster = sound.iter().filter(|(_, played)| played.p95_ns < best.p95_ns);
    if let Some((row, played)) = cheaper.min_by(|a, b| a.1.p95_ns.total_cmp(&b.1.p95_ns)) {
        told_of.push(match told.question {
            Question::Target(_) => {
                format!(
                    "With a p95 of {} or more allowed, {} would do for ${:.0}.",
                    span(played.p95_ns),
                    row.what,
                    row.usd
                )
            }
            Question::Budget(_) => {
                format!("For ${:.0}, {} has a p95 of {}.", row.usd, row.what, span(played.p95_ns))
            }
        });
    }
    if let Some((row, played)) = faster.min_by(|a, b| a.0.usd.total_cmp(&b.0.usd)) {
        let (what, usd, p95) = (&row.what, row.usd, span(played.p95_ns));
        told_of.push(format!("A p95 below {} takes {what}: ${usd:.0} for {p95}.", span(best.p95_ns)));
    }
    if told_of.is_empty() {
        told_of.push("Nothing that was played is cheaper or faster.".to_string());
    }
    told_of
}

/// The median error of screens, as a share of what was played.
fn screen_error(rows: &[AdviceRow]) -> Option<f64> {
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
