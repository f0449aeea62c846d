//! `emulate`: remapping by copying, and zeroing by writing, over a device that cannot do it.
//!
//! Range vectors are done element by element under an exclusive claim on all their ranges, so that other requests see
//! all of a vector or nothing. A crash in between is visible: see the layer's page.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos, span};
use esker_block::locks::{Mode, RangeLocks};
use esker_block::{
    Below, Bio, BioError, Buf, Ctx, Done, Durability, Extension, Flow, Kind, KindError, Layer, Limits, Make, Op,
    OpKind, Param, ParamType, RangeOp, Reply, Role, Stat, StatInfo, Step, Support, flight,
};
use esker_rt::Rt;
use esker_rt::mem::Pool;

const PARAMS: &[Param] = &[
    Param::with_default("staging", ParamType::Size, "1MiB", "Bytes copied by one pair of read and write."),
    Param::with_default("width", ParamType::Count, "4", "Pairs under way at once; memory is width x staging."),
    Param::with_default("ranges", ParamType::Count, "64", "Most elements of a range vector."),
];

const REMAPS: [OpKind; 3] = [OpKind::Clone, OpKind::Move, OpKind::Delete];

const STATS: &[StatInfo] = &[StatInfo::of("copied_bytes", "Bytes that were copied in place of clones and moves.")];

/// The manifest.
pub static KIND: Kind = Kind {
    role: Role::Modifier,
    durability: Durability::Weakens,
    transparent: false,
    cost: Nanos(50),
    stats: STATS,
    ..Kind::layer(
        "emulate",
        "Clones, moves, deletes and zeroes by copying where the device below cannot.",
        PARAMS,
        build,
    )
};

struct Emulate {
    /// What the lower device lacks.
    remaps: bool,
    zeroes: bool,
    tools: Tools,
}

/// What one emulated request works with.
#[derive(Clone)]
struct Tools {
    /// Bytes per copy; a multiple of the block below.
    piece: u64,
    width: usize,
    can_zero: bool,
    must_flush: bool,
    locks: Rc<RangeLocks>,
    copied: Rc<Cell<u64>>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let lower = &make.lowers[0];
    let block = u64::from(lower.block);
    let staging = make.args.int("staging").min(u64::from(lower.transfer_max));
    let (piece, width) = (staging - staging % block, make.args.int("width"));
    let ranges = u32::try_from(make.args.int("ranges")).unwrap_or(u32::MAX);
    if piece == 0 || width == 0 || ranges == 0 {
        return Err(KindError::Unfit(format!(
            "{}: staging must be at least {block} bytes (the block below), width and ranges at least 1",
            make.name
        )));
    }
    let remaps = REMAPS.iter().any(|kind| lower.support(*kind) == Support::No);
    let zeroes = lower.support(OpKind::Zero) == Support::No;
    let tools = Tools {
        piece,
        width: width as usize,
        can_zero: !zeroes,
        must_flush: lower.volatile_cache,
        locks: Rc::default(),
        copied: Rc::default(),
    };
    let emulated: &[OpKind] = if remaps { &REMAPS } else { &[] };
    let zero = zeroes.then_some(&OpKind::Zero);
    let limits = emulated.iter().chain(zero).fold(lower.clone(), |l, kind| l.with(*kind, Support::Emulated));
    let (ranges_max, remap) = if remaps { (ranges, lower.block) } else { (lower.ranges_max, lower.remap) };
    Ok(Layer::single(Emulate { remaps, zeroes, tools }, Limits { ranges_max, remap, ..limits }))
}

impl Extension for Emulate {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        match &bio.op {
            Op::Ranges(ops) if self.remaps => {
                let ops = ops.clone();
                self.remap(ctx, bio.take(), ops)
            }
            Op::Zero if self.zeroes => self.zero(ctx, bio.take()),
            // Without emulated vectors nothing excludes anything.
            Op::Read | Op::Write | Op::Zero | Op::Discard | Op::Extents if self.remaps => {
                self.tools.locks.pass(ctx, bio)
            }
            Op::Read | Op::Write | Op::Flush | Op::Zero | Op::Discard | Op::Ranges(_) | Op::Extents => {
                Step::Now(Flow::Down)
            }
        }
    }

    fn complete(&self, ctx: &mut Ctx<'_>, _: &mut Done) {
        self.tools.locks.complete(ctx);
    }

    fn stats(&self) -> Vec<Stat> {
        vec![Stat { name: "copied_bytes", value: self.tools.copied.get() as f64 }]
    }
}

impl Emulate {
    fn remap(&self, ctx: &Ctx<'_>, bio: Bio, ops: Box<[RangeOp]>) -> Step<Flow> {
        let touched: Option<Vec<_>> = ops.iter().map(RangeOp::ranges).collect();
        let Some(touched) = touched else {
            return Step::Now(Flow::Done(bio.fail(BioError::invalid("a destination beyond 64 bits"))));
        };
        let ranges = touched.into_iter().flat_map(|(src, dst)| src.into_iter().chain([dst]));
        self.claimed(ctx, bio, ranges, Mode::Exclusive, async move |job: EmulatedRequest, whole: &Bio| {
            for op in ops {
                job.apply(whole, op).await?;
            }
            job.flush(whole).await
        })
    }

    fn zero(&self, ctx: &Ctx<'_>, bio: Bio) -> Step<Flow> {
        let range = bio.range;
        self.claimed(ctx, bio, [range], Mode::Shared, async move |job: EmulatedRequest, whole: &Bio| {
            job.erase(whole, range).await
        })
    }

    /// Answers a request by `work` under a claim.
    fn claimed(
        &self,
        ctx: &Ctx<'_>,
        bio: Bio,
        ranges: impl IntoIterator<Item = ByteRange>,
        mode: Mode,
        work: impl AsyncFnOnce(EmulatedRequest, &Bio) -> Result<(), BioError> + 'static,
    ) -> Step<Flow> {
        let job = EmulatedRequest {
            rt: ctx.rt.clone(),
            pool: ctx.pool.clone(),
            below: ctx.below(),
            tools: self.tools.clone(),
        };
        let locks = self.tools.locks.clone();
        let ticket = locks.enter(ranges, mode);
        Step::later(async move {
            locks.granted(ticket).await;
            let result = work(job, &bio).await;
            locks.leave(ticket);
            Flow::Done(Done { result: result.map(|()| Reply::Empty), buf: bio.buf })
        })
    }
}

/// One emulated request.
struct EmulatedRequest {
    rt: Rt,
    pool: Pool,
    below: Below,
    tools: Tools,
}

impl EmulatedRequest {
    async fn apply(&self, whole: &Bio, op: RangeOp) -> Result<(), BioError> {
        match op {
            RangeOp::Clone { src, dst } => self.copy(whole, src, dst).await,
            RangeOp::Delete { at } => self.erase(whole, at).await,
            RangeOp::Move { src, dst } => {
                self.copy(whole, src, dst).await?;
                // The source may only go once the copy cannot be lost.
                self.flush(whole).await?;
                self.erase(whole, src).await
            }
        }
    }

    async fn copy(&self, whole: &Bio, src: ByteRange, dst: u64) -> Result<(), BioError> {
        let pieces = src.split_at_multiples(self.tools.piece).map(|from| {
            let to = span(dst + (from.start() - src.start()), from.len());
            // Always real bytes: a described read would bring nothing to write.
            let read = whole.part(Op::Read, from, Buf::unique(&self.pool, from.len() as usize));
            let (below, copied) = (self.below.clone(), self.tools.copied.clone());
            let write = whole.part(Op::Write, to, Buf::empty());
            Step::later(async move {
                let Done { result, buf } = below.submit(read).await;
                result?;
                copied.set(copied.get() + to.len());
                below.submit(Bio { buf, ..write }).await.result
            })
        });
        self.all(pieces).await
    }

    async fn erase(&self, whole: &Bio, range: ByteRange) -> Result<(), BioError> {
        if self.tools.can_zero {
            let bio = whole.part(Op::Zero, range, Buf::empty());
            return self.below.submit(bio).await.result.map(drop);
        }
        let pieces = range.split_at_multiples(self.tools.piece).map(|at| {
            let buf = Buf::zeroed(&self.pool, at.len() as usize);
            self.below.submit(whole.part(Op::Write, at, buf)).map(|done| done.result)
        });
        self.all(pieces).await
    }

    async fn flush(&self, whole: &Bio) -> Result<(), BioError> {
        if !self.tools.must_flush {
            return Ok(());
        }
        let bio = whole.part(Op::Flush, span(0, 0), Buf::empty());
        self.below.submit(bio).await.result.map(drop)
    }

    /// Runs pieces until one fails.
    async fn all(&self, pieces: impl Iterator<Item = Step<Result<Reply, BioError>>>) -> Result<(), BioError> {
        let mut all = Ok(());
        flight::windowed(&self.rt, self.tools.width, pieces, |piece| {
            if let (Err(error), Ok(())) = (piece, &all) {
                all = Err(error);
            }
            all.is_ok()
        })
        .await;
        all
    }
}

#[cfg(test)]
mod tests;
