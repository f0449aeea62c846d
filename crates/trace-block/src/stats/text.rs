//! The figures as a table for people.

use super::summary::{OpCount, Summary, VolumeSummary};
use super::working_set::{Span, WorkingSet};
use super::zipf::ZipfFit;
use esker_base::Nanos;
use esker_base::units::size_human;
use std::fmt::{self, Formatter};

/// Volumes listed one by one; more are in the JSON only.
const LISTED: usize = 40;

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn ops(count: OpCount) -> String {
    format!("{} ({})", count.requests, size_human(count.bytes))
}

impl fmt::Display for Summary {
    /// A table with one figure to a line.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (name, value) in self.traffic().into_iter().chain(self.order()).chain(self.times()) {
            row(f, name, &value)?;
        }
        for (name, set) in [("blocks", &self.blocks), ("extents", &self.extents)] {
            set.rows(f, name)?;
        }
        f.write_str("sizes")?;
        for class in &self.sizes {
            write!(f, "\n  up to {:<12} {}", size_human(class.up_to_bytes), class.requests)?;
        }
        f.write_str("\ndistances to the transfer before")?;
        for class in &self.distances {
            write!(f, "\n  below {:<12} {}", size_human(class.below_bytes), class.requests)?;
        }
        if self.by_volume.len() > 1 { self.volumes(f) } else { Ok(()) }
    }
}

fn row(f: &mut Formatter<'_>, name: &str, value: &str) -> fmt::Result {
    writeln!(f, "{name:<18} {value}")
}

type Rows = Vec<(&'static str, String)>;

impl Summary {
    fn traffic(&self) -> Rows {
        vec![
            ("requests", self.requests.to_string()),
            ("volumes", self.volumes.to_string()),
            ("reads", format!("{}, {} of transfers", ops(self.reads), percent(self.read_share))),
            ("writes", ops(self.writes)),
            ("flushes", self.flushes.requests.to_string()),
            ("discards", ops(self.discards)),
            ("bytes moved", size_human(self.bytes)),
            ("duration", Nanos(self.duration_ns).to_string()),
            ("footprint", format!("{} in 4 KiB blocks", size_human(self.footprint_bytes))),
            ("span", format!("{}, up to {}", size_human(self.span_bytes), size_human(self.reach_bytes))),
        ]
    }

    fn order(&self) -> Rows {
        let streams = |one: f64, any: f64| format!("{}, in streams {}", percent(one), percent(any));
        let recurring = format!("{}, {} of them recur", self.jumps.requests, percent(self.jumps.recurring_share));
        vec![
            ("not 4 KiB aligned", percent(self.unaligned_share)),
            ("sequential", streams(self.sequential_share, self.streamed_share)),
            ("within 512 KiB", streams(self.near_share, self.near_stream_share)),
            ("within 1 MiB", percent(self.within_mib_share)),
            ("jumps", recurring),
        ]
    }

    fn times(&self) -> Rows {
        let gaps = &self.gaps;
        let mean = format!("{}, variation {:.2}", Nanos(gaps.mean_ns as u64), gaps.variation);
        vec![
            ("gap, mean", mean),
            ("gap, p50 p90 p99", format!("{}  {}  {}", Nanos(gaps.p50_ns), Nanos(gaps.p90_ns), Nanos(gaps.p99_ns))),
            ("gap, p99.9 max", format!("{}  {}", Nanos(gaps.p999_ns), Nanos(gaps.max_ns))),
            ("peak second", format!("{} requests, {}", self.peak_second.requests, size_human(self.peak_second.bytes))),
        ]
    }

    fn volumes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\nvolumes{:>22} {:>8} {:>12} {:>12} {:>10}",
            "requests", "reads", "footprint", "overlap", "streams"
        )?;
        for VolumeSummary { name, requests, read_share, footprint_bytes, overlap_bytes, near_stream_share, .. } in
            self.by_volume.iter().take(LISTED)
        {
            let (reads, streams) = (percent(*read_share), percent(*near_stream_share));
            let (footprint, overlap) = (size_human(*footprint_bytes), size_human(*overlap_bytes));
            write!(f, "\n  {name:<14} {requests:>12} {reads:>8} {footprint:>12} {overlap:>12} {streams:>10}")?;
        }
        match self.by_volume.len().saturating_sub(LISTED) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl WorkingSet {
    fn rows(&self, f: &mut Formatter<'_>, name: &str) -> fmt::Result {
        let size = |units: u64| size_human(units.saturating_mul(self.unit_bytes));
        let exact = if self.one_in == 1 { String::new() } else { format!(", estimated from 1 in {}", self.one_in) };
        row(f, name, &format!("{} of {}{exact}", self.unique, size_human(self.unit_bytes)))?;
        let kinds = format!("{}, {}, {}", size(self.read_only), size(self.written_only), size(self.both));
        row(f, "  read/wrote/both", &kinds)?;
        row(f, "  top 1 %, 20 %", &format!("{}, {} of uses", percent(self.top_1_share), percent(self.top_20_share)))?;
        row(f, "  Zipf's law", &self.zipf.map_or_else(|| "too few uses".to_string(), |fit| fit.to_string()))?;
        row(f, "  in an hour", &spans(&self.hours, size))?;
        if self.days.len() > 1 {
            row(f, "  in a day", &spans(&self.days, size))?;
        }
        Ok(())
    }
}

/// Mean size of the spans, and how much of it was in use in the span before. The last of several is cut off by the end
/// of the trace and left out of the mean.
fn spans(spans: &[Span], size: impl Fn(u64) -> String) -> String {
    let sum = |spans: &[Span], of: fn(&Span) -> u64| spans.iter().map(of).sum::<u64>();
    let whole = &spans[..spans.len().saturating_sub(1).max(spans.len().min(1))];
    let mean = size(sum(whole, |span| span.unique) / (whole.len() as u64).max(1));
    let largest = size(spans.iter().map(|span| span.unique).max().unwrap_or(0));
    match sum(spans.get(1..).unwrap_or(&[]), |span| span.unique) {
        0 => format!("{mean}, at most {largest}"),
        later => {
            let again = percent(sum(spans, |span| span.again) as f64 / later as f64);
            format!("{mean}, at most {largest}; {again} in the one before too")
        }
    }
}

impl fmt::Display for ZipfFit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ZipfFit { exponent, ranks, share, distance } = self;
        write!(f, "exponent {exponent:.2} over {ranks} ranks ({} of uses), distance {distance:.3}", percent(*share))
    }
}
