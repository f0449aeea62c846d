//! Segments: what the SUFILE says of them, and the logs that lie there.

use super::{Checker, Gravity, HARMLESS};
use crate::format::usage::flag;

impl Checker<'_> {
    /// Compares the header of the SUFILE with its entries, and reads the logs of all dirty segments.
    pub(super) async fn segments(&mut self) {
        let segments = self.volume.geometry().segments;
        let header = self.volume.sufile_header().await;
        let (mut clean, mut dirty) = (0, 0);
        for segment in 0..segments {
            let at = format!("segment {segment}");
            let usage = match self.volume.usage(segment).await {
                Ok(usage) => usage,
                Err(error) => {
                    // All entries of a block share its fate.
                    self.error(&at, &error);
                    self.untold.extend(segment..segments);
                    break;
                }
            };
            clean += u64::from(usage.is_clean());
            dirty += u64::from(usage.is_dirty());
            self.usages.insert(segment, usage);
            self.tell("logs", "segments", segment, segments);
            if usage.is_dirty() {
                self.segment(&at, segment, usage.head.blocks).await;
            } else if usage.head.blocks != 0 {
                self.damage(&at, format!("it is not dirty, and {} blocks of it are in use", usage.head.blocks));
            }
            if usage.head.flags & flag::ERROR != 0 {
                self.add(Gravity::Note, &at, "it is marked as one that cannot be written", HARMLESS);
            }
        }
        self.tell("logs", "segments", segments, segments);
        self.found.counted.segments_dirty = dirty;
        match header {
            Ok(header) => {
                self.miscount("the header of the SUFILE", "clean segments", header.clean, clean);
                self.miscount("the header of the SUFILE", "dirty segments", header.dirty, dirty);
                if header.last >= segments {
                    self.damage("the header of the SUFILE", format!("segment {} was taken last", header.last));
                }
            }
            Err(error) => self.error("the header of the SUFILE", &error),
        }
    }

    /// Reads the logs of a segment up to as many blocks as it should have.
    async fn segment(&mut self, at: &str, segment: u64, blocks: u32) {
        let (volume, range) = (self.volume, self.volume.geometry().segment(segment));
        let end = range.start + u64::from(blocks);
        if end > range.end {
            self.damage(at, format!("{blocks} blocks of it are in use, and it has {}", range.end - range.start));
            self.untold.insert(segment);
            return;
        }
        let (mut place, mut sequence) = (range.start, None);
        while place < end {
            let log = match volume.medium().read_log(volume.superblock(), volume.geometry(), place).await {
                Ok(Ok(log)) => log,
                Ok(Err(why)) => {
                    self.damage(format!("{at}, log at block {place}"), why);
                    self.untold.insert(segment);
                    return;
                }
                Err(error) => {
                    self.error(at, &error);
                    self.untold.insert(segment);
                    return;
                }
            };
            let at = format!("{at}, log at block {place}");
            self.found.counted.logs += 1;
            if *sequence.get_or_insert(log.header.sequence) != log.header.sequence {
                self.damage(&at, format!("its sequence number {} is not that of the segment", log.header.sequence));
            }
            if !log.has_summary_sum(volume.superblock().seed) {
                self.damage(&at, "the sum of its summary is wrong");
            }
            match log.blocks(volume.geometry()) {
                Ok(blocks) => self.logged.extend(blocks.into_iter().map(|block| (block.place, block))),
                Err(why) => {
                    self.damage(&at, why);
                    self.untold.insert(segment);
                }
            }
            place = log.end();
        }
        if place != end {
            self.damage(at, format!("{blocks} blocks are in use, and its logs end at block {place}"));
        }
    }
}
