//! A report for people at a terminal.

use std::fmt::Write;

use esker_base::Nanos;
pub use esker_base::units::percent_human as percent;
use esker_base::units::size_human;
use esker_report::table;

use super::{Report, Simulated, ThreadTime};

/// Threads and types of calls that the text lists.
const LISTED: usize = 20;
/// Mismatches that the text lists.
const MISMATCHES: usize = 10;

/// A span of nanoseconds for people.
pub fn span(ns: u64) -> String {
    Nanos(ns).to_string()
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
    let row = |one: &ThreadTime| {
        let ThreadTime { thread, actions, busy_ns, waiting_ns, delay_ns, idle_ns, .. } = one;
        let spans = [busy_ns, waiting_ns, delay_ns, idle_ns].map(|ns| span(*ns));
        [thread.to_string(), actions.to_string()].into_iter().chain(spans).collect()
    };
    let rows: Vec<Vec<String>> = report.threads.iter().take(LISTED).map(row).collect();
    let names = ["thread", "actions", "in calls", "waiting", "delayed", "idle"];
    writeln!(out, "\n{}", table(&names, &rows, None))?;
    more(out, report.threads.len(), LISTED, "threads")?;
    let rows = report.calls.iter().take(LISTED).map(|call| {
        let spans = call.percentiles_ns.map(span);
        [call.call.clone(), call.count.to_string(), span(call.total_ns)].into_iter().chain(spans).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let names = ["call", "count", "in all", "p10", "p50", "p95", "p99"];
    writeln!(out, "\n{}", table(&names, &rows, None))?;
    more(out, report.calls.len(), LISTED, "types of calls")?;
    let rows = report.categories.iter();
    let rows = rows.map(|one| vec![one.name.to_string(), percent(one.share), span(one.time_ns)]);
    writeln!(out, "\n{}", table(&[], &rows.collect::<Vec<_>>(), None))
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
