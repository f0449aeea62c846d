//! Splitting a request over several lower devices and joining the answers: what `concat` and `stripe` share.

use esker_base::ByteRange;
use esker_block::{
    Bio, BioError, Buf, Ctx, Done, Extension, Flow, Kind, KindError, Limits, Make, Op, OpKind, OpSet, Reply, Role,
    Routes, Step, VolumeId, flight,
};

use crate::{part_of, span};

/// Parts of one request that are under way at once.
const WIDTH: usize = 128;

/// The operations that a split device has; remapping between lower devices would be copying (`emulate`, above it).
pub(crate) const PASSES: OpSet = OpSet::WITHOUT_REMAP;

/// Where a byte of the upper port lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LowerAddress {
    /// Lower device.
    pub lower: usize,
    /// Byte of that lower device.
    pub at: u64,
    /// Bytes from there on that lie one after the other at both ends (> 0).
    pub run: u64,
}

/// How lower devices make up the upper one.
pub(crate) trait Layout: 'static {
    /// Number of lower devices.
    fn lowers(&self) -> usize;

    /// Where the byte at `offset` lies.
    fn place(&self, offset: u64) -> LowerAddress;

    /// Bytes of a lower device that belong before `offset`. Any range of the upper port is therefore *one* range of
    /// each lower device.
    fn before(&self, lower: usize, offset: u64) -> u64;

    /// Whether all bytes stay where they are if this lower device grows.
    fn follows(&self, _lower: usize) -> bool {
        true
    }
}

/// The limits of `size` bytes spread over all lower devices.
pub(crate) fn limits(make: &Make<'_>, size: Option<u64>) -> Result<Limits, KindError> {
    let (first, rest) = make.lowers.split_first().expect("the manifest demands lower devices");
    let both = rest.iter().fold(first.clone(), |all, next| all.strictest(next));
    let size = size.filter(|size| *size > 0).ok_or_else(|| {
        KindError::Unfit(format!("{}: the devices below make up no bytes, or more than fit in 64 bits", make.name))
    })?;
    let atomic = make.lowers.iter().map(|lower| lower.atomic).min().unwrap_or(both.block);
    if atomic < both.block {
        return Err(KindError::Unfit(format!(
            "{}: a power cut could tear a block: the largest block below has {} bytes, but another device below keeps \
             only {atomic} bytes whole; put `align block={atomic}` on the device with the larger blocks",
            make.name, both.block
        )));
    }
    // A power cut may fall between the parts of a write, and any write of more than a block may have parts.
    Ok(Limits { size, atomic: both.block, ranges_max: 0, ..both })
}

/// The manifest of a split device; `lowers` and parameters are the kind's own.
pub(crate) const fn kind(kind: Kind) -> Kind {
    let medium = esker_block::Medium::Arranged;
    Kind { passes: PASSES, role: Role::Modifier, routes: Routes::FORWARD, medium, transparent: false, ..kind }
}

/// The extension over a layout.
pub(crate) struct Split<L>(pub L);

impl<L: Layout> Extension for Split<L> {
    fn follows(&self, lower: usize) -> bool {
        self.0.follows(lower)
    }

    fn completes(&self) -> bool {
        false
    }

    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        match bio.op {
            Op::Flush => return self.everywhere(ctx, bio.take()),
            Op::Ranges(_) => return Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Clone)))),
            Op::Read | Op::Write | Op::Zero | Op::Discard | Op::Extents => {}
        }
        let first = self.0.place(bio.offset());
        if first.run < bio.len() {
            match bio.op {
                Op::Read | Op::Write => return self.pieces(ctx, bio.take()),
                // An answer about extents may end before the range does.
                Op::Extents => bio.range = span(bio.offset(), first.run),
                _ => return self.everywhere(ctx, bio.take()),
            }
        }
        bio.range = span(first.at, bio.len());
        bio.dest = ctx.lower(first.lower);
        Step::Now(Flow::Down)
    }
}

impl<L: Layout> Split<L> {
    /// Splits a request that carries data, at every break.
    fn pieces(&self, ctx: &Ctx<'_>, mut whole: Bio) -> Step<Flow> {
        let (start, end) = (whole.offset(), whole.range.end());
        let mut parts = Vec::new();
        let mut at = start;
        while at < end {
            let place = self.0.place(at);
            let len = place.run.min(end - at);
            let buf = match whole.op {
                Op::Read => whole.buf.like(ctx.pool, len as usize),
                _ => whole.buf.slice((at - start) as usize, len as usize),
            };
            parts.push(part(&whole, span(place.at, len), buf, ctx.lower(place.lower)));
            at += len;
        }
        join(ctx, whole, parts)
    }

    /// Sends a request without data to each lower device: a flush to all, others to those that hold bytes of the range.
    fn everywhere(&self, ctx: &Ctx<'_>, whole: Bio) -> Step<Flow> {
        let parts = (0..self.0.lowers()).filter_map(|lower| {
            let (from, to) = (self.0.before(lower, whole.offset()), self.0.before(lower, whole.range.end()));
            let is_touched = from < to || whole.op == Op::Flush;
            let range = if whole.op == Op::Flush { whole.range } else { span(from, to - from) };
            is_touched.then(|| part(&whole, range, Buf::empty(), ctx.lower(lower)))
        });
        let parts = parts.collect();
        join(ctx, whole, parts)
    }
}

fn part(whole: &Bio, range: ByteRange, buf: Buf, lower: VolumeId) -> Bio {
    part_of(whole, whole.op.clone(), range, buf).to(lower)
}

/// Submits the parts and makes one answer of theirs: the first error in the order of offsets, and for a read the chain
/// of what the parts read.
fn join(ctx: &Ctx<'_>, whole: Bio, parts: Vec<Bio>) -> Step<Flow> {
    let (rt, below) = (ctx.rt.clone(), ctx.below());
    Step::later(async move {
        let mut result = Ok(Reply::Empty);
        let mut bufs = Vec::with_capacity(parts.len());
        let steps = parts.into_iter().map(|bio| below.submit(bio));
        flight::windowed(&rt, WIDTH, steps, |done| {
            if result.is_ok() {
                result = done.result;
            }
            bufs.push(done.buf);
            true
        })
        .await;
        let buf = if whole.op == Op::Read { Buf::chain(bufs) } else { whole.buf };
        Flow::Done(Done { result, buf })
    })
}

#[cfg(test)]
pub(crate) mod tests;
