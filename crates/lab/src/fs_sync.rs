//! `fs-sync`: a file grows by 4 KiB and an fsync at a time, on `lfs` and on file systems of the kernel.
//!
//! Each file system lies on a loop device of its own, over an equal file. Rounds alternate. The 99th percentile and the
//! bytes that the device took stand beside the rates.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use esker_base::units::GIB;
use esker_lab_kit::{Figure, Lab, LabError, timing};

use crate::artc::mounted::FileSystem;
use crate::fs_arms::{Arm, ArmKind};

const KINDS: [ArmKind; 4] = [
    ArmKind::Lfs,
    ArmKind::Kernel(FileSystem::Ext4),
    ArmKind::Kernel(FileSystem::Xfs),
    ArmKind::Kernel(FileSystem::Btrfs),
];
/// Bytes that a call appends.
const APPENDED: usize = 4096;

/// What one round on one file system gave.
struct Round {
    per_second: f64,
    /// Seconds of each call.
    seconds: Vec<f64>,
    /// Bytes that the device took.
    written: u64,
}

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (rounds, calls) = lab.scale((5, 300), (15, 1_000));
    let arms = KINDS.into_iter().map(|kind| Arm::new(lab, kind, GIB)).collect::<Result<Vec<_>, _>>()?;
    let measured = timing::in_rounds(rounds, &arms, |round, arm| {
        let found = appended(arm, round, calls)?;
        lab.say(format!("round {round} of {rounds}: {} {:.0} a second", arm.kind.name(), found.per_second));
        Ok(found)
    })?;
    let rates = |arm: &[Round]| arm.iter().map(|round| round.per_second).collect::<Vec<_>>();
    let (ours, mut figures) = (rates(&measured[0]), Vec::new());
    for (arm, rounds) in arms.iter().zip(&measured).skip(1) {
        let (name, rival) = (arm.kind.name(), format!("{}, appends with fsync per second", arm.kind.name()));
        figures.push(timing::over(format!("lfs_append_fsync_ratio_{name}"), &ours, rates(rounds), rival));
    }
    for (arm, rounds) in arms.iter().zip(measured) {
        let name = arm.kind.name();
        let calls = rounds.iter().map(|round| round.seconds.len()).sum::<usize>() as f64;
        let written = rounds.iter().map(|round| round.written).sum::<u64>() as f64;
        let all: Vec<f64> = rounds.into_iter().flat_map(|round| round.seconds).collect();
        let slow = timing::at_share(all, 0.99) * 1e6;
        figures.push(Figure::alone(format!("{name}_append_fsync_p99_us"), slow, "us"));
        figures.push(Figure::alone(format!("{name}_append_fsync_bytes"), written / calls, "bytes per call"));
    }
    Ok(figures)
}

fn appended(arm: &Arm<'_, '_>, round: usize, calls: usize) -> Result<Round, LabError> {
    let path = arm.at().join(format!("appended {round}"));
    let before = arm.written_bytes()?;
    let (start, mut seconds) = (Instant::now(), Vec::with_capacity(calls));
    append(&path, calls, &mut seconds).map_err(LabError::scratch(&path))?;
    let per_second = calls as f64 / start.elapsed().as_secs_f64();
    Ok(Round { per_second, seconds, written: arm.written_bytes()? - before })
}

fn append(path: &Path, calls: usize, seconds: &mut Vec<f64>) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    for call in 0..calls {
        let start = Instant::now();
        file.write_all(&[1 + (call % 255) as u8; APPENDED])?;
        file.sync_all()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(())
}
