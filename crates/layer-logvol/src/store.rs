//! Where a volume is kept: segments in one store; pages of the map and slots, which are overwritten, in another one.
//!
//! A segment is written from its front to its end, never changed, and erased as a whole. So it may as well be an object
//! of a store as a range of a device. Log, collector, checkpoints and recovery know the traits only.

use std::ops::Range;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{Below, Bio, BioError, Buf, Class, Done, Flags, Step, Tag};

use crate::format::Geometry;
use crate::number::{PageNo, SegmentNo};

/// The tag of requests without a client.
pub const METADATA: Tag = Tag::of(Class::Metadata);

/// Keeps segments. `below` is the way down of the request or task that asks, for a store on a lower device.
pub trait SegmentStore {
    /// Writes `buf` behind what the segment holds: `block` blocks so far.
    fn append(&self, below: &Below, segment: SegmentNo, block: u64, buf: Buf, tag: Tag) -> Step<Done>;

    /// Fills `buf` from block `block` of the segment on.
    fn read(&self, below: &Below, segment: SegmentNo, block: u64, buf: Buf, tag: Tag) -> Step<Done>;

    /// Makes everything durable that was answered.
    fn flush(&self, below: &Below) -> Step<Done>;

    /// Forgets what segments hold. A hint: what they read as afterwards does not matter.
    fn erase(&self, below: &Below, segments: Range<SegmentNo>) -> Step<Done>;

    /// Makes the first bytes of a segment take space, whatever they read as. A hint.
    fn reserve(&self, below: &Below, segment: SegmentNo, bytes: u64) -> Step<Done>;

    /// The byte of lower device 0 at which a physical block lies, if a read of it may go there directly.
    fn place(&self, pba: u64) -> Option<u64>;
}

/// Keeps pages of the map and slots of the superblock.
pub trait MapStore {
    /// Fills `buf` with pages that follow each other.
    fn read_pages(&self, below: &Below, page: PageNo, buf: Buf) -> Step<Done>;

    /// Writes pages that follow each other.
    fn write_pages(&self, below: &Below, page: PageNo, buf: Buf) -> Step<Done>;

    /// Writes a slot at this byte of the medium, durable on return.
    fn write_slot(&self, below: &Below, at: u64, buf: Buf) -> Step<Done>;

    /// Makes everything durable that was answered.
    fn flush(&self, below: &Below) -> Step<Done>;
}

/// The stores of a volume.
#[derive(Clone)]
pub struct Stores {
    segments: Rc<dyn SegmentStore>,
    map: Rc<dyn MapStore>,
    /// Whether a flush of the segments is one of the map, too.
    flush_together: bool,
}

impl Stores {
    /// Both on lower device 0, which takes discards or does not.
    pub fn on_device(geometry: Geometry, discards: bool) -> Stores {
        let device = Rc::new(DeviceStore { geometry, discards });
        Stores { segments: device.clone(), map: device, flush_together: true }
    }

    /// Pages and slots on lower device 0, segments elsewhere.
    pub fn apart(segments: Rc<dyn SegmentStore>, geometry: Geometry) -> Stores {
        let map = Rc::new(DeviceStore { geometry, discards: false });
        Stores { segments, map, flush_together: false }
    }

    /// See [`SegmentStore::place`].
    pub(crate) fn place(&self, pba: u64) -> Option<u64> {
        self.segments.place(pba)
    }

    /// The stores as a request or task with this way down reaches them.
    pub(crate) fn through(&self, below: Below) -> Store {
        Store { below, stores: self.clone() }
    }
}

/// The stores of a volume, as one request or task reaches them.
#[derive(Clone)]
pub struct Store {
    below: Below,
    stores: Stores,
}

impl Store {
    /// See [`SegmentStore::append`].
    pub(crate) fn append(&self, segment: SegmentNo, block: u64, buf: Buf, tag: Tag) -> Step<Done> {
        self.stores.segments.append(&self.below, segment, block, buf, tag)
    }

    /// See [`SegmentStore::read`].
    pub(crate) fn read(&self, segment: SegmentNo, block: u64, buf: Buf, tag: Tag) -> Step<Done> {
        self.stores.segments.read(&self.below, segment, block, buf, tag)
    }

    /// Makes all segments durable that were answered.
    pub(crate) fn flush(&self) -> Step<Done> {
        self.stores.segments.flush(&self.below)
    }

    /// Makes all pages durable that were answered before the segments were flushed.
    pub(crate) async fn flush_map(&self) -> Result<(), BioError> {
        match self.stores.flush_together {
            true => Ok(()),
            false => self.stores.map.flush(&self.below).await.result.map(drop),
        }
    }

    /// See [`SegmentStore::erase`].
    pub(crate) fn erase(&self, segments: Range<SegmentNo>) -> Step<Done> {
        self.stores.segments.erase(&self.below, segments)
    }

    /// See [`SegmentStore::reserve`].
    pub(crate) fn reserve(&self, segment: SegmentNo, bytes: u64) -> Step<Done> {
        self.stores.segments.reserve(&self.below, segment, bytes)
    }

    /// See [`MapStore::read_pages`].
    pub(crate) fn read_pages(&self, page: PageNo, buf: Buf) -> Step<Done> {
        self.stores.map.read_pages(&self.below, page, buf)
    }

    /// See [`MapStore::write_pages`].
    pub(crate) fn write_pages(&self, page: PageNo, buf: Buf) -> Step<Done> {
        self.stores.map.write_pages(&self.below, page, buf)
    }

    /// See [`MapStore::write_slot`].
    pub(crate) fn write_slot(&self, at: u64, buf: Buf) -> Step<Done> {
        self.stores.map.write_slot(&self.below, at, buf)
    }
}

/// Segments, slots and pages on one lower device.
struct DeviceStore {
    geometry: Geometry,
    /// Whether the device takes discards.
    discards: bool,
}

fn submit(below: &Below, bio: Bio) -> Step<Done> {
    below.submit(bio.to(below.lower(0)))
}

impl DeviceStore {
    fn byte(&self, segment: SegmentNo, block: u64) -> u64 {
        self.geometry.byte_of(self.geometry.first_of(segment) + block)
    }

    fn byte_of_page(&self, page: PageNo) -> u64 {
        page.0 * u64::from(self.geometry.page)
    }
}

impl SegmentStore for DeviceStore {
    fn append(&self, below: &Below, segment: SegmentNo, block: u64, buf: Buf, tag: Tag) -> Step<Done> {
        submit(below, Bio::write(self.byte(segment, block), buf).tagged(tag))
    }

    fn read(&self, below: &Below, segment: SegmentNo, block: u64, buf: Buf, tag: Tag) -> Step<Done> {
        submit(below, Bio::read(self.byte(segment, block), buf).tagged(tag))
    }

    fn flush(&self, below: &Below) -> Step<Done> {
        submit(below, Bio::flush().tagged(METADATA))
    }

    fn erase(&self, below: &Below, segments: Range<SegmentNo>) -> Step<Done> {
        if !self.discards {
            return Step::Now(Bio::flush().ok());
        }
        let (start, count) = (self.byte(segments.start, 0), segments.end.number() - segments.start.number());
        let range = ByteRange::new(start, count * self.geometry.segment_bytes()).expect("inside the device");
        submit(below, Bio::discard(range.start(), range.len()).tagged(METADATA))
    }

    fn reserve(&self, below: &Below, segment: SegmentNo, bytes: u64) -> Step<Done> {
        let bio = Bio::zero(self.byte(segment, 0), bytes);
        let flags = Flags { no_unmap: true, ..bio.flags };
        submit(below, Bio { flags, ..bio }.tagged(METADATA))
    }

    fn place(&self, pba: u64) -> Option<u64> {
        Some(self.geometry.byte_of(pba))
    }
}

impl MapStore for DeviceStore {
    fn read_pages(&self, below: &Below, page: PageNo, buf: Buf) -> Step<Done> {
        submit(below, Bio::read(self.byte_of_page(page), buf).tagged(METADATA))
    }

    fn write_pages(&self, below: &Below, page: PageNo, buf: Buf) -> Step<Done> {
        submit(below, Bio::write(self.byte_of_page(page), buf).tagged(METADATA))
    }

    fn write_slot(&self, below: &Below, at: u64, buf: Buf) -> Step<Done> {
        submit(below, Bio::write(at, buf).fua().tagged(METADATA))
    }

    fn flush(&self, below: &Below) -> Step<Done> {
        submit(below, Bio::flush().tagged(METADATA))
    }
}
