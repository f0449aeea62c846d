//! How figures are written for people, in the terminal as on the page.

use esker_base::Nanos;

use crate::against::Difference;
use crate::outcome::{CandidateRun, Latency};

/// A column of the comparison.
pub(super) struct Column {
    /// Short title.
    pub title: &'static str,
    /// What the title means.
    pub means: &'static str,
    /// What it says of a candidate.
    pub cell: fn(&CandidateRun) -> String,
}

const fn column(title: &'static str, means: &'static str, cell: fn(&CandidateRun) -> String) -> Column {
    Column { title, means, cell }
}

/// Percentiles of one operation.
const READS: [Column; 4] = [
    column("read p50", "half of the reads are answered within this time", |run| span(&run.reads, |l| l.p50_ns)),
    column("p95", "95 % of the reads", |run| span(&run.reads, |l| l.p95_ns)),
    column("p99", "99 % of the reads", |run| span(&run.reads, |l| l.p99_ns)),
    column("p99.9", "99.9 % of the reads", |run| span(&run.reads, |l| l.p999_ns)),
];
const WRITES: [Column; 4] = [
    column("write p50", "half of the writes are answered within this time", |run| span(&run.writes, |l| l.p50_ns)),
    column("p95", "95 % of the writes", |run| span(&run.writes, |l| l.p95_ns)),
    column("p99", "99 % of the writes", |run| span(&run.writes, |l| l.p99_ns)),
    column("p99.9", "99.9 % of the writes", |run| span(&run.writes, |l| l.p999_ns)),
];
const FLUSHES: [Column; 4] = [
    column("flush p50", "half of the flushes are answered within this time", |run| span(&run.flushes, |l| l.p50_ns)),
    column("p95", "95 % of the flushes", |run| span(&run.flushes, |l| l.p95_ns)),
    column("p99", "99 % of the flushes", |run| span(&run.flushes, |l| l.p99_ns)),
    column("p99.9", "99.9 % of the flushes", |run| span(&run.flushes, |l| l.p999_ns)),
];

/// The columns for these runs: operations that do not occur have none, and percentiles number `left_out` of the others
/// neither.
pub(super) fn columns(runs: &[CandidateRun], left_out: Option<usize>) -> Vec<Column> {
    let occurs = |latency: fn(&CandidateRun) -> &Latency| runs.iter().any(|run| latency(run).requests > 0);
    let operations =
        [(READS, occurs(|run| &run.reads)), (WRITES, occurs(|run| &run.writes)), (FLUSHES, occurs(|run| &run.flushes))];
    let mut columns = vec![column("candidate", "name of the stack", name)];
    for (percentiles, _) in operations.into_iter().filter(|(_, occurs)| *occurs) {
        columns.extend(
            percentiles.into_iter().enumerate().filter(|(at, _)| Some(*at) != left_out).map(|(_, column)| column),
        );
    }
    let throughput = "bytes read and written, by the time to the last answer";
    columns.push(column("MB/s", throughput, |run| format!("{:.2}", run.bytes_per_s / 1e6)));
    columns.push(column("busy", "share of the time in which the busiest device had work", |run| {
        run.busy.map_or("-".to_string(), percent)
    }));
    if runs.iter().any(|run| run.headroom.is_some()) {
        columns.push(column("headroom", "how many times this load it bears within the target", |run| {
            run.headroom.map_or("-".to_string(), |headroom| headroom.text())
        }));
    }
    columns.push(column("energy", "joules of all devices; ~: rests on estimated figures of power", |run| {
        run.energy_j.map_or("-".to_string(), |joules| energy(joules, run.energy_is_estimated()))
    }));
    columns.push(column("price", "US dollars of all devices", |run| {
        run.price_usd.map_or("-".to_string(), |usd| format!("${usd:.0}"))
    }));
    columns
}

fn name(run: &CandidateRun) -> String {
    format!("{}{}", run.name, if run.saturated.is_some() { " (saturated)" } else { "" })
}

fn span(latency: &Latency, percentile: fn(&Latency) -> u64) -> String {
    if latency.requests == 0 { "-".to_string() } else { Nanos(percentile(latency)).to_string() }
}

/// The products of all candidates, each once: maker, model and capacity, price and its year.
pub(super) fn products(runs: &[CandidateRun]) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for device in runs.iter().flat_map(|run| &run.devices) {
        let Some(product) = &device.product else { continue };
        let year = product.price_year.map_or("as given".to_string(), |year| format!("in {year}"));
        let line = format!("{}: {}; ${:.0} {year}", product.profile, product.name, device.price_usd);
        if !told.contains(&line) {
            told.push(line);
        }
    }
    told
}

/// Then, now, and now by then.
pub(super) fn changed(difference: &Difference) -> [String; 3] {
    let value = |x: f64| match difference.unit {
        "ns" => Nanos(x as u64).to_string(),
        "B/s" => format!("{:.2} MB/s", x / 1e6),
        "1/s" => format!("{x:.1}/s"),
        "J" => energy(x, false),
        "USD" => format!("${x:.0}"),
        _ => percent(x),
    };
    let ratio = difference.ratio.map_or("-".to_string(), |ratio| format!("{ratio:.3} times"));
    [value(difference.old), value(difference.new), ratio]
}

/// A share.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Joules, marked if they rest on an estimate.
pub(super) fn energy(joules: f64, is_estimated: bool) -> String {
    let mark = if is_estimated { "~" } else { "" };
    if joules >= 1000.0 { format!("{mark}{:.2} kJ", joules / 1000.0) } else { format!("{mark}{joules:.1} J") }
}
