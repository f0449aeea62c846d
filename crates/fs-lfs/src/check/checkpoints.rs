//! Checkpoints: the CPFILE, and the list of snapshots in it.

use std::collections::BTreeMap;

use super::Checker;
use crate::error::LfsError;
use crate::format::checkpoint::flag;
use crate::format::{CheckpointEntry, EntryTable};
use crate::volume::Block;

impl Checker<'_> {
    /// Compares the header of the CPFILE with its entries. Gives the checkpoints whose trees are checked: the latest
    /// first, then snapshots.
    pub(super) async fn checkpoints(&mut self) -> Vec<CheckpointEntry> {
        let (shape, file, latest) =
            (self.volume.geometry().checkpoints, self.volume.cpfile(), self.volume.latest().cno);
        let mut entries = BTreeMap::new();
        // Its blocks are held to their logs later, with those of the other metadata files.
        let mut walk = match crate::map::MapWalk::new(self.volume, file, 0) {
            Ok(walk) => walk,
            Err(error) => {
                self.error("the CPFILE", &error);
                return Vec::new();
            }
        };
        while let Some((block, place)) = walk.next().await {
            match read(self.volume, block.level, place).await {
                Ok(Some(bytes)) => self.checkpoint_block(&shape, block.index, &bytes, &mut entries),
                Ok(None) => {}
                Err(error) => self.error(format!("the CPFILE, block {}", block.index), &error),
            }
        }
        self.found.counted.checkpoints = entries.len() as u64;
        self.snapshot_list(&entries).await;
        let Some(newest) = entries.remove(&latest) else {
            self.damage(format!("checkpoint {latest}"), "it is the latest, and the CPFILE does not have it");
            return Vec::new();
        };
        let snapshots = entries.into_values().filter(CheckpointEntry::is_snapshot);
        [newest].into_iter().chain(snapshots).collect()
    }

    fn checkpoint_block(
        &mut self,
        shape: &EntryTable,
        index: u64,
        bytes: &[u8],
        entries: &mut BTreeMap<u64, CheckpointEntry>,
    ) {
        let skip = if index == 0 { shape.first } else { 0 };
        let (mut valid, mut told) = (0, 0);
        let Some(first) = index.checked_mul(shape.per_block).filter(|first| *first < u64::MAX / 2) else {
            return self.damage(format!("the CPFILE, block {index}"), "no checkpoint can lie there");
        };
        for number in skip..shape.per_block {
            let cno = first + number + 1 - shape.first;
            let at = format!("checkpoint {cno}");
            let offset = (number * shape.entry_bytes) as usize;
            let Ok(entry) = CheckpointEntry::read(&bytes[offset..]) else { continue };
            if number == 0 {
                told = u64::from(entry.head.in_block);
            }
            if !entry.is_valid() {
                continue;
            }
            // An entry of zeroes was never made.
            if entry.head.cno == 0 && entry.head.created == 0 {
                continue;
            }
            valid += 1;
            if entry.head.cno != cno {
                self.damage(&at, format!("it says that it is checkpoint {}", entry.head.cno));
            } else if cno > self.volume.latest().cno {
                self.damage(&at, format!("it is newer than the latest ({})", self.volume.latest().cno));
            } else {
                entries.insert(cno, entry);
            }
            let known = flag::SNAPSHOT | flag::INVALID | flag::SKETCH | flag::MINOR;
            if entry.head.flags & !known != 0 {
                self.damage(&at, format!("it has flags that are not known ({:#x})", entry.head.flags));
            }
        }
        if index > 0 {
            self.miscount(format!("the CPFILE, block {index}"), "checkpoints", told, valid);
        }
    }

    /// The list leads through all snapshots in the order of their numbers, there and back.
    async fn snapshot_list(&mut self, entries: &BTreeMap<u64, CheckpointEntry>) {
        const AT: &str = "the header of the CPFILE";
        let header = match self.volume.cpfile_header().await {
            Ok(header) => header,
            Err(error) => return self.error(AT, &error),
        };
        let snapshots: Vec<_> = entries.values().filter(|entry| entry.is_snapshot()).collect();
        self.found.counted.snapshots = snapshots.len() as u64;
        self.miscount(AT, "checkpoints", header.checkpoints, entries.len() as u64);
        self.miscount(AT, "snapshots", header.snapshots, snapshots.len() as u64);
        let numbers: Vec<u64> = snapshots.iter().map(|entry| entry.head.cno).collect();
        let (first, last) = (numbers.first().copied().unwrap_or(0), numbers.last().copied().unwrap_or(0));
        if (header.next, header.prev) != (first, last) {
            let (next, prev) = (header.next, header.prev);
            self.damage(AT, format!("its snapshots go from {next} to {prev}, and there are {first} to {last}"));
        }
        for (number, entry) in snapshots.iter().enumerate() {
            let next = numbers.get(number + 1).copied().unwrap_or(0);
            let prev = number.checked_sub(1).map_or(0, |before| numbers[before]);
            if (entry.head.next, entry.head.prev) != (next, prev) {
                let why = format!(
                    "as a snapshot it follows {} and precedes {}, not {prev} and {next}",
                    entry.head.prev, entry.head.next
                );
                self.damage(format!("checkpoint {}", entry.head.cno), why);
            }
        }
        self.snapshots = numbers;
    }
}

/// The bytes of a block of data; nothing for a node.
async fn read(
    volume: &crate::volume::Volume,
    level: u8,
    place: Result<u64, LfsError>,
) -> Result<Option<Block>, LfsError> {
    let place = place?;
    if level == 0 { volume.block(place).await.map(Some) } else { Ok(None) }
}
