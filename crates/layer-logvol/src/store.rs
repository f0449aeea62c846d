//! Where segments are kept. A segment is written from its front to its end, never changed, and erased as a whole, so
//! that it may as well be an object of a store as a range of a device.

use std::ops::Range;

use esker_base::ByteRange;
use esker_block::{Below, Bio, BioError, Buf, Class, Done, Flags, Step, Tag};

use crate::format::Geometry;
use crate::number::{PageNo, SegmentNo};

/// The tag of requests without a client.
pub const METADATA: Tag = Tag::of(Class::Metadata);

/// Keeps segments.
pub trait SegmentStore {
    /// Writes `buf` behind what the segment holds: `block` blocks so far.
    fn append(&self, segment: SegmentNo, block: u64, buf: Buf, tag: Tag) -> Step<Done>;

    /// Fills `buf` from block `block` of the segment on.
    fn read(&self, segment: SegmentNo, block: u64, buf: Buf, tag: Tag) -> Step<Done>;

    /// Makes everything durable that was answered.
    fn flush(&self) -> Step<Done>;

    /// Forgets what segments hold. A hint: what they read as afterwards does not matter.
    fn erase(&self, segments: Range<SegmentNo>) -> Step<Done>;
}

/// Segments, slots and pages on one lower device.
#[derive(Clone)]
pub struct DeviceStore {
    below: Below,
    geometry: Geometry,
    /// Whether the device takes discards.
    discards: bool,
}

impl DeviceStore {
    /// The store on lower device 0 of `below`.
    pub fn new(below: Below, geometry: Geometry, discards: bool) -> DeviceStore {
        DeviceStore { below, geometry, discards }
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let lower = self.below.lower(0);
        self.below.submit(bio.to(lower))
    }

    fn byte(&self, segment: SegmentNo, block: u64) -> u64 {
        self.geometry.byte_of(self.geometry.first_of(segment) + block)
    }

    /// Fills `buf` from byte `at` of the device on.
    pub fn read_at(&self, at: u64, buf: Buf, tag: Tag) -> Step<Done> {
        self.submit(Bio::read(at, buf).tagged(tag))
    }

    /// Writes `buf` at byte `at` of the device.
    ///
    /// # Errors
    /// What the device answers.
    pub async fn write_at(&self, at: u64, buf: Buf) -> Result<(), BioError> {
        self.submit(Bio::write(at, buf).tagged(METADATA)).await.result.map(drop)
    }

    /// The same, durable on return.
    ///
    /// # Errors
    /// What the device answers.
    pub async fn write_durably(&self, at: u64, buf: Buf) -> Result<(), BioError> {
        self.submit(Bio::write(at, buf).fua().tagged(METADATA)).await.result.map(drop)
    }

    /// Makes the first bytes of a segment take space, whatever they read as.
    pub fn reserve(&self, segment: SegmentNo, bytes: u64) -> Step<Done> {
        let bio = Bio::zero(self.byte(segment, 0), bytes);
        let flags = Flags { no_unmap: true, ..bio.flags };
        self.submit(Bio { flags, ..bio }.tagged(METADATA))
    }

    /// Writes pages that follow each other.
    pub fn write_pages(&self, page: PageNo, buf: Buf) -> Step<Done> {
        self.submit(Bio::write(page.0 * u64::from(self.geometry.page), buf).tagged(METADATA))
    }
}

impl SegmentStore for DeviceStore {
    fn append(&self, segment: SegmentNo, block: u64, buf: Buf, tag: Tag) -> Step<Done> {
        self.submit(Bio::write(self.byte(segment, block), buf).tagged(tag))
    }

    fn read(&self, segment: SegmentNo, block: u64, buf: Buf, tag: Tag) -> Step<Done> {
        self.read_at(self.byte(segment, block), buf, tag)
    }

    fn flush(&self) -> Step<Done> {
        self.submit(Bio::flush().tagged(METADATA))
    }

    fn erase(&self, segments: Range<SegmentNo>) -> Step<Done> {
        if !self.discards {
            return Step::Now(Bio::flush().ok());
        }
        let (start, count) = (self.byte(segments.start, 0), segments.end.number() - segments.start.number());
        let range = ByteRange::new(start, count * self.geometry.segment_bytes()).expect("inside the device");
        self.submit(Bio::discard(range.start(), range.len()).tagged(METADATA))
    }
}
