//! Structures as text: what the kernel's own tools tell, and more.

use std::fmt::Write;

use crate::error::LfsError;
use crate::format::checkpoint::flag;
use crate::format::summary;
use crate::format::usage;
use crate::format::{LfsSuperblock, MapRoot, SuperblockFault};
use crate::map::{Addressing, MapWalk, MappedFile};
use crate::medium::Chosen;
use crate::volume::Volume;

/// What is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Show {
    /// Both superblocks, and the latest checkpoint.
    Superblocks,
    /// Segments in use, as `lssu` lists them.
    Segments,
    /// Checkpoints, as `lscp` lists them.
    Checkpoints,
    /// The logs of a segment.
    Logs(u64),
    /// An inode of a checkpoint (the latest if none is given), and its blocks.
    Inode(Option<u64>, u64),
}

/// The structures as text.
///
/// # Errors
/// A structure is wrong; the device's.
pub async fn dump(volume: &Volume, show: Show) -> Result<String, LfsError> {
    match show {
        Show::Superblocks => Ok(superblocks(volume)),
        Show::Segments => segments(volume).await,
        Show::Checkpoints => checkpoints(volume).await,
        Show::Logs(segment) => logs(volume, segment).await,
        Show::Inode(cno, number) => inode(volume, cno, number).await,
    }
}

/// Writing to a text cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {{
        let _written = writeln!($out, $($arg)*);
    }};
}

fn superblocks(volume: &Volume) -> String {
    let Chosen { copies, from, geometry, .. } = volume.chosen();
    let mut out = String::new();
    for (name, copy) in ["at byte 1024", "at the end"].iter().zip(copies) {
        superblock(&mut out, name, copy);
    }
    let latest = volume.latest();
    line!(out, "{from} counts");
    line!(out, "blocks of {} bytes, segments of {} blocks", geometry.block_bytes, geometry.segment_blocks);
    let (log, sequence) = (latest.log.place, latest.log.header.sequence);
    line!(out, "latest checkpoint {}: log at block {log}, sequence {sequence}", latest.cno);
    for synced in &latest.synced {
        line!(out, "{} logs of synced data from block {}", synced.logs, synced.place);
    }
    line!(out, "end of the walk: {}", latest.end);
    out
}

fn superblock(out: &mut String, name: &str, copy: &Result<LfsSuperblock, SuperblockFault>) {
    let superblock = match copy {
        Ok(superblock) => superblock,
        Err(fault) => return line!(out, "superblock {name}: {fault}"),
    };
    let label = String::from_utf8_lossy(&superblock.label).trim_end_matches('\0').to_string();
    line!(out, "superblock {name}: uuid {:032x}, label {label:?}", u128::from_be_bytes(superblock.uuid));
    let LfsSuperblock { segments, device_bytes, reserved_percent, first_block, .. } = *superblock;
    line!(out, "  {segments} segments from block {first_block}, {device_bytes} bytes, {reserved_percent} % kept back");
    let LfsSuperblock { inode_bytes, dat_bytes, checkpoint_bytes, usage_bytes, .. } = *superblock;
    line!(out, "  entries: inode {inode_bytes}, DAT {dat_bytes}, checkpoint {checkpoint_bytes}, usage {usage_bytes}");
    let LfsSuperblock { last_cno, last_log, last_sequence, free_blocks, state, .. } = *superblock;
    line!(out, "  last checkpoint {last_cno} at block {last_log}, sequence {last_sequence}");
    line!(out, "  {free_blocks} free blocks, state {state:#x}");
    let LfsSuperblock { compat, compat_ro, incompat, written, mounts, .. } = *superblock;
    line!(out, "  features: compat {compat:#x}, compat_ro {compat_ro:#x}, incompat {incompat:#x}");
    line!(out, "  {mounts} mounts, written {}", date(written));
}

async fn segments(volume: &Volume) -> Result<String, LfsError> {
    let mut out = String::new();
    line!(out, "{:>20}  {:>10} {:>8} {:<4} {:>11}  {:>11}", "SEGNUM", "DATE", "TIME", "STAT", "NBLOCKS", "NLIVE");
    for segment in 0..volume.geometry().segments {
        let told = volume.usage(segment).await?;
        if told.is_clean() {
            continue;
        }
        let letter = |flag: u32, letter: char| if told.head.flags & flag != 0 { letter } else { '-' };
        // Which segments a driver uses lies in its memory: `mkfs.nilfs2` leaves marks that mean nothing.
        let state = ['-', letter(usage::flag::DIRTY, 'd'), letter(usage::flag::ERROR, 'e')];
        let state: String = state.iter().collect();
        let live = told.live.map_or("-".to_string(), |live| live.live.to_string());
        let (when, blocks) = (date_or_none(told.head.changed), told.head.blocks);
        line!(out, "{segment:>20}  {when}  {state} {blocks:>11}  {live:>11}");
    }
    Ok(out)
}

async fn checkpoints(volume: &Volume) -> Result<String, LfsError> {
    let mut out = String::new();
    line!(out, "{:>20}  {:>10} {:>8}  MODE  FLG  {:>10} {:>10}", "CNO", "DATE", "TIME", "BLKCNT", "ICNT");
    for entry in volume.checkpoints().await? {
        let mode = if entry.is_snapshot() { "ss" } else { "cp" };
        let minor = if entry.head.flags & flag::MINOR != 0 { 'i' } else { '-' };
        let head = entry.head;
        let when = date(head.created);
        line!(out, "{:>20}  {when}   {mode}    {minor}   {:>10} {:>10}", head.cno, head.blocks, head.inodes);
    }
    Ok(out)
}

async fn logs(volume: &Volume, segment: u64) -> Result<String, LfsError> {
    let geometry = volume.geometry();
    let mut out = String::new();
    if segment >= geometry.segments {
        return Ok(format!("there is no segment {segment}: the last is {}\n", geometry.segments - 1));
    }
    let range = geometry.segment(segment);
    let mut place = range.start;
    while place < range.end {
        let log = match volume.medium().read_log(volume.superblock(), geometry, place).await? {
            Ok(log) => log,
            Err(why) => {
                line!(out, "block {place}: {why}");
                break;
            }
        };
        let header = &log.header;
        let named = [
            (summary::flag::BEGIN, "begin"),
            (summary::flag::END, "end"),
            (summary::flag::SUPER_ROOT, "super-root"),
            (summary::flag::DATA_SYNC, "data-sync"),
            (summary::flag::CLEANER, "cleaner"),
        ];
        let flags: Vec<_> = named.iter().filter(|(flag, _)| header.has(*flag)).map(|(_, name)| *name).collect();
        line!(
            out,
            "log at block {place}: {} blocks, sequence {}, checkpoint {}, {}, {}, next segment at block {}",
            header.blocks,
            header.sequence,
            header.cno,
            date(header.created),
            flags.join(" "),
            header.next
        );
        match log.blocks(geometry) {
            Ok(blocks) => {
                for block in blocks {
                    line!(
                        out,
                        "  block {}: inode {}, checkpoint {}, {:?}",
                        block.place,
                        block.ino,
                        block.cno,
                        block.what
                    );
                }
            }
            Err(why) => line!(out, "  {why}"),
        }
        place = log.end();
    }
    Ok(out)
}

async fn inode(volume: &Volume, cno: Option<u64>, number: u64) -> Result<String, LfsError> {
    let checkpoint = volume.checkpoint(cno.unwrap_or(volume.latest().cno)).await?;
    let cno = checkpoint.head.cno;
    let mut out = String::new();
    let Some(inode) = volume.inode(&volume.ifile(&checkpoint), number).await? else {
        return Ok(format!("inode {number} is not in use in checkpoint {cno}\n"));
    };
    line!(
        out,
        "inode {number} of checkpoint {cno}: mode {:o}, {} links, owner {}:{}, {} bytes, {} units of 512 bytes",
        inode.mode,
        inode.links,
        inode.uid,
        inode.gid,
        inode.size,
        inode.blocks
    );
    line!(
        out,
        "  modified {}.{:09}, changed {}.{:09}, flags {:#x}, generation {}",
        date(inode.modified),
        inode.modified_nanos,
        date(inode.changed),
        inode.changed_nanos,
        inode.flags,
        inode.generation
    );
    if !inode.has_map() {
        line!(out, "  device {:#x}", inode.device());
        return Ok(out);
    }
    match MapRoot::read(&inode.map) {
        Ok(MapRoot::Direct(_)) => line!(out, "  addresses in the inode"),
        Ok(MapRoot::Tree(node)) => line!(out, "  a tree of {} levels", node.level),
        Err(why) => line!(out, "  the map is wrong: {why}"),
    }
    let mut walk = MapWalk::new(volume, MappedFile::new(number, &inode, Addressing::Virtual(cno)), 0)?;
    while let Some((block, place)) = walk.next().await {
        let place = place.map_or_else(|error| error.to_string(), |place| place.to_string());
        line!(out, "  level {} block {}: virtual {}, at {place}", block.level, block.index, block.address);
    }
    Ok(out)
}

/// The same as `lssu` has it: 0 stands for never.
fn date_or_none(seconds: u64) -> String {
    if seconds == 0 { "---------- --:--:--".to_string() } else { date(seconds) }
}

/// Seconds since 1970 as date and time, UTC.
fn date(seconds: u64) -> String {
    // The calendar repeats after 400 years, which begin with March here, so that leap days come last.
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let days = days.saturating_add(719_468);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(date(1_795_753_360), "2026-11-27 04:22:40");
        assert!(!date(u64::MAX).is_empty());
    }
}
