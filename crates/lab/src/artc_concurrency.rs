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
use esker_trace_replay::{Report, Speed};

use crate::artc::leveldb::{LevelDb, Load, PYTHON, Task};
use crate::artc::mounted::{DISK, FLASH, FileSystem, Mounted};
use crate::artc::{How, prediction, replayed_cold, with_rw};
use esker_lab_kit::{Experiment, Figure, LabError, Options, scratch, timing};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-concurrency",
    summary: "How much of LevelDB's concurrency a replay keeps, and the lengths of the edges that limit it",
    source: "thesis on hardware-driven evolution, section 2.5.3, figures 2.13 and 2.14",
    simulated: false,
    rivals: &[PYTHON, "mkfs.ext4"],
    run,
};

/// Replays of a mode, of which the middle one counts.
const REPLAYS: u32 = 3;

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let dir = scratch::folder(&options.scratch)?;
    let mount =
        |name, device: &str| Mounted::new(name, FileSystem::Ext4, &format!("vol = {device}"), dir.path(), options.seed);
    let (disk, flash) = (mount("disk", DISK)?, mount("flash", FLASH)?);
    let reads = if options.quick { 250 } else { 1000 };
    let leveldb = LevelDb::new(dir.path(), Load { threads: 4, reads, writes: 0, runs: 1, seed: options.seed })?;
    let here = leveldb.original(Task::ReadRandom, &disk)?;
    let elsewhere = leveldb.original(Task::ReadRandom, &flash)?;
    let under_way = outstanding(&here.program);
    progress(&format!("original: {under_way:.2} calls under way, {} ms", (here.elapsed_ns / 1e6) as u64));
    let mut figures = vec![Figure::alone("original_outstanding", under_way, "calls").paper(3.88)];
    for Mode { order, shares, shares_elsewhere, paper } in modes() {
        for (program, ids, paper) in [(&here.program, shares, paper), (&elsewhere.program, shares_elsewhere, None)] {
            let name = ids.0.trim_end_matches("_outstanding_share");
            let kept = replays(program, &disk, order, options, &mut |text| progress(&format!("{name}: {text}")))?;
            let share = kept.outstanding / under_way;
            figures.push(Figure::alone(ids.0, share, "of the original").paper(paper));
            figures.push(Figure::alone(ids.1, kept.held, "of the threads' time"));
        }
    }
    figures.extend(edges(&here.program));
    Ok(figures)
}

/// A mode, and the ids of what its replays keep of concurrency.
struct Mode {
    order: Order,
    shares: (&'static str, &'static str),
    shares_elsewhere: (&'static str, &'static str),
    paper: Option<f64>,
}

fn modes() -> [Mode; 3] {
    [
        Mode {
            order: prediction(),
            shares: ("root_outstanding_share", "root_held_share"),
            shares_elsewhere: ("root_elsewhere_outstanding_share", "root_elsewhere_held_share"),
            paper: Some(0.94),
        },
        Mode {
            order: with_rw(prediction()),
            shares: ("root_rw_outstanding_share", "root_rw_held_share"),
            shares_elsewhere: ("root_rw_elsewhere_outstanding_share", "root_rw_elsewhere_held_share"),
            paper: None,
        },
        Mode {
            order: Order::Temporal,
            shares: ("temporal_outstanding_share", "temporal_held_share"),
            shares_elsewhere: ("temporal_elsewhere_outstanding_share", "temporal_elsewhere_held_share"),
            paper: Some(0.60),
        },
    ]
}

/// What a replay keeps of a program's concurrency.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// Calls under way at a time, on average.
    outstanding: f64,
    /// Part of the threads' time in which they wait for others.
    held: f64,
}

impl Kept {
    fn of(report: &Report) -> Kept {
        let time = report.elapsed_ns.max(1) as f64 * report.threads.len().max(1) as f64;
        let held: u64 = report.threads.iter().map(|thread| thread.waiting_ns).sum();
        Kept { outstanding: report.outstanding_mean, held: held as f64 / time }
    }
}

/// Medians of some replays.
fn replays(
    program: &Program,
    on: &Mounted,
    order: Order,
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Kept, LabError> {
    let mut all = Vec::new();
    for _ in 0..REPLAYS {
        let report = replayed_cold(program, on, How::plain(order, Speed::Scaled(1.0), options.seed))?;
        let kept = Kept::of(&report);
        let (ms, failures) = (report.elapsed_ns / 1_000_000, report.mismatches.count);
        let Kept { outstanding, held } = kept;
        progress(&format!("{outstanding:.2} calls under way, {held:.2} held back, {ms} ms, {failures} failures"));
        all.push(kept);
    }
    let median = |of: fn(&Kept) -> f64| timing::median(all.iter().map(of).collect());
    Ok(Kept { outstanding: median(|kept| kept.outstanding), held: median(|kept| kept.held) })
}

/// Calls under way in the trace, on average.
fn outstanding(program: &Program) -> f64 {
    let instants = program.outline().instants();
    let busy: u64 = instants.iter().map(|instant| instant.leave - instant.enter).sum();
    busy as f64 / program.about().elapsed_ns.max(1) as f64
}

/// How many edges the modes have, and how long they are in comparison with the last one's.
fn edges(program: &Program) -> Vec<Figure> {
    let [root, rw, temporal] = modes().map(|mode| program.schedule(mode.order).total());
    let count = |id, edges: u64, paper| Figure::alone(id, edges as f64, "edges").paper(paper);
    let ratio = |id, of: fn(&RuleCount) -> Nanos, count: &RuleCount, paper| {
        Figure::alone(id, of(count).0 as f64 / of(&temporal).0.max(1) as f64, "ratio of mean lengths").paper(paper)
    };
    vec![
        count("root_edges", root.edges, Some(6408.0)),
        count("root_rw_edges", rw.edges, None),
        count("temporal_edges", temporal.edges, Some(9135.0)),
        count("root_kept_edges", root.kept, None),
        count("root_rw_kept_edges", rw.kept, None),
        count("temporal_kept_edges", temporal.kept, None),
        ratio("edge_length_ratio", demanded, &root, Some(890.0)),
        ratio("rw_edge_length_ratio", demanded, &rw, None),
        ratio("kept_edge_length_ratio", kept, &root, None),
        ratio("rw_kept_edge_length_ratio", kept, &rw, None),
    ]
}

fn demanded(count: &RuleCount) -> Nanos {
    mean_length(count.length_ns, count.edges)
}

fn kept(count: &RuleCount) -> Nanos {
    mean_length(count.kept_length_ns, count.kept)
}
