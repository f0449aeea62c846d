//! Sums, percentiles and samples of many calls.

use super::{CallTime, Category, PERCENTILES, SAMPLES};
use std::collections::BTreeMap;

use esker_trace_calls::call::Category as Kind;

/// One call that was made: its type, and its span in nanoseconds in the replay and in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Name of the call.
    pub call: &'static str,
    /// Its category.
    pub category: Kind,
    /// Whether it may wait for other threads.
    pub waits: bool,
    /// Issue.
    pub issue_ns: u64,
    /// End.
    pub done_ns: u64,
    /// Nanoseconds that it took in the trace.
    pub traced_ns: u64,
}

impl Span {
    fn took_ns(&self) -> u64 {
        self.done_ns - self.issue_ns
    }
}

/// Latencies by type of call, the most expensive first.
pub fn by_call(spans: &[Span]) -> Vec<CallTime> {
    let mut types: BTreeMap<&str, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    for span in spans {
        let (now, then) = types.entry(span.call).or_default();
        now.push(span.took_ns());
        then.push(span.traced_ns);
    }
    let mut calls: Vec<CallTime> = types.into_iter().map(|(call, (now, then))| call_time(call, now, then)).collect();
    calls.sort_by_key(|call| std::cmp::Reverse(call.total_ns));
    calls
}

fn call_time(call: &str, mut now: Vec<u64>, mut then: Vec<u64>) -> CallTime {
    now.sort_unstable();
    then.sort_unstable();
    CallTime {
        call: call.to_string(),
        count: now.len() as u64,
        total_ns: now.iter().sum(),
        traced_total_ns: then.iter().sum(),
        percentiles_ns: PERCENTILES.map(|p| percentile(&now, p)),
        traced_percentiles_ns: PERCENTILES.map(|p| percentile(&then, p)),
    }
}

/// The smallest of `sorted` that at least `p` percent do not exceed; 0 of none.
pub fn percentile(sorted: &[u64], p: u32) -> u64 {
    let rank = (sorted.len() as u64 * u64::from(p)).div_ceil(100).max(1) as usize;
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// Thread time by category, the largest first.
pub fn by_category(spans: &[Span]) -> Vec<Category> {
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    for span in spans {
        *times.entry(span.category.name()).or_default() += span.took_ns();
    }
    let all: u64 = times.values().sum();
    let category = |(name, time_ns): (&str, u64)| Category {
        name: name.to_string(),
        time_ns,
        share: time_ns as f64 / all.max(1) as f64,
    };
    let mut categories: Vec<Category> = times.into_iter().map(category).collect();
    categories.sort_by_key(|category| std::cmp::Reverse(category.time_ns));
    categories
}

/// Calls under way at a time, on average over `elapsed_ns`.
pub fn outstanding_mean(busy_ns: u64, elapsed_ns: u64) -> f64 {
    busy_ns as f64 / elapsed_ns.max(1) as f64
}

/// Calls under way at equidistant instants of the time from 0 to `elapsed_ns`.
pub fn outstanding(spans: &[Span], elapsed_ns: u64) -> Vec<u32> {
    let samples = SAMPLES as u64;
    let instants: Vec<u64> = (0..samples).map(|sample| elapsed_ns * (2 * sample + 1) / (2 * samples)).collect();
    let first = |ns: u64| instants.partition_point(|instant| *instant < ns);
    let mut changes = vec![0i64; SAMPLES + 1];
    for span in spans {
        changes[first(span.issue_ns)] += 1;
        changes[first(span.done_ns)] -= 1;
    }
    let mut under_way = 0;
    let sums = changes[..SAMPLES].iter().map(|change| {
        under_way += change;
        u32::try_from(under_way).expect("a call ends after its issue")
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(call: &'static str, issue_ns: u64, done_ns: u64) -> Span {
        let category = if call == "fsync" { Kind::Sync } else { Kind::Read };
        Span { call, category, waits: false, issue_ns, done_ns, traced_ns: 7 }
    }

    #[test]
    fn percentiles_are_measured_values() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(PERCENTILES.map(|p| percentile(&hundred, p)), [10, 50, 95, 99]);
        assert_eq!(percentile(&[5], 10), 5);
        assert_eq!(percentile(&[], 50), 0);
    }

    #[test]
    fn categories_sum_to_the_whole() {
        let categories = by_category(&[span("read", 0, 30), span("fsync", 10, 80), span("read", 40, 40)]);
        assert_eq!(categories[0].name, "fsync");
        assert_eq!(categories.iter().map(|category| category.time_ns).sum::<u64>(), 100);
        assert!((categories.iter().map(|category| category.share).sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn calls_are_told_by_type() {
        let calls = by_call(&[span("read", 0, 30), span("read", 0, 10), span("close", 5, 6)]);
        assert_eq!((calls[0].call.as_str(), calls[0].count, calls[0].total_ns), ("read", 2, 40));
        assert_eq!(calls[0].percentiles_ns, [10, 10, 30, 30]);
        assert_eq!(calls[1].traced_total_ns, 7);
    }

    #[test]
    fn outstanding_calls_are_sampled() {
        let sampled = outstanding(&[span("read", 0, 1000), span("read", 500, 1000)], 1000);
        assert_eq!(sampled.len(), SAMPLES);
        assert_eq!((sampled[0], sampled[SAMPLES / 2 - 1], sampled[SAMPLES / 2], sampled[SAMPLES - 1]), (1, 1, 2, 2));
        assert!((outstanding_mean(1500, 1000) - 1.5).abs() < 1e-9);
    }
}
