//! `artc-init`: what it costs to make a tree of which a replay changed one entry in a hundred as it was, against
//! making all of it. `--quick` has fewer files.

use std::fs;
use std::path::Path;

use esker_base::Stream;
use esker_trace_calls::{Entry, EntryKind, PathBytes, Snapshot};
use esker_trace_replay::InitMode;
use esker_trace_replay::init::TREE;

use crate::artc::laid_out;
use esker_lab_kit::{Figure, Lab, LabError, timing};

const FILES: u64 = 20_000;
const QUICK_FILES: u64 = 4000;
/// Files of a folder.
const OF_FOLDER: u64 = 50;
/// Bytes of a file.
const BYTES: (u64, u64) = (1 << 10, 32 << 10);
/// One file of so many changes.
const CHANGED: u64 = 100;
const ROUNDS: u32 = 5;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let files = lab.scale(QUICK_FILES, FILES);
    let snapshot = tree(files, lab.seed);
    let [full, delta, ratio] = timing::medians_of(ROUNDS, |round| {
        let dir = lab.folder()?;
        let seconds = |mode| timing::seconds(|| laid_out(dir.path(), &snapshot, mode, lab.seed));
        let full = seconds(InitMode::Full)?;
        let changed = change(&dir.path().join(TREE), files, round.into()).map_err(LabError::scratch(&dir.path()))?;
        let delta = seconds(InitMode::Delta)?;
        lab.say(format!("round {round}: {full:.2} s for {files} files, {delta:.3} s after {changed} changed"));
        Ok([full, delta, delta / full])
    })?;
    Ok(vec![
        Figure::alone("full_init_s", full, "s"),
        Figure::alone("delta_init_s", delta, "s"),
        Figure::alone("delta_init_time_ratio", ratio, "ratio"),
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
