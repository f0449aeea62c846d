//! `fs-fill`: `lfs` filled to its end and emptied again and again, and how fast it is overwritten when it is half, four
//! fifths and 95 % full, beside ext4.
//!
//! Files are written until there is no room. At that point a file must go, whatever its deletion writes. When all files
//! are gone and the cleaner has run, the room is that of before; what lacks is `leaked_bytes`.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use esker_base::Stream;
use esker_base::units::{GIB, MIB};
use esker_lab_kit::{Figure, Lab, LabError, timing};
use serde_json::json;

use crate::artc::mounted::FileSystem;
use crate::fs_arms::{Arm, ArmKind};

/// Bytes of a file.
const FILE: u64 = 4 * MIB;
/// Bytes of an overwrite.
const PAGE: usize = 4096;
/// Shares of the room that files take, in percent.
const SHARES: [u64; 3] = [50, 80, 95];

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (bytes, rounds, overwrites) = lab.scale((GIB / 2, 3, 8_000), (2 * GIB, 10, 50_000));
    let mut ours = Arm::new(lab, ArmKind::Lfs, bytes)?;
    let mut figures = filled(lab, &mut ours, rounds)?;
    let ext4 = Arm::new(lab, ArmKind::Kernel(FileSystem::Ext4), bytes)?;
    for share in SHARES {
        let [us, them] = [&ours, &ext4].map(|arm| overwritten(lab, arm, share, overwrites));
        let (us, them) = (us?, them?);
        lab.say(format!("{share} % full: {us:.0} overwrites a second, ext4 {them:.0}"));
        let rate = Figure::alone(format!("rate_{share}"), us, "overwrites of 4 KiB per second");
        figures.push(rate.peer("ext4, overwrites of 4 KiB per second", them));
    }
    Ok(figures)
}

/// Fills and empties it. Answers the bytes that do not come back, and how many deletions failed.
fn filled(lab: &Lab<'_>, arm: &mut Arm<'_, '_>, rounds: usize) -> Result<Vec<Figure>, LabError> {
    // The first round makes what stays: the directory and the space that metadata files keep.
    let (mut before, mut fails) = (None, 0);
    for round in 0..=rounds {
        let files = fill(arm.at(), u64::MAX)?;
        let Some((last, others)) = files.split_last() else { return Err(LabError::data("no file has room")) };
        fails += u32::from(std::fs::remove_file(last).is_err());
        lab.say(format!("round {} of {}: {} files", round + 1, rounds + 1, files.len()));
        others.iter().try_for_each(|path| std::fs::remove_file(path).map_err(LabError::scratch(path)))?;
        clean(arm)?;
        let free = arm.free_bytes()?;
        before.get_or_insert(free);
        lab.say(format!("{} MiB free", free / MIB));
    }
    let leaked = before.unwrap_or(0).saturating_sub(arm.free_bytes()?);
    Ok(vec![
        Figure::alone("leaked_bytes", leaked as f64, "bytes"),
        Figure::alone("delete_at_full_fails", f64::from(fails), "deletions"),
    ])
}

fn clean(arm: &mut Arm<'_, '_>) -> Result<(), LabError> {
    let Some(server) = arm.server() else { return Ok(()) };
    server.ask(&json!({ "do": "order", "device": "lfs", "words": ["clean"] })).map(drop)
}

/// Writes files until they have so many bytes or there is no room.
fn fill(at: &Path, bytes: u64) -> Result<Vec<PathBuf>, LabError> {
    let (content, mut files) = (vec![7; FILE as usize], Vec::new());
    for nr in 0..bytes / FILE {
        let path = at.join(format!("filled{nr}"));
        let written = File::create(&path).and_then(|file| {
            file.write_all_at(&content, 0)?;
            file.sync_data()
        });
        match written {
            Ok(()) => files.push(path),
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                // Its creation may be what found no room.
                files.extend(path.exists().then_some(path));
                break;
            }
            Err(error) => return Err(LabError::scratch(&path)(error)),
        }
    }
    Ok(files)
}

/// Overwrites of random pages per second while files take that share of the room. The files are gone then.
fn overwritten(lab: &Lab<'_>, arm: &Arm<'_, '_>, share: u64, count: usize) -> Result<f64, LabError> {
    let paths = fill(arm.at(), arm.free_bytes()? * share / 100)?;
    let open = |path: &PathBuf| File::options().write(true).open(path).map_err(LabError::scratch(path));
    let files = paths.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let mut random = Stream::named(lab.seed, "overwritten pages");
    let per_file = FILE / PAGE as u64;
    let seconds = timing::seconds(|| -> std::io::Result<()> {
        for nr in 0..count {
            let file = &files[random.below(files.len() as u64) as usize];
            file.write_all_at(&[(nr % 256) as u8; PAGE], random.below(per_file) * PAGE as u64)?;
        }
        files.iter().try_for_each(File::sync_data)
    });
    let seconds = seconds.map_err(LabError::scratch(arm.at()))?;
    drop(files);
    paths.iter().try_for_each(|path| std::fs::remove_file(path).map_err(LabError::scratch(path)))?;
    Ok(count as f64 / seconds)
}
