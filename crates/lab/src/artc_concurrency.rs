//! `artc-concurrency`: LevelDB with four threads that look up random keys on a modelled disk, and how much of its concurrency a
//! replay on the same disk keeps: calls under way at a time, and how long the edges are that hold threads back. `root_rw` has
//! readers and writers in place of the sequential rules.

use esker_replay::{Report, Speed};
use esker_trace::compiled::Program;
use esker_trace::rules::Order;

use crate::artc::leveldb::{LevelDb, Load, PYTHON, Task};
use crate::artc::mounted::{DISK, FileSystem, Mounted};
use crate::artc::{How, prediction, replayed_cold, with_rw};
use crate::experiment::{Experiment, Figure, LabError, Options};
use crate::scratch;

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-concurrency",
    summary: "How much of LevelDB's concurrency a replay keeps, and the lengths of the edges that limit it",
    source: "thesis on hardware-driven evolution, section 2.5.3, figures 2.13 and 2.14",
    simulated: false,
    rivals: &[PYTHON, "mkfs.ext4"],
    run,
};

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let mounted = Mounted::new("disk", FileSystem::Ext4, &format!("vol = {DISK}"), dir.path(), options.seed)?;
    let reads = if options.quick { 250 } else { 1000 };
    let leveldb = LevelDb::new(dir.path(), Load { threads: 4, reads, writes: 0, runs: 1, seed: options.seed })?;
    let original = leveldb.original(Task::ReadRandom, &mounted)?;
    let under_way = outstanding(&original.program);
    progress(&format!("original: {under_way:.2} calls under way, {} ms", (original.elapsed_ns / 1e6) as u64));
    let modes = [("root", prediction()), ("root_rw", with_rw(prediction())), ("temporal", Order::Temporal)];
    let mut shares = Vec::new();
    for (mode, order) in modes {
        let how = How::plain(order, Speed::Scaled(1.0), options.seed);
        let Report { elapsed_ns, outstanding_mean, mismatches, .. } = replayed_cold(&original.program, &mounted, how)?;
        let (ms, failures) = (elapsed_ns / 1_000_000, mismatches.count);
        progress(&format!("{mode}: {outstanding_mean:.2} calls under way, {ms} ms, {failures} failures"));
        shares.push(outstanding_mean / under_way);
    }
    let [root, rw, temporal] = modes.map(|(_, order)| edges(&original.program, order));
    let share = |id, at: usize, paper| Figure { paper, ..Figure::alone(id, shares[at], "of the original") };
    let count = |id, edges: (f64, f64), paper| Figure { paper, ..Figure::alone(id, edges.0, "edges") };
    let ratio = |id, edges: (f64, f64), paper| Figure {
        paper,
        ..Figure::alone(id, edges.1 / temporal.1, "ratio of mean lengths")
    };
    Ok(vec![
        Figure { paper: Some(3.88), ..Figure::alone("original_outstanding", under_way, "calls") },
        share("root_outstanding_share", 0, Some(0.94)),
        share("root_rw_outstanding_share", 1, None),
        share("temporal_outstanding_share", 2, Some(0.60)),
        count("root_edges", root, Some(6408.0)),
        count("root_rw_edges", rw, None),
        count("temporal_edges", temporal, Some(9135.0)),
        ratio("edge_length_ratio", root, Some(890.0)),
        ratio("rw_edge_length_ratio", rw, None),
    ])
}

/// Calls under way in the trace, on average.
fn outstanding(program: &Program) -> f64 {
    let instants = program.outline().instants();
    let busy: u64 = instants.iter().map(|instant| instant.leave - instant.enter).sum();
    busy as f64 / program.about().elapsed_ns.max(1) as f64
}

/// Edges that a replay waits for, and their mean length in ns.
fn edges(program: &Program, order: Order) -> (f64, f64) {
    let total = program.schedule(order).total();
    (total.kept as f64, total.kept_length_ns as f64 / total.kept.max(1) as f64)
}
