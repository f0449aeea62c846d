//! `artc-semantics`: how many calls come out otherwise than traced, in each mode of replay, on the generated patterns
//! of Apple's desktop programs and on the recorded traces that the project has. `root_rw` has readers and writers in
//! place of the sequential rules. As fast as possible, caches as they are: the largest count of the repetitions, as
//! the source has it. `--quick` plays each trace once, and less of what is generated.

use esker_base::Nanos;
use esker_trace_calls::generate::{Shape, apple_desktop};
use esker_trace_order::compiled::Program;
use esker_trace_order::rules::Order;
use esker_trace_replay::report::{Mismatch, Mismatches};
use esker_trace_replay::{InitMode, Speed};

use crate::artc::{How, compiled, replayed, root, suite, with_rw};
use esker_lab_kit::{Figure, Lab, LabError};

/// Repetitions, as in the source; the short form has one.
const REPEAT: u32 = 5;
/// In the order in which they are played, with the source's failures.
const MODES: [(&str, Option<f64>); 5] = [
    ("unconstrained", Some(1_405_249.0)),
    ("temporal", Some(64.0)),
    ("single", Some(64.0)),
    ("root", Some(68.0)),
    ("root_rw", None),
];
/// Without an order, readers of pipes may wait for what was written to others, until nothing has happened for so long.
const PATIENCE: Nanos = Nanos::secs(2);

/// Failures of one trace by mode, and of how many calls.
struct Row {
    name: String,
    calls: u64,
    failures: [Mismatches; 5],
}

impl Row {
    fn count(&self, mode: usize) -> u64 {
        self.failures[mode].count
    }

    fn by_mode(&self) -> impl Iterator<Item = (&'static str, &Mismatches)> {
        MODES.iter().map(|(mode, _)| *mode).zip(&self.failures)
    }

    /// The calls that failed in one of the modes that keep an order and not in another, as far as reports list them.
    fn apart(&self) -> Vec<String> {
        let ordered: Vec<_> = self.by_mode().skip(1).collect();
        let has = |mismatches: &Mismatches, action| mismatches.listed.iter().any(|one| one.action == action);
        let everywhere = |action| ordered.iter().all(|(_, mismatches)| has(mismatches, action));
        let text = |mode: &str, one: &Mismatch| {
            let Mismatch { action, thread, call, expected, actual } = one;
            let (name, at) = (&self.name, format!("action {action} of {thread}: {call}"));
            format!("{name}, not in all orders, in {mode}: {at}: expected {expected}, got {actual}")
        };
        let of = |(mode, mismatches): &(&str, &Mismatches)| {
            let alone = mismatches.listed.iter().filter(|one| !everywhere(one.action));
            alone.map(|one| text(mode, one)).collect::<Vec<_>>()
        };
        ordered.iter().flat_map(of).collect()
    }
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let mut rows = Vec::new();
    for (name, program) in programs(lab)? {
        let row = measure(&name, &program, lab)?;
        let by_mode = row.by_mode().map(|(mode, failures)| format!("{mode} {}", failures.count));
        lab.say(format!("{}: {} calls, {}", row.name, row.calls, by_mode.collect::<Vec<_>>().join(", ")));
        row.apart().iter().for_each(|line| lab.say(line));
        rows.push(row);
    }
    let sum = |mode: usize| rows.iter().map(|row| row.count(mode)).sum::<u64>() as f64;
    let apart = rows.iter().map(|row| row.count(3).abs_diff(row.count(1))).max().unwrap_or(0);
    let share = |row: &Row| row.count(0) as f64 / row.calls.max(1) as f64;
    let mut figures = vec![
        Figure::alone("traces", rows.len() as f64, "traces"),
        Figure::alone("root_minus_temporal_failures", apart as f64, "calls, largest of all traces").paper(4.0),
    ];
    let failures = MODES.iter().enumerate();
    figures.extend(
        failures.map(|(at, (mode, paper))| Figure::alone(format!("{mode}_failures"), sum(at), "calls").paper(*paper)),
    );
    let worst = rows.iter().map(share).fold(0.0, f64::max);
    figures.push(Figure::alone("unconstrained_worst_share", worst, "share").paper(0.531));
    Ok(figures)
}

fn measure(name: &str, program: &Program, lab: &Lab<'_>) -> Result<Row, LabError> {
    let repeat = lab.scale(1, REPEAT);
    let mut row = Row { name: name.to_string(), calls: 0, failures: Default::default() };
    let orders = [Order::Unconstrained, Order::Temporal, Order::Single, root(), with_rw(root())];
    for (at, order) in orders.into_iter().enumerate() {
        let how = How { init: InitMode::Full, repeat, patience: PATIENCE, ..How::plain(order, Speed::Afap, lab.seed) };
        // Of its own: a call that was given up in an earlier order may still make a file.
        let dir = lab.folder()?;
        let report = replayed(program, dir.path(), how)?;
        row.calls = row.calls.max(report.mismatches.compared);
        row.failures[at] = report.mismatches;
    }
    Ok(row)
}

/// Generated traces, and recorded ones in the order of their names.
fn programs(lab: &Lab<'_>) -> Result<Vec<(String, Program)>, LabError> {
    let shapes: &[(u32, u32)] =
        if lab.quick { &[(4, 40), (8, 120)] } else { &[(2, 40), (4, 200), (8, 400), (16, 800)] };
    let mut programs = Vec::new();
    for (number, (threads, scripts)) in shapes.iter().enumerate() {
        let shape = Shape { seed: lab.seed + number as u64, threads: *threads, scripts: *scripts };
        programs.push((format!("apple, {threads} threads"), compiled(apple_desktop(shape))?));
    }
    programs.into_iter().map(Ok).chain(suite::programs(None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_fail_in_one_ordered_mode_alone_are_told() {
        let of = |actions: &[u64]| {
            let one = |action: &u64| Mismatch {
                action: *action,
                thread: "7".to_string(),
                call: "stat(\"/f\")".to_string(),
                expected: "0".to_string(),
                actual: "ENOENT".to_string(),
            };
            let listed: Vec<Mismatch> = actions.iter().map(one).collect();
            Mismatches { count: listed.len() as u64, listed, ..Mismatches::default() }
        };
        let row = Row {
            name: "t".to_string(),
            calls: 9,
            failures: [of(&[1, 2, 8]), of(&[3]), of(&[3]), of(&[3, 5]), of(&[3])],
        };
        assert_eq!(row.apart(), ["t, not in all orders, in root: action 5 of 7: stat(\"/f\"): expected 0, got ENOENT"]);
    }
}
