//! How figures are written for people, in the terminal as on the page.

use esker_base::Nanos;

use crate::against::Difference;
use crate::outcome::{Latency, Run};

/// The columns of the comparison: a short title, and what the title means.
pub const COLUMNS: [(&str, &str); 13] = [
    ("candidate", "name of the stack"),
    ("read p50", "half of the reads are answered within this time"),
    ("p95", "95 % of the reads"),
    ("p99", "99 % of the reads"),
    ("p99.9", "99.9 % of the reads"),
    ("write p50", "half of the writes are answered within this time"),
    ("p95", "95 % of the writes"),
    ("p99", "99 % of the writes"),
    ("p99.9", "99.9 % of the writes"),
    ("MB/s", "bytes read and written, by the time to the last answer"),
    ("busy", "share of the time in which the busiest device worked"),
    ("energy", "joules of all devices"),
    ("price", "US dollars of all devices"),
];

/// The cells of one candidate, in the order of [`COLUMNS`].
pub fn cells(run: &Run) -> [String; COLUMNS.len()] {
    let [r50, r95, r99, r999] = percentiles(&run.reads);
    let [w50, w95, w99, w999] = percentiles(&run.writes);
    let mark = if run.saturated.is_some() { " (saturated)" } else { "" };
    [
        format!("{}{mark}", run.name),
        r50,
        r95,
        r99,
        r999,
        w50,
        w95,
        w99,
        w999,
        format!("{:.2}", run.bytes_per_s / 1e6),
        run.busy.map_or("-".to_string(), percent),
        run.energy_j.map_or("-".to_string(), energy),
        run.price_usd.map_or("-".to_string(), |usd| format!("${usd:.0}")),
    ]
}

/// Then, now, and now by then.
pub fn changed(difference: &Difference) -> [String; 3] {
    let value = |x: f64| match difference.unit {
        "ns" => Nanos(x as u64).to_string(),
        "B/s" => format!("{:.2} MB/s", x / 1e6),
        "1/s" => format!("{x:.1}/s"),
        "J" => energy(x),
        "USD" => format!("${x:.0}"),
        _ => percent(x),
    };
    let ratio = difference.ratio.map_or("-".to_string(), |ratio| format!("{ratio:.3} times"));
    [value(difference.old), value(difference.new), ratio]
}

fn percentiles(latency: &Latency) -> [String; 4] {
    [latency.p50_ns, latency.p95_ns, latency.p99_ns, latency.p999_ns].map(|ns| match latency.requests {
        0 => "-".to_string(),
        _ => Nanos(ns).to_string(),
    })
}

/// A share.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Joules.
pub fn energy(joules: f64) -> String {
    if joules >= 1000.0 { format!("{:.2} kJ", joules / 1000.0) } else { format!("{joules:.1} J") }
}
