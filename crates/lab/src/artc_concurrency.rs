//! `artc-concurrency`: four threads that read random blocks of many shared files on a modelled disk, and how much of their
//! concurrency a replay keeps: calls under way at a time, and how long the edges are that hold threads back.

use esker_replay::{Report, Speed};
use esker_trace::compiled::Program;
use esker_trace::rules::Order;

use crate::artc::mounted::{DISK, FileSystem, Mounted};
use crate::artc::readers::{Readers, Way};
use crate::artc::{How, compiled, replayed, root};
use crate::experiment::{Experiment, Figure, LabError, Options};
use crate::scratch;

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-concurrency",
    summary: "How much of a program's concurrency a replay keeps, and the lengths of the edges that limit it",
    source: "thesis on hardware-driven evolution, section 2.5.3, figures 2.13 and 2.14",
    simulated: false,
    rivals: &[],
    run,
};

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let mounted = Mounted::new("disk", FileSystem::Ext4, &format!("vol = {DISK}"), dir.path(), options.seed)?;
    let reads = if options.quick { 400 } else { 2000 };
    let program =
        Readers { threads: 4, reads, files: 200, own: false, bytes: 1 << 20, way: Way::Random, seed: options.seed };
    program.prepare(&mounted.run_dir())?;
    let ran = program.run(&mounted.run_dir())?;
    progress(&format!("original: {:.2} calls under way, {} ms", ran.outstanding, ran.elapsed_ns / 1_000_000));
    let compiled = compiled(ran.trace)?;
    let play = |order| {
        let how = How::plain(order, Speed::Scaled(1.0), options.seed);
        replayed(&compiled, &mounted.run_dir(), how)
    };
    let (ours, temporal) = (play(root())?, play(Order::Temporal)?);
    let share = |report: &Report| report.outstanding_mean / ran.outstanding;
    for report in [&ours, &temporal] {
        let (mode, elapsed, mean) = (&report.how.mode, report.elapsed_ns / 1_000_000, report.outstanding_mean);
        progress(&format!("{mode}: {mean:.2} calls under way, {elapsed} ms, {} failures", report.mismatches.count));
    }
    let (root_edges, length) = edges(&compiled, root());
    let (temporal_edges, temporal_length) = edges(&compiled, Order::Temporal);
    Ok(vec![
        Figure { paper: Some(3.88), ..Figure::alone("original_outstanding", ran.outstanding, "calls") },
        Figure { paper: Some(0.94), ..Figure::alone("root_outstanding_share", share(&ours), "of the original") },
        Figure {
            paper: Some(0.60),
            ..Figure::alone("temporal_outstanding_share", share(&temporal), "of the original")
        },
        Figure { paper: Some(6408.0), ..Figure::alone("root_edges", root_edges, "edges") },
        Figure { paper: Some(9135.0), ..Figure::alone("temporal_edges", temporal_edges, "edges") },
        Figure {
            paper: Some(890.0),
            ..Figure::alone("edge_length_ratio", length / temporal_length, "ratio of mean lengths")
        },
    ])
}

/// Edges that a replay waits for, and their mean length in ns.
fn edges(program: &Program, order: Order) -> (f64, f64) {
    let total = program.schedule(order).total();
    (total.kept as f64, total.kept_length_ns as f64 / total.kept.max(1) as f64)
}
