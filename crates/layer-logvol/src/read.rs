//! Reads. The place of a range is looked up at once, so that a read sees all of a vector or nothing. The segments that
//! are read are held, so that none is reused before the read ends.

use std::ops::Range;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{Below, Bio, BioError, Buf, Ctx, Done, Flow, Reply, Step, Tag, flight};

use crate::map::Extent;
use crate::number::SegmentNo;
use crate::volume::{SegmentPin, Volume};

/// Pieces of one read under way at once.
const WIDTH: usize = 128;

/// A part of a read.
enum ReadPart {
    Hole(u64),
    At(Extent),
}

impl Volume {
    /// Reads. One extent is passed down in place, with the number of its segment, plus 1, in the context. Parts of
    /// blocks go down so, too, where the device has blocks that small.
    pub(crate) fn read(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let range = self.blocks(bio.offset(), bio.len());
        let first = self.map.borrow().next(range.start).and_then(|extent| extent.clip(&range));
        match first {
            None => Step::Now(Flow::Done(zeroes(bio.take()))),
            Some(extent)
                if extent.range() == range
                    && bio.range.is_aligned(u64::from(self.config.medium_block))
                    && let Some(byte) = self.stores.place(extent.pba) =>
            {
                let segment = self.geometry.segment_of(extent.pba);
                self.segments.borrow_mut().hold(segment);
                ctx.scratch = segment.number() + 1;
                let within = bio.offset() & (u64::from(self.geometry.block) - 1);
                bio.range = ByteRange::new(byte + within, bio.len()).expect("inside the device");
                Step::Now(Flow::Down)
            }
            Some(_) => {
                let (volume, below, bio) = (self.clone(), ctx.below(), bio.take());
                let parts = volume.parts(range);
                Step::later(async move { Flow::Done(volume.join(below, bio, parts).await) })
            }
        }
    }

    /// Ends what [`Volume::read`] passed down.
    pub(crate) fn end_read(&self, scratch: u64) {
        if let Some(segment) = scratch.checked_sub(1).and_then(SegmentNo::new) {
            self.segments.borrow_mut().drop_hold(segment);
        }
    }

    fn parts(self: &Rc<Self>, range: Range<u64>) -> Vec<(ReadPart, Option<SegmentPin>)> {
        let (mut parts, mut at) = (Vec::new(), range.start);
        let pieces = self.pieces(range.clone());
        for piece in pieces {
            if at < piece.lba {
                parts.push((ReadPart::Hole(piece.lba - at), None));
            }
            parts.push((ReadPart::At(piece), Some(self.hold(self.geometry.segment_of(piece.pba)))));
            at = piece.end();
        }
        if at < range.end {
            parts.push((ReadPart::Hole(range.end - at), None));
        }
        parts
    }

    /// Reads several pieces; what they read is the chain that comes back.
    async fn join(self: Rc<Self>, below: Below, bio: Bio, parts: Vec<(ReadPart, Option<SegmentPin>)>) -> Done {
        let store = self.store(below);
        let block = self.geometry.block as usize;
        let (mut result, mut bufs) = (Ok(Reply::Empty), Vec::with_capacity(parts.len()));
        let (parts, holds): (Vec<ReadPart>, Vec<Option<SegmentPin>>) = parts.into_iter().unzip();
        let steps = parts.iter().map(|part| match part {
            ReadPart::Hole(blocks) => {
                let buf = Buf::zeroed(self.pool(), *blocks as usize * block);
                Step::Now(Done { result: Ok(Reply::Empty), buf })
            }
            ReadPart::At(extent) => {
                let buf = Buf::unique(self.pool(), extent.len as usize * block);
                let segment = self.geometry.segment_of(extent.pba);
                store.read(segment, extent.pba % self.geometry.segment, buf, bio.tag)
            }
        });
        flight::windowed(self.rt(), WIDTH, steps, |done| {
            if let Err(error) = done.result {
                result = Err(error);
            }
            bufs.push(done.buf);
            result.is_ok()
        })
        .await;
        drop(holds);
        let mut buf = Buf::chain(bufs);
        match result {
            Ok(reply) if self.is_partial(&bio) => {
                let within = bio.offset() as usize & (block - 1);
                Done { result: Ok(reply), buf: buf.slice(within, bio.len() as usize) }
            }
            Ok(reply) => Done { result: Ok(reply), buf },
            Err(error) => bio.fail(error),
        }
    }

    /// The bytes of a range of logical blocks.
    ///
    /// # Errors
    /// What the device below answers.
    pub async fn read_blocks(self: &Rc<Self>, below: &Below, range: Range<u64>, tag: Tag) -> Result<Buf, BioError> {
        let parts = self.parts(range.clone());
        let bytes = (range.end - range.start) * u64::from(self.geometry.block);
        let whole = ByteRange::new(range.start * u64::from(self.geometry.block), bytes);
        let bio = Bio::zero(whole.map_or(0, ByteRange::start), bytes).tagged(tag);
        let done = self.clone().join(below.clone(), bio, parts).await;
        done.result.map(|_| done.buf)
    }
}

/// Answers a read of what is not mapped.
fn zeroes(mut bio: Bio) -> Done {
    const ZEROES: [u8; 4096] = [0; 4096];
    match bio.buf.bytes_mut() {
        Some(bytes) => bytes.fill(0),
        None => {
            let len = bio.buf.len();
            for at in (0..len).step_by(ZEROES.len()) {
                bio.buf.fill(at, &ZEROES[..ZEROES.len().min(len - at)]);
            }
        }
    }
    bio.ok()
}
