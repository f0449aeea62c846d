//! A report for people at a terminal.

use std::fmt::Write;

use esker_base::Nanos;
use esker_base::units::{size_human, span_text};

use super::{Report, Simulated, ThreadTime};

/// Threads and types of calls that the text lists.
const LISTED: usize = 20;
/// Mismatches that the text lists.
const MISMATCHES: usize = 10;

/// A span of nanoseconds for people.
pub fn span(ns: u64) -> String {
    let scale = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    match scale.into_iter().find(|(unit, _)| ns >= *unit) {
        Some((unit, name)) => format!("{:.3}{name}", ns as f64 / unit as f64),
        None => span_text(Nanos(ns)),
    }
}

/// A share as a percentage.
pub fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}

/// What a report predicts, in a few lines.
pub fn prediction(report: &Report) -> String {
    let mut out = format!("{} on {} ({})\n", report.trace, report.target.dir, report.target.file_system);
    elapsed(&mut out, report).expect("a string takes all text");
    report.left_out.warning().into_iter().for_each(|what| out += &format!("warning: {what}\n"));
    out
}

/// The whole report.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    head(&mut out, report).and_then(|()| times(&mut out, report)).expect("a string takes all text");
    deviations(&mut out, report).expect("a string takes all text");
    out
}

fn head(out: &mut String, report: &Report) -> std::fmt::Result {
    let how = &report.how;
    writeln!(out, "{} on {} ({})", report.trace, report.target.dir, report.target.file_system)?;
    writeln!(
        out,
        "mode {}, rules {}, speed {}, fsync {}, exchange {}",
        how.mode, how.rules, how.speed, how.fsync, how.exchange
    )?;
    if let Some(Simulated { seed, cpus, costs, tree, digest }) = &report.simulated {
        writeln!(out, "simulated    in virtual time, {cpus} CPUs, seed {seed}; events {digest}, tree {tree}")?;
        writeln!(out, "costs        {costs}")?;
    }
    if let Some(init) = &report.init {
        writeln!(
            out,
            "initial tree ({}): {} of {} entries made, {} changed, {} removed, {} written in {}",
            init.mode,
            init.made,
            init.entries,
            init.changed,
            init.removed,
            size_human(init.bytes),
            span(init.elapsed_ns)
        )?;
        init.notes.iter().try_for_each(|note| writeln!(out, "  note: {note}"))?;
    }
    elapsed(out, report)?;
    writeln!(
        out,
        "outstanding  {:.2} calls on average (traced {:.2})",
        report.outstanding_mean, report.traced_outstanding_mean
    )?;
    writeln!(
        out,
        "mismatches   {} of {} ({})",
        report.mismatches.count,
        report.mismatches.compared,
        percent(report.failure_share())
    )?;
    let tree = &report.tree_differences;
    match &tree.not_compared {
        Some(why) => writeln!(out, "tree         not compared: {why}"),
        None => writeln!(out, "tree         {} differences of {} names", tree.count, tree.compared),
    }
}

fn elapsed(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "elapsed      {} (traced {})", span(report.elapsed_ns), span(report.traced_ns))?;
    if let [_, _, ..] = report.repeats_ns.as_slice() {
        let all: Vec<String> = report.repeats_ns.iter().map(|ns| span(*ns)).collect();
        writeln!(out, "repetitions  {}", all.join(" "))?;
    }
    writeln!(out, "behaviour    {}", report.behaviour)?;
    predicted(out, report)
}

fn predicted(out: &mut String, report: &Report) -> std::fmt::Result {
    let lines = report.prediction.as_ref().map(|prediction| prediction.text()).unwrap_or_default();
    let none = report.no_prediction.iter().map(|why| format!("none: {why}"));
    let mut titles = std::iter::once("prediction").chain(std::iter::repeat(""));
    lines.into_iter().chain(none).try_for_each(|line| writeln!(out, "{:<13}{line}", titles.next().unwrap_or_default()))
}

fn times(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(
        out,
        "\n{:<24}{:>10}{:>12}{:>12}{:>12}{:>12}",
        "thread", "actions", "in calls", "waiting", "delayed", "idle"
    )?;
    for thread in report.threads.iter().take(LISTED) {
        let ThreadTime { thread, actions, busy_ns, waiting_ns, delay_ns, idle_ns, .. } = thread;
        let spans = [busy_ns, waiting_ns, delay_ns, idle_ns].map(|ns| span(*ns));
        writeln!(out, "{thread:<24}{actions:>10}{:>12}{:>12}{:>12}{:>12}", spans[0], spans[1], spans[2], spans[3])?;
    }
    more(out, report.threads.len(), LISTED, "threads")?;
    writeln!(
        out,
        "\n{:<24}{:>10}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "call", "count", "in all", "p10", "p50", "p95", "p99"
    )?;
    for call in report.calls.iter().take(LISTED) {
        let [p10, p50, p95, p99] = call.percentiles_ns.map(span);
        let (name, count, all) = (&call.call, call.count, span(call.total_ns));
        writeln!(out, "{name:<24}{count:>10}{all:>12}{p10:>12}{p50:>12}{p95:>12}{p99:>12}")?;
    }
    more(out, report.calls.len(), LISTED, "types of calls")?;
    writeln!(out)?;
    for category in &report.categories {
        writeln!(out, "{:<24}{:>10}{:>12}", category.name, percent(category.share), span(category.time_ns))?;
    }
    Ok(())
}

fn deviations(out: &mut String, report: &Report) -> std::fmt::Result {
    report.left_out.warning().iter().try_for_each(|what| writeln!(out, "warning: {what}"))?;
    for adapted in &report.adapted {
        writeln!(out, "adapted: {} ({} times)", adapted.what, adapted.count)?;
    }
    for one in report.mismatches.listed.iter().take(MISMATCHES) {
        writeln!(
            out,
            "mismatch: action {} of {}: {}: expected {}, got {}",
            one.action, one.thread, one.call, one.expected, one.actual
        )?;
    }
    more(out, report.mismatches.count as usize, MISMATCHES, "mismatches")?;
    for one in report.tree_differences.listed.iter().take(MISMATCHES) {
        writeln!(out, "differs: {}: expected {}, got {}", one.path, one.expected, one.actual)?;
    }
    more(out, report.tree_differences.count as usize, MISMATCHES, "differences of the tree")?;
    report.stopped.iter().try_for_each(|why| writeln!(out, "stopped: {why}"))
}

fn more(out: &mut String, all: usize, listed: usize, what: &str) -> std::fmt::Result {
    match all.checked_sub(listed) {
        Some(more) if more > 0 => writeln!(out, "({more} more {what} in the JSON and HTML reports)"),
        _ => Ok(()),
    }
}
