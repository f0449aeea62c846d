//! Changes of parts of blocks, for ports whose logical block is smaller than the unit of mapping: by read-modify-write.
//!
//! Such a change claims its blocks, waits until the map holds all that the log has for those that it fills in part,
//! reads them, and puts whole blocks into the log. The claim ends there: a later change has a higher number, and a
//! later read-modify-write waits for the log. While any claim is held, changes of whole blocks claim what they change,
//! too; they only pass while they go into the log.
//!
//! A write is one record, and a zero the records of one request: each is whole or absent after a power cut. All that
//! lies beside it in its blocks is kept, because the blocks that it replaces stay where they are. Only a zero on a full
//! volume goes in turns.

use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::locks::{Mode, RangeLocks, Ticket};
use esker_block::{Below, Bio, BioError, Buf, Done, Op, RangeOp, Reply, Tag, partial};
use esker_rt::sync::Receiver;

use crate::format::Record;
use crate::volume::{Volume, sum_of};

/// A claim that is given up when it is dropped.
pub(crate) struct Claim<'a> {
    claims: &'a RangeLocks,
    ticket: Ticket,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.claims.leave(self.ticket);
    }
}

impl Volume {
    async fn claim(&self, ranges: impl IntoIterator<Item = ByteRange>, mode: Mode) -> Claim<'_> {
        let claim = Claim { claims: &self.claims, ticket: self.claims.enter(ranges, mode) };
        self.claims.granted(claim.ticket).await;
        claim
    }

    /// Claims what a change of whole blocks changes.
    pub(crate) async fn share(&self, bio: &Bio) -> Claim<'_> {
        match &bio.op {
            Op::Ranges(ops) => self.claim(ops.iter().flat_map(changed), Mode::Shared).await,
            Op::Read | Op::Write | Op::Flush | Op::Zero | Op::Discard | Op::Extents => {
                self.claim([bio.range], Mode::Shared).await
            }
        }
    }

    /// Answers a write, zero or discard that fills blocks in part. A discard shrinks to whole blocks.
    pub(crate) async fn change_part(self: Rc<Self>, below: Below, mut bio: Bio) -> Done {
        let block = u64::from(self.geometry.block);
        if bio.op == Op::Discard {
            return match partial::inner(bio.range, block) {
                Some(range) => self.change(below, Bio { range, ..bio }).await,
                None => bio.ok(),
            };
        }
        let result = match self.claim_and_change(&below, &mut bio).await {
            Err(error @ BioError::NoSpace(_)) if bio.op == Op::Zero => self.zero_in_turns(&below, &bio, error).await,
            result => result,
        };
        Done { result, buf: bio.buf }
    }

    async fn claim_and_change(self: &Rc<Self>, below: &Below, bio: &mut Bio) -> Result<Reply, BioError> {
        let around = partial::outer(bio.range, u64::from(self.geometry.block));
        let claim = self.claim([around], Mode::Exclusive).await;
        self.edges_in_map(bio.range).await;
        let is_void = bio.op == Op::Zero && !bio.flags.fua && self.is_hole(&self.blocks(bio.offset(), bio.len()));
        if is_void {
            return Ok(Reply::Empty);
        }
        let logged = match bio.op {
            Op::Write => {
                let data = bio.buf.share();
                self.log_write(below, bio.range, data, bio.tag).await
            }
            Op::Read | Op::Flush | Op::Zero | Op::Discard | Op::Ranges(_) | Op::Extents => {
                self.log_zero(below, bio).await
            }
        };
        drop(claim);
        self.finish(below, logged?.await, bio.flags.fua).await
    }

    /// Zeroes where there is no space for the edges: the whole blocks between them first, because that gives space
    /// back.
    async fn zero_in_turns(self: &Rc<Self>, below: &Below, bio: &Bio, error: BioError) -> Result<Reply, BioError> {
        let block = u64::from(self.geometry.block);
        let Some(middle) = partial::inner(bio.range, block) else { return Err(error) };
        let part = |range: ByteRange| Bio { flags: bio.flags, ..Bio::zero(range.start(), range.len()).tagged(bio.tag) };
        self.clone().change(below.clone(), part(middle)).await.result?;
        for rim in partial::rims(bio.range, block) {
            self.claim_and_change(below, &mut part(rim)).await?;
        }
        Ok(Reply::Empty)
    }

    /// Waits until the log has nothing for the blocks that a range fills in part.
    async fn edges_in_map(&self, range: ByteRange) {
        let edges = partial::edges(range, u64::from(self.geometry.block));
        let edges: Vec<_> = edges.map(|edge| self.blocks(edge.start(), edge.len())).collect();
        self.logged.wait_until(|| !self.log.borrow().touches(&edges)).await;
    }

    async fn log_write(
        self: &Rc<Self>,
        below: &Below,
        range: ByteRange,
        data: Buf,
        tag: Tag,
    ) -> Result<Receiver<Result<u64, BioError>>, BioError> {
        let data = self.widened(below, range, data, tag).await?;
        let record = self.write_record(range, &data);
        Ok(self.append(below, vec![record], data, tag))
    }

    /// Whole blocks are unmapped. Those at the edges are written anew, unless nothing is left in them.
    async fn log_zero(self: &Rc<Self>, below: &Below, bio: &Bio) -> Result<Receiver<Result<u64, BioError>>, BioError> {
        let block = u64::from(self.geometry.block);
        let (mut records, mut parts) = (Vec::with_capacity(3), Vec::with_capacity(2));
        records.extend(partial::inner(bio.range, block).map(|range| self.delete_record(range)));
        for rim in partial::rims(bio.range, block) {
            let zeroes = Buf::zeroed(self.pool(), rim.len() as usize);
            let data = self.widened(below, rim, zeroes, bio.tag).await?;
            if data.is_zero() {
                records.push(self.delete_record(partial::outer(rim, block)));
            } else {
                records.push(self.write_record(rim, &data));
                parts.push(data);
            }
        }
        Ok(self.append(below, records, Buf::chain(parts), bio.tag))
    }

    /// The blocks around a range, when `data` is written there.
    async fn widened(self: &Rc<Self>, below: &Below, range: ByteRange, data: Buf, tag: Tag) -> Result<Buf, BioError> {
        let read = async |edge: ByteRange| {
            let blocks = self.blocks(edge.start(), edge.len());
            self.read_blocks(below, blocks, tag).await
        };
        partial::widened(range, u64::from(self.geometry.block), data, self.pool(), read).await
    }

    /// Of the whole blocks around a range, which will hold `data`.
    fn write_record(&self, range: ByteRange, data: &Buf) -> Record {
        let blocks = self.blocks(range.start(), range.len());
        Record::Write { lba: blocks.start, len: (blocks.end - blocks.start) as u32, sum: sum_of(data), run: 0 }
    }

    fn delete_record(&self, range: ByteRange) -> Record {
        let blocks = self.blocks(range.start(), range.len());
        Record::Delete { lba: blocks.start, len: blocks.end - blocks.start }
    }
}

/// The bytes that an element of a vector changes.
fn changed(op: &RangeOp) -> impl Iterator<Item = ByteRange> {
    let moved = match op {
        RangeOp::Move { src, .. } => Some(*src),
        RangeOp::Clone { .. } | RangeOp::Delete { .. } => None,
    };
    moved.into_iter().chain(op.ranges().map(|(_, dst)| dst))
}
