//! What the statistics of a generated trace are, against what its profile says that they should be.

use super::generator::Generator;
use super::profile::{Profile, ProfileError, Target};
use crate::source::Source;
use crate::stats::{BLOCK, EXTENT, Stats, Summary};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The figures of a trace that a profile may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Requests per second of the whole length.
    RequestsPerSecond,
    /// Part of the requests that are reads.
    ReadShare,
    /// Mean size of a request in bytes.
    MeanBytes,
    /// Part of the volumes' 1 MiB extents that are used.
    AccessedShare,
    /// Part of the uses that falls on the most used hundredth of the used extents.
    Top1Share,
    /// Part of the uses that falls on the most used fifth of the used extents.
    Top20Share,
    /// Part of the requests that continue their volume's last one exactly.
    NextShare,
    /// Part of the requests that start at most 1 MiB from the end of their volume's last one.
    WithinMibShare,
    /// Part of the requests that continue one of the 32 most recent streams exactly.
    StreamedShare,
    /// The exponent of Zipf's law that fits the extents.
    ZipfExponent,
    /// Part of the requests that go to some volumes.
    VolumeShare,
    /// Part of the requests in hours 0 to 11 of each day.
    FirstHalfShare,
    /// The hour of the day with most requests.
    PeakHour,
    /// Bytes that are read, ...
    ReadBytes,
    /// ... and written.
    WrittenBytes,
    /// Different 4 KiB blocks that are read, in bytes, ...
    ReadBlocks,
    /// ... and that are written.
    WrittenBlocks,
    /// Part of the volumes' 4 KiB blocks that are used.
    AccessedBlockShare,
    /// Part of the uses that falls on the most used fifth of the used 4 KiB blocks.
    Top20BlockShare,
    /// Part of the jumps that happen again ("partial determinism").
    RecurringJumpShare,
}

impl Figure {
    /// Whether it grows with the volumes and the number of requests.
    pub(super) fn grows(self) -> bool {
        matches!(
            self,
            Figure::RequestsPerSecond
                | Figure::ReadBytes
                | Figure::WrittenBytes
                | Figure::ReadBlocks
                | Figure::WrittenBlocks
        )
    }

    /// Its name as in a profile.
    pub fn name(self) -> &'static str {
        match self {
            Figure::RequestsPerSecond => "requests-per-second",
            Figure::ReadShare => "read-share",
            Figure::MeanBytes => "mean-bytes",
            Figure::AccessedShare => "accessed-share",
            Figure::Top1Share => "top1-share",
            Figure::Top20Share => "top20-share",
            Figure::NextShare => "next-share",
            Figure::WithinMibShare => "within-mib-share",
            Figure::StreamedShare => "streamed-share",
            Figure::ZipfExponent => "zipf-exponent",
            Figure::VolumeShare => "volume-share",
            Figure::FirstHalfShare => "first-half-share",
            Figure::PeakHour => "peak-hour",
            Figure::ReadBytes => "read-bytes",
            Figure::WrittenBytes => "written-bytes",
            Figure::ReadBlocks => "read-blocks",
            Figure::WrittenBlocks => "written-blocks",
            Figure::AccessedBlockShare => "accessed-block-share",
            Figure::Top20BlockShare => "top20-block-share",
            Figure::RecurringJumpShare => "recurring-jump-share",
        }
    }

    fn of(self, trace: &Measured<'_>, volume: Option<&str>) -> f64 {
        let summary = &trace.summary;
        let requests = (summary.requests as f64).max(1.0);
        match self {
            Figure::RequestsPerSecond => summary.requests as f64 / (trace.hours * 3_600.0),
            Figure::ReadShare => summary.read_share,
            Figure::MeanBytes => summary.bytes as f64 / requests,
            Figure::AccessedShare => summary.extents.unique as f64 / trace.extents(),
            Figure::Top1Share => summary.extents.top_1_share,
            Figure::Top20Share => summary.extents.top_20_share,
            Figure::NextShare => summary.sequential_share,
            Figure::WithinMibShare => summary.within_mib_share,
            Figure::StreamedShare => summary.streamed_share,
            Figure::ZipfExponent => summary.extents.zipf.map_or(f64::NAN, |fit| fit.exponent),
            Figure::VolumeShare => trace.requests_to(volume.unwrap_or("*")) / requests,
            Figure::FirstHalfShare => trace.hour_of_day()[..12].iter().sum::<u64>() as f64 / requests,
            Figure::PeakHour => trace.peak_hour(),
            Figure::ReadBytes => summary.reads.bytes as f64,
            Figure::WrittenBytes => summary.writes.bytes as f64,
            Figure::ReadBlocks => ((summary.blocks.read_only + summary.blocks.both) * BLOCK) as f64,
            Figure::WrittenBlocks => ((summary.blocks.written_only + summary.blocks.both) * BLOCK) as f64,
            Figure::AccessedBlockShare => (summary.blocks.unique * BLOCK) as f64 / trace.bytes(),
            Figure::Top20BlockShare => summary.blocks.top_20_share,
            Figure::RecurringJumpShare => summary.jumps.recurring_share,
        }
    }
}

/// A trace's statistics with what is needed to read them.
struct Measured<'a> {
    summary: Summary,
    profile: &'a Profile,
    hours: f64,
}

impl Measured<'_> {
    fn extents(&self) -> f64 {
        self.profile.volumes().iter().map(|(_, bytes)| bytes.div_ceil(EXTENT) as f64).sum()
    }

    fn bytes(&self) -> f64 {
        self.profile.volumes().iter().map(|(_, bytes)| *bytes as f64).sum()
    }

    fn requests_to(&self, volume: &str) -> f64 {
        let numbers = self.profile.numbers(volume);
        let some = self.summary.by_volume.iter().filter(|summary| numbers.contains(&summary.volume));
        some.map(|summary| summary.requests as f64).sum()
    }

    fn hour_of_day(&self) -> [u64; 24] {
        let mut requests = [0; 24];
        self.summary.hours.iter().for_each(|hour| requests[hour.number as usize % 24] += hour.requests);
        requests
    }

    fn peak_hour(&self) -> f64 {
        let requests = self.hour_of_day();
        let peak = requests.iter().enumerate().max_by_key(|(hour, requests)| (**requests, 24 - *hour));
        peak.map_or(0.0, |(hour, _)| hour as f64)
    }
}

/// How one figure came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Right,
    /// Not as it should be.
    Wrong,
    /// The trace has another length than the one for which the figure holds.
    NotJudged,
}

/// One figure: what it should be and what it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The figure, with the volumes if it is one of some.
    pub figure: String,
    /// What it should be.
    pub target: String,
    /// What it is.
    pub measured: f64,
    /// Whether that is right.
    pub verdict: Verdict,
}

/// All figures that a profile gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// One row for each target.
    pub rows: Vec<Row>,
    /// Requests in the trace.
    pub requests: u64,
    /// The figures of extents are exact if this is 1, otherwise estimated from one extent in so many.
    pub one_in: u64,
}

impl Calibration {
    /// Whether no figure came out wrong.
    pub fn is_right(&self) -> bool {
        self.rows.iter().all(|row| row.verdict != Verdict::Wrong)
    }
}

/// Generates a trace of `hours`, measures it and compares it with the targets of its profile. `progress` is told the
/// part that is done, now and then.
///
/// # Errors
/// As [`Generator::new`].
pub fn calibrate(
    name: &str,
    profile: &Profile,
    seed: u64,
    hours: f64,
    mut progress: impl FnMut(f64),
) -> Result<Calibration, ProfileError> {
    let mut generator = Generator::new(name, profile, seed, hours)?;
    let mut stats = Stats::new();
    let mut requests = 0u64;
    while let Ok(Some(record)) = generator.next_record() {
        stats.add(&record);
        requests += 1;
        if requests.is_multiple_of(1 << 16) {
            progress(record.at.as_secs_f64() / 3_600.0 / hours);
        }
    }
    let trace = Measured { summary: stats.summary(), profile, hours };
    let rows = profile.target.iter().map(|target| row(target, &trace)).collect();
    Ok(Calibration { rows, requests, one_in: trace.summary.extents.one_in })
}

fn row(target: &Target, trace: &Measured<'_>) -> Row {
    let measured = target.figure.of(trace, target.volume.as_deref());
    let is_right = target.is.is_none_or(|is| (measured - is).abs() <= target.within * is.abs())
        && target.at_least.is_none_or(|least| measured >= least)
        && target.at_most.is_none_or(|most| measured <= most);
    let verdict = match (target.over.is_none_or(|hours| (hours - trace.hours).abs() < 1e-9), is_right) {
        (false, _) => Verdict::NotJudged,
        (true, true) => Verdict::Right,
        (true, false) => Verdict::Wrong,
    };
    let of = target.volume.as_ref().map_or(String::new(), |volume| format!(" of {volume}"));
    Row { figure: format!("{}{of}", target.figure.name()), target: target.to_string(), measured, verdict }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounds = [("at least ", self.at_least), ("at most ", self.at_most)];
        let short = |value: f64| (value * 1e6).round() / 1e6;
        let is = self.is.map(|is| format!("{} ± {:.0} %", short(is), self.within * 100.0));
        let mut texts: Vec<String> = is.into_iter().collect();
        texts.extend(bounds.into_iter().filter_map(|(words, bound)| Some(format!("{words}{}", bound?))));
        texts.extend(self.over.map(|hours| format!("over {hours} h")));
        f.write_str(&texts.join(", "))
    }
}

impl fmt::Display for Calibration {
    /// A table with one figure to a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<26} {:<32} {:>12}", "figure", "target", "measured")?;
        for row in &self.rows {
            let verdict = match row.verdict {
                Verdict::Right => "right",
                Verdict::Wrong => "WRONG",
                Verdict::NotJudged => "another length: not judged",
            };
            write!(f, "\n{:<26} {:<32} {:>12.4}  {verdict}", row.figure, row.target, row.measured)?;
        }
        let exact =
            if self.one_in == 1 { String::new() } else { format!("; extents from a sample of 1 in {}", self.one_in) };
        write!(f, "\n{} requests{exact}", self.requests)
    }
}
