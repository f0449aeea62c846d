//! Splitting a request over several lower devices and joining the answers: what `concat` and `stripe` share.

use esker_base::span;
use esker_block::split::{self, LowerExtent, Splitter};
use esker_block::{
    Below, Bio, BioError, Buf, Ctx, Extension, Flow, Kind, KindError, Limits, Make, Medium, Op, OpKind, OpSet, Role,
    Routes, Step,
};

/// How lower devices make up the upper one.
pub(crate) trait Layout: 'static {
    /// Number of lower devices.
    fn lowers(&self) -> usize;

    /// Where the byte at `offset` lies.
    fn place(&self, offset: u64) -> LowerExtent;

    /// Bytes of a lower device that belong before `offset`. Any range of the upper port is therefore *one* range of
    /// each lower device.
    fn before(&self, lower: usize, offset: u64) -> u64;
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
    let medium = Medium::Arranged;
    // Remapping between lower devices would be copying (`emulate`, above it).
    let passes = OpSet::WITHOUT_REMAP;
    Kind { passes, role: Role::Modifier, routes: Routes::FORWARD, medium, transparent: false, ..kind }
}

/// The extension over a layout.
pub(crate) struct Split<L>(pub L);

impl<L: Layout> Extension for Split<L> {
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
        match bio.op {
            // An answer about extents may end before the range does.
            Op::Extents => bio.range = span(bio.offset(), bio.len().min(first.len)),
            _ if bio.len() <= first.len => {}
            Op::Read | Op::Write => {
                let pieces = split::pieces(bio.range, |at| self.0.place(at));
                return splitter(ctx, &ctx.below()).redirect(bio, &pieces);
            }
            Op::Flush | Op::Zero | Op::Discard | Op::Ranges(_) => return self.everywhere(ctx, bio.take()),
        }
        bio.range = span(first.place.at, bio.len());
        bio.dest = ctx.lower(first.place.lower);
        Step::Now(Flow::Down)
    }
}

fn splitter<'a>(ctx: &Ctx<'a>, below: &'a Below) -> Splitter<'a> {
    Splitter { rt: ctx.rt, pool: ctx.pool, below }
}

impl<L: Layout> Split<L> {
    /// Sends a request without data to each lower device: a flush to all, others to those that hold bytes of the range.
    fn everywhere(&self, ctx: &Ctx<'_>, whole: Bio) -> Step<Flow> {
        let parts = (0..self.0.lowers()).filter_map(|lower| {
            let (from, to) = (self.0.before(lower, whole.offset()), self.0.before(lower, whole.range.end()));
            let is_touched = from < to || whole.op == Op::Flush;
            let range = if whole.op == Op::Flush { whole.range } else { span(from, to - from) };
            is_touched.then(|| whole.part(whole.op.clone(), range, Buf::empty()).to(ctx.lower(lower)))
        });
        let parts = parts.collect();
        splitter(ctx, &ctx.below()).join(whole, parts)
    }
}

#[cfg(test)]
pub(crate) mod tests;
