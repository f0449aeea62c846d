//! Compare-and-clone: shares the storage of two ranges if they hold the same bytes, with nothing between the comparison
//! and the clone.
//!
//! Nothing is locked. After the comparison, the clone is put into the log only if neither range maps to anything else
//! than when the comparison began, and no record that is on its way changes one of them. All records that come later
//! have higher numbers, so the clone takes effect before them.

use std::ops::Range;
use std::rc::Rc;

use esker_block::{Below, BioError, Buf, Tag};
use esker_layer_thin::Compared;

use crate::format::Record;
use crate::map::{Extent, LOGICAL_BLOCKS};
use crate::volume::Volume;

impl Volume {
    /// Clones `len` logical blocks from `src` to `dst` if both hold the same bytes: durable on return. As often as a
    /// client writes to one of them meanwhile, it begins anew.
    ///
    /// # Errors
    /// Ranges that overlap or leave the volume; what the device below answers; no space.
    pub async fn compare_and_clone(
        self: &Rc<Self>,
        below: &Below,
        src: u64,
        dst: u64,
        len: u64,
        tag: Tag,
    ) -> Result<Compared, BioError> {
        let end = |start: u64| start.checked_add(len).filter(|end| *end <= LOGICAL_BLOCKS);
        let (Some(src_end), Some(dst_end)) = (end(src), end(dst)) else {
            return Err(BioError::invalid(format!("{len} blocks from {src} or {dst} on leave the volume")));
        };
        let ranges = [src..src_end, dst..dst_end];
        if src < dst_end && dst < src_end {
            return Err(BioError::invalid(format!("blocks {src} to {src_end} and {dst} to {dst_end} overlap")));
        }
        loop {
            if self.share_blocks(src, dst, len) && !self.log.borrow().touches(&ranges) {
                return Ok(Compared::Shared);
            }
            let before = self.both(&ranges);
            if !self.are_equal(below, &ranges, tag).await? {
                return Ok(Compared::Different);
            }
            if self.both(&ranges) == before && !self.log.borrow().touches(&ranges) {
                let received = self.append(below, vec![Record::Clone { src, dst, len }], Buf::empty(), tag).await;
                return self.finish(below, received, true).await.map(|_| Compared::Cloned);
            }
        }
    }

    fn both(&self, ranges: &[Range<u64>; 2]) -> [Vec<Extent>; 2] {
        ranges.each_ref().map(|range| self.pieces(range.clone()))
    }

    /// Compares bytes, as many at a time as the device below takes in one request.
    async fn are_equal(self: &Rc<Self>, below: &Below, [a, b]: &[Range<u64>; 2], tag: Tag) -> Result<bool, BioError> {
        let step = (self.config.transfer_max / u64::from(self.geometry.block)).max(1);
        let len = a.end - a.start;
        for at in (0..len).step_by(step as usize) {
            let part = |range: &Range<u64>| range.start + at..range.start + len.min(at + step);
            let left = self.read_blocks(below, part(a), tag).await?;
            let right = self.read_blocks(below, part(b), tag).await?;
            if !left.same_bytes(&right) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
