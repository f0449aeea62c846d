//! Segments of a writer: which are clean, and what the SUFILE says of each.

use super::core::Core;
use crate::error::{LfsError, damaged};
use crate::format::usage::{UsageHead, flag};
use crate::format::{LiveCounters, SegmentUsage};

impl Core {
    /// The usage of a segment.
    pub(super) async fn usage(&self, segment: u64) -> Result<SegmentUsage, LfsError> {
        let (index, offset) = self.geometry.usages.place(segment);
        let bytes = self.geometry.usages.entry_bytes as usize;
        // A block that was never written stands for clean segments.
        let block = self.meta_block(&self.sufile, index).await?;
        let usage = match block.as_ref().and_then(|block| block.get(offset..offset + bytes)) {
            Some(entry) => SegmentUsage::read(entry),
            None => SegmentUsage::read(&vec![0; bytes]),
        };
        usage.or_else(|short| damaged("the usage of segment", segment, 0, short.to_string()))
    }

    /// Sets the usage of a segment.
    pub(super) async fn set_usage(&self, segment: u64, usage: SegmentUsage) -> Result<(), LfsError> {
        let (index, offset) = self.geometry.usages.place(segment);
        self.meta_edit(&self.sufile, index, |block| usage.write(&mut block[offset..])).await
    }

    /// Takes the next clean segment that `may` be taken, in a circle; `None` if there is none.
    pub(super) async fn take_segment(&self, may: impl Fn(u64) -> bool) -> Result<Option<u64>, LfsError> {
        let (count, header) = (self.geometry.segments, self.segments.get());
        for step in 1..=count {
            let segment = (header.last + step) % count;
            let usage = self.usage(segment).await?;
            if !usage.is_clean() || !may(segment) {
                continue;
            }
            self.taken.borrow_mut().insert(segment);
            let head = UsageHead { changed: 0, blocks: 0, flags: flag::DIRTY };
            self.set_usage(segment, SegmentUsage { head, live: usage.live.map(|_| NO_COUNTERS) }).await?;
            let mut header = self.segments.get();
            (header.clean, header.dirty, header.last) = (header.clean.saturating_sub(1), header.dirty + 1, segment);
            self.segments.set(header);
            return Ok(Some(segment));
        }
        Ok(None)
    }

    /// Marks segments as clean.
    pub(super) async fn free_segments(&self, segments: &[u64]) -> Result<(), LfsError> {
        for segment in segments {
            let usage = self.usage(*segment).await?;
            let head = UsageHead { changed: 0, blocks: 0, flags: 0 };
            self.set_usage(*segment, SegmentUsage { head, live: usage.live.map(|_| NO_COUNTERS) }).await?;
            self.live_changes.borrow_mut().remove(segment);
            self.recounts.forget(*segment);
            let mut header = self.segments.get();
            (header.clean, header.dirty) = (header.clean + 1, header.dirty.saturating_sub(1));
            self.segments.set(header);
        }
        Ok(())
    }
}

const NO_COUNTERS: LiveCounters = LiveCounters { live: 0, snapshot: 0, changed: 0 };
