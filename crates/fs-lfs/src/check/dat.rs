//! The DAT: its entries against the places of blocks, and against what is reached.

use super::{Checker, Gravity, Walked};
use crate::format::{DatEntry, Payload, ino};
use crate::map::MappedFile;
use crate::write::counting::protector;

impl Checker<'_> {
    /// Walks a metadata file that has no versions.
    pub(super) async fn metadata(&mut self, file: &MappedFile) {
        let at = match file.ino {
            ino::DAT => "the DAT",
            ino::CPFILE => "the CPFILE",
            _ => "the SUFILE",
        };
        let walked = self.walk(at, file).await;
        self.found.counted.blocks += walked.blocks;
        if file.ino == ino::DAT {
            for (_, place) in walked.addresses {
                self.count_live(place);
                if !self.dat_places.insert(place) {
                    self.damage(at, format!("block {place} of the device is in it twice"));
                }
            }
        } else {
            self.reach(at, &walked);
        }
    }

    /// Notes virtual blocks that the latest checkpoint reaches, each once.
    pub(super) fn reach(&mut self, at: &str, walked: &Walked) {
        for (vblock, _) in &walked.addresses {
            if !self.reached.insert(*vblock) {
                self.damage(at, format!("virtual block {vblock} belongs to two places of the latest checkpoint"));
            }
        }
    }

    /// Compares all entries in use with the logs, and those that live with what was reached.
    pub(super) async fn dat(&mut self) {
        let (file, shape) = (self.volume.dat(), self.volume.geometry().dat);
        // It was walked before: what is wrong with the walk was told.
        let mut data = Vec::new();
        let Ok(mut walk) = crate::map::MapWalk::new(self.volume, file, 0) else { return };
        while let Some((block, place)) = walk.next().await {
            if block.level == 0 && place.is_ok() {
                data.push(block.index);
            }
        }
        let used = self.used("the DAT", &file, &shape, &data).await;
        let count = used.len() as u64;
        for (number, vblock) in (0u64..).zip(used).filter(|(_, vblock)| *vblock != 0) {
            self.tell("the DAT", "entries", number, count);
            match self.volume.dat_entry(vblock).await {
                Ok(entry) => self.dat_entry(vblock, &entry),
                Err(error) => self.error(format!("entry {vblock} of the DAT"), &error),
            }
        }
    }

    fn count_live(&mut self, place: u64) {
        *self.live.entry(self.volume.geometry().segment_of(place)).or_default() += 1;
    }

    /// Counts the segments whose counter of live blocks is wrong, and by how much.
    pub(super) fn live_counters(&mut self) {
        let counted = &mut self.found.counted;
        counted.counted_blocks = self.live.values().sum();
        for (segment, usage) in &self.usages {
            let Some(counter) = usage.live else { continue };
            let off = self.live.get(segment).copied().unwrap_or(0).abs_diff(u64::from(counter.live));
            counted.counters_off += u64::from(off > 0);
            counted.miscounted_blocks += off;
        }
    }

    /// Whether a snapshot protects a block that died. Files without versions have no such blocks.
    fn is_protected(&self, entry: &DatEntry) -> bool {
        let is_versioned = self.logged.get(&entry.place).is_none_or(|logged| logged.cno != 0);
        is_versioned && protector(entry, &self.snapshots).is_some()
    }

    fn dat_entry(&mut self, vblock: u64, entry: &DatEntry) {
        let at = format!("entry {vblock} of the DAT");
        let latest = self.volume.latest().cno;
        if entry.start > entry.end {
            return self.damage(at, format!("its block lives from {} to before {}", entry.start, entry.end));
        }
        if entry.place == 0 {
            let advice = "Its number is lost until the file system is made anew";
            return self.add(Gravity::Note, at, "it is in use, and has no block", advice);
        }
        if entry.start == 0 || entry.start > latest || (!entry.is_live() && entry.end > latest) {
            let why = format!("it lives from {} to {}, and the latest is {latest}", entry.start, entry.end);
            return self.damage(at, why);
        }
        let geometry = self.volume.geometry();
        if !geometry.has(entry.place) {
            return self.damage(at, format!("its block {} lies in no segment", entry.place));
        }
        if entry.is_live() || self.is_protected(entry) {
            self.count_live(entry.place);
        }
        if entry.is_live() && !self.reached.contains(&vblock) {
            self.damage(&at, "it is alive, and nothing of the latest checkpoint leads to it");
        }
        let segment = geometry.segment_of(entry.place);
        if self.untold.contains(&segment) {
            return;
        }
        match self.logged.get(&entry.place).map(|logged| logged.what) {
            Some(Payload::Data { vblock: told, .. } | Payload::Node { vblock: told }) if told == vblock => {}
            Some(told) => self.damage(at, format!("at block {} the log tells of {told:?}", entry.place)),
            None => {
                let why = format!("its block {}, in segment {segment}, belongs to no log", entry.place);
                self.damage(at, why);
            }
        }
    }
}
