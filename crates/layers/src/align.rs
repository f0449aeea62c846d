//! `align`: small blocks over larger ones, by read-modify-write.
//!
//! A request that fills whole lower blocks passes down. What changes part of a lower block reads it, puts the new bytes
//! in and writes it back. Meanwhile an exclusive claim keeps every other change of these blocks away, or the write back
//! would undo it. Changes that pass down therefore hold shared claims.

use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::locks::{Mode, RangeLocks};
use esker_block::partial::{self, cut, inner, outer};
use esker_block::{
    Below, Bio, BioError, Buf, Ctx, Done, Extension, Flow, Kind, KindError, Layer, Limits, Make, Op, OpSet, Param,
    ParamType, Reply, Role, Step,
};
use esker_rt::mem::Pool;

const PARAMS: &[Param] = &[Param::with_default(
    "block",
    ParamType::Size,
    "512",
    "Block of the upper port; a power of two, at most the block below.",
)];

/// The manifest.
pub static KIND: Kind = Kind {
    passes: OpSet::WITHOUT_REMAP,
    role: Role::Modifier,
    transparent: false,
    cost: Nanos(50),
    ..Kind::layer("align", "Takes requests in smaller blocks than the device below has.", PARAMS, build)
};

struct Align {
    /// Block of the lower device.
    block: u64,
    /// Whether payloads may be described.
    described: bool,
    locks: Rc<RangeLocks>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let lower = &make.lowers[0];
    let block = make.args.int("block");
    if !block.is_power_of_two() || block > u64::from(lower.block) {
        return Err(KindError::Unfit(format!(
            "{}: block = {block} is not a power of two of at most {}, the block below; leave the layer out if no smaller \
             blocks are needed",
            make.name, lower.block
        )));
    }
    let align = Align { block: u64::from(lower.block), described: lower.described, locks: Rc::default() };
    Ok(Layer::single(align, upper_limits(lower, block as u32)))
}

/// A request of `n` bytes can need `n + lower.block - block` bytes of whole lower blocks, wherever it begins.
fn upper_limits(lower: &Limits, block: u32) -> Limits {
    let fits_in = |bytes: u32| (bytes - bytes % lower.block).max(lower.block) - (lower.block - block);
    Limits {
        block,
        atomic: fits_in(lower.atomic),
        transfer_max: fits_in(lower.transfer_max),
        preferred: lower.preferred.max(lower.block).min(fits_in(lower.transfer_max)),
        discard: lower.discard.max(lower.block),
        ranges_max: 0,
        ..lower.clone()
    }
}

impl Extension for Align {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        if bio.op == Op::Discard {
            match inner(bio.range, self.block) {
                Some(range) => bio.range = range,
                None => return Step::Now(Flow::Done(bio.take().ok())),
            }
        }
        let is_whole = bio.range.is_aligned(self.block);
        match bio.op {
            Op::Write | Op::Zero | Op::Discard if is_whole => self.locks.pass(ctx, bio),
            _ if is_whole => Step::Now(Flow::Down),
            Op::Write | Op::Zero => self.change(ctx, bio.take()),
            Op::Read | Op::Flush | Op::Discard | Op::Ranges(_) | Op::Extents => {
                let (io, bio) = (self.io(ctx), bio.take());
                Step::later(async move { Flow::Done(io.wider(bio).await) })
            }
        }
    }

    fn complete(&self, ctx: &mut Ctx<'_>, _: &mut Done) {
        self.locks.complete(ctx);
    }
}

impl Align {
    fn io(&self, ctx: &Ctx<'_>) -> Io {
        Io { below: ctx.below(), pool: ctx.pool.clone(), block: self.block, described: self.described }
    }

    /// Writes or zeroes a range that fills some lower block in part only.
    fn change(&self, ctx: &Ctx<'_>, mut bio: Bio) -> Step<Flow> {
        let (io, locks) = (self.io(ctx), self.locks.clone());
        let ticket = locks.enter([outer(bio.range, self.block)], Mode::Exclusive);
        Step::later(async move {
            locks.granted(ticket).await;
            let result = match bio.op {
                Op::Zero => io.zero(&bio).await,
                Op::Read | Op::Write | Op::Flush | Op::Discard | Op::Ranges(_) | Op::Extents => {
                    let data = bio.buf.slice(0, bio.buf.len());
                    io.overwrite(&bio, bio.range, data).await
                }
            };
            locks.leave(ticket);
            Flow::Done(Done { result, buf: bio.buf })
        })
    }
}

/// Requests in whole lower blocks.
struct Io {
    below: Below,
    pool: Pool,
    block: u64,
    described: bool,
}

impl Io {
    async fn submit(&self, whole: &Bio, op: Op, range: ByteRange, buf: Buf) -> Done {
        self.below.submit(whole.part(op, range, buf)).await
    }

    /// Reads, or asks for extents, in whole blocks and gives back what was asked for.
    async fn wider(&self, bio: Bio) -> Done {
        let range = outer(bio.range, self.block);
        let head = bio.offset() - range.start();
        if bio.op == Op::Extents {
            let mut done = self.submit(&bio, Op::Extents, range, Buf::empty()).await;
            if let Ok(Reply::Extents(extents)) = &mut done.result {
                *extents = cut(extents, head, bio.len());
            }
            return done;
        }
        let buf = bio.buf.like(&self.pool, range.len() as usize);
        let Done { result, mut buf } = self.submit(&bio, Op::Read, range, buf).await;
        Done { result, buf: buf.slice(head as usize, bio.len() as usize) }
    }

    /// Puts `data` in at `range` and writes the blocks around it in one request. The caller holds an exclusive claim.
    async fn overwrite(&self, whole: &Bio, range: ByteRange, data: Buf) -> Result<Reply, BioError> {
        let is_described = data.is_described();
        let read = async |at: ByteRange| {
            let len = at.len() as usize;
            let buf = if is_described { Buf::described(len, 0) } else { Buf::unique(&self.pool, len) };
            let done = self.submit(whole, Op::Read, at, buf).await;
            done.result.map(|_| done.buf)
        };
        let joined = partial::widened(range, self.block, data, &self.pool, read).await?;
        self.submit(whole, Op::Write, outer(range, self.block), joined).await.result
    }

    /// Zeroes whole blocks below and overwrites the edges. The caller holds an exclusive claim.
    async fn zero(&self, whole: &Bio) -> Result<Reply, BioError> {
        if let Some(middle) = inner(whole.range, self.block) {
            self.submit(whole, Op::Zero, middle, Buf::empty()).await.result?;
        }
        for rim in partial::rims(whole.range, self.block) {
            self.overwrite(whole, rim, self.zeroes(rim.len())).await?;
        }
        Ok(Reply::Empty)
    }

    fn zeroes(&self, len: u64) -> Buf {
        if self.described { Buf::described(len as usize, 0) } else { Buf::zeroed(&self.pool, len as usize) }
    }
}

#[cfg(test)]
mod tests;
