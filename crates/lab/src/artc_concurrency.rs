//! `artc-concurrency`: LevelDB with four threads that look up random keys on a modelled disk, and how much of its
//! concurrency a replay on that disk keeps. Figures are calls under way at a time, the part of their time in which
//! threads are held back by others, and the length of the edges that hold them. Ids with `elsewhere` are of what was
//! recorded on flash and is replayed on the disk, compared with LevelDB itself on the disk. `root_rw` has readers and
//! writers in place of the sequential rules. Edges are those that the rules demand, as the source counts them; ids with
//! `kept` leave out those that others imply, for which no replay waits.

use esker_base::Nanos;
use esker_trace_order::compiled::Program;
use esker_trace_order::rules::Order;
use esker_trace_order::rules::schedule::{RuleCount, mean_length};
use esker_trace_replay::Report;

use crate::artc::leveldb::{LevelDb, Load, Task};
use crate::artc::mounted::{ModelDevice, Mounted};
use crate::artc::{How, prediction, replayed_cold, with_rw};
use esker_lab_kit::{Figure, Lab, LabError, timing};

/// Replays of a mode, of which the middle one counts.
const REPLAYS: u32 = 3;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (disk, flash) = (Mounted::ext4(lab, ModelDevice::FastDisk)?, Mounted::ext4(lab, ModelDevice::SlowFlash)?);
    let leveldb = LevelDb::new(lab, Load { threads: 4, reads: lab.scale(250, 1000), writes: 0, runs: 1 })?;
    let here = leveldb.original(Task::ReadRandom, &disk)?;
    let elsewhere = leveldb.original(Task::ReadRandom, &flash)?;
    let under_way = outstanding(&here.program);
    lab.say(format!("original: {under_way:.2} calls under way, {} ms", here.ms()));
    let mut figures = vec![Figure::alone("original_outstanding", under_way, "calls").paper(3.88)];
    for (mode, order, paper) in modes() {
        for (program, place, paper) in [(&here.program, "", paper), (&elsewhere.program, "_elsewhere", None)] {
            let name = format!("{mode}{place}");
            let [outstanding, held] = replays(&name, program, &disk, order, lab)?;
            let share = Figure::alone(format!("{name}_outstanding_share"), outstanding / under_way, "of the original");
            figures.push(share.paper(paper));
            figures.push(Figure::alone(format!("{name}_held_share"), held, "of the threads' time"));
        }
    }
    figures.extend(edges(&here.program));
    Ok(figures)
}

/// Modes, and the source's share of concurrency that they keep.
fn modes() -> [(&'static str, Order, Option<f64>); 3] {
    [
        ("root", prediction(), Some(0.94)),
        ("root_rw", with_rw(prediction()), None),
        ("temporal", Order::Temporal, Some(0.60)),
    ]
}

/// What a replay keeps of a program's concurrency: calls under way at a time, on average, and the part of the
/// threads' time in which they wait for others.
fn kept_of(report: &Report) -> [f64; 2] {
    let time = report.elapsed_ns.max(1) as f64 * report.threads.len().max(1) as f64;
    let held: u64 = report.threads.iter().map(|thread| thread.waiting_ns).sum();
    [report.outstanding_mean, held as f64 / time]
}

/// Medians of some replays.
fn replays(name: &str, program: &Program, on: &Mounted, order: Order, lab: &Lab<'_>) -> Result<[f64; 2], LabError> {
    timing::medians_of(REPLAYS, |_| {
        let report = replayed_cold(program, on, How::paced(order, lab.seed))?;
        let [outstanding, held] = kept_of(&report);
        let (ms, failures) = (report.elapsed_ns / 1_000_000, report.mismatches.count);
        lab.say(format!("{name}: {outstanding:.2} calls under way, {held:.2} held back, {ms} ms, {failures} failures"));
        Ok([outstanding, held])
    })
}

/// Calls under way in the trace, on average.
fn outstanding(program: &Program) -> f64 {
    let instants = program.outline().instants();
    let busy: u64 = instants.iter().map(|instant| instant.leave - instant.enter).sum();
    busy as f64 / program.about().elapsed_ns.max(1) as f64
}

/// How many edges the modes have, and how long they are in comparison with the last one's.
fn edges(program: &Program) -> Vec<Figure> {
    let counts = modes().map(|(mode, order, _)| (mode, program.schedule(order).total()));
    let mut figures = Vec::new();
    for (what, is_kept) in [("edges", false), ("kept_edges", true)] {
        for (mode, count) in &counts {
            let edges = if is_kept { count.kept } else { count.edges };
            let paper = [("root_edges", 6408.0), ("temporal_edges", 9135.0)];
            let id = format!("{mode}_{what}");
            let paper = paper.into_iter().find(|(of, _)| *of == id).map(|(_, edges)| edges);
            figures.push(Figure::alone(id, edges as f64, "edges").paper(paper));
        }
    }
    let [(_, root), (_, rw), (_, temporal)] = &counts;
    type Length = fn(&RuleCount) -> Nanos;
    let lengths: [(&str, Length, Option<f64>); 2] =
        [("edge_length_ratio", demanded, Some(890.0)), ("kept_edge_length_ratio", kept, None)];
    for (what, length, paper) in lengths {
        let over = |count| length(count).0 as f64 / length(temporal).0.max(1) as f64;
        let ratio = |id, count| Figure::alone(id, over(count), "ratio of mean lengths");
        figures.push(ratio(what.to_string(), root).paper(paper));
        figures.push(ratio(format!("rw_{what}"), rw));
    }
    figures
}

fn demanded(count: &RuleCount) -> Nanos {
    mean_length(count.length_ns, count.edges)
}

fn kept(count: &RuleCount) -> Nanos {
    mean_length(count.kept_length_ns, count.kept)
}
