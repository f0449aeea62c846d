//! `artc-init`: what it costs to make a tree of which a replay changed one entry in a hundred as it was, against making
//! all of it. `--quick` has fewer files.

use std::fs;
use std::path::Path;
use std::time::Instant;

use esker_base::Stream;
use esker_trace_calls::{Entry, EntryKind, PathBytes, Snapshot};
use esker_trace_replay::InitMode;
use esker_trace_replay::init::TREE;

use crate::artc::laid_out;
use esker_lab_kit::{Experiment, Figure, LabError, Options, scratch, timing};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-init",
    summary: "Time of restoring a tree of which 1 % changed, against making all of it",
    source: "specification of program traces, item 26",
    simulated: false,
    rivals: &[],
    run,
};

const FILES: u64 = 20_000;
const QUICK_FILES: u64 = 4000;
/// Files of a folder.
const OF_FOLDER: u64 = 50;
/// Bytes of a file.
const BYTES: (u64, u64) = (1 << 10, 32 << 10);
/// One file of so many changes.
const CHANGED: u64 = 100;
const ROUNDS: u64 = 5;

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let files = if options.quick { QUICK_FILES } else { FILES };
    let snapshot = tree(files, options.seed);
    let (mut full, mut delta) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        let dir = scratch::folder(&options.scratch)?;
        full.push(seconds(dir.path(), &snapshot, InitMode::Full, options)?);
        let changed = change(&dir.path().join(TREE), files, round).map_err(LabError::scratch(&dir.path()))?;
        delta.push(seconds(dir.path(), &snapshot, InitMode::Delta, options)?);
        let [all, part] = [&full, &delta].map(|times| times[times.len() - 1]);
        progress(&format!(
            "round {round} of {ROUNDS}: {all:.2} s for {files} files, {part:.3} s after {changed} changed"
        ));
    }
    let ratios = full.iter().zip(&delta).map(|(full, delta)| delta / full).collect();
    Ok(vec![
        Figure::alone("full_init_s", timing::median(full), "s"),
        Figure::alone("delta_init_s", timing::median(delta), "s"),
        Figure::alone("delta_init_time_ratio", timing::median(ratios), "ratio"),
    ])
}

fn path(file: u64) -> String {
    format!("/d{}/f{file}", file / OF_FOLDER)
}

fn tree(files: u64, seed: u64) -> Snapshot {
    let mut random = Stream::named(seed, "sizes of files");
    let file = |file| {
        let size = BYTES.0 + random.below(BYTES.1 - BYTES.0);
        (PathBytes::from(path(file).as_str()), Entry::plain(EntryKind::File { size }))
    };
    Snapshot { entries: (0..files).map(file).collect() }
}

fn seconds(dir: &Path, snapshot: &Snapshot, mode: InitMode, options: &Options) -> Result<f64, LabError> {
    let start = Instant::now();
    laid_out(dir, snapshot, mode, options.seed)?;
    Ok(start.elapsed().as_secs_f64())
}

/// What programs do: files are written over, cut, removed and renamed, in turns. Returns how many were.
fn change(tree: &Path, files: u64, round: u64) -> std::io::Result<u64> {
    let mut changed = 0;
    for file in (round..files).step_by(CHANGED as usize) {
        let at = tree.join(path(file).trim_start_matches('/'));
        match changed % 4 {
            0 => fs::write(&at, [0; 100])?,
            1 => fs::File::options().write(true).open(&at)?.set_len(10)?,
            2 => fs::remove_file(&at)?,
            _ => fs::rename(&at, at.with_extension("old"))?,
        }
        changed += 1;
    }
    Ok(changed)
}
