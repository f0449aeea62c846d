//! `offset`: a window of its lower device, such as a partition.

use esker_base::{ByteRange, span};
use esker_block::{
    Bio, Ctx, Extension, Flow, Kind, KindError, Layer, Limits, Make, Op, OpSet, Param, ParamType, RangeOp, Role,
    Routes, Step,
};

const PARAMS: &[Param] = &[
    Param::with_default("start", ParamType::Size, "0", "First byte of the window."),
    Param::optional("size", ParamType::Size, "Bytes in the window; by default all behind `start`."),
];

/// The manifest.
pub static KIND: Kind = Kind {
    role: Role::Modifier,
    routes: Routes::FORWARD,
    medium: esker_block::Medium::Arranged,
    transparent: false,
    ..Kind::layer("offset", "Shows a window of the device below.", PARAMS, build)
};

struct Offset {
    start: u64,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let lower = &make.lowers[0];
    let start = make.args.int("start");
    let size = make.args.int_opt("size").unwrap_or(lower.size.saturating_sub(start));
    let unfit = |what: &str| {
        let (name, end, block) = (make.name, lower.size, lower.block);
        Err(KindError::Unfit(format!(
            "{name}: the window of {size} bytes at {start} {what}; the device below has {end} bytes in blocks of {block}"
        )))
    };
    match ByteRange::new(start, size) {
        Some(window) if window.end() > lower.size => unfit("leaves the device"),
        None => unfit("leaves the device"),
        Some(window) if window.is_empty() => unfit("is empty"),
        Some(window) if !window.is_aligned(u64::from(lower.block)) => unfit("does not begin and end between blocks"),
        Some(window) => Ok(Layer::single(Offset { start }, upper_limits(lower, window))),
    }
}

/// A window that cuts blocks of the map below in two passes no range vector.
fn upper_limits(lower: &Limits, window: ByteRange) -> Limits {
    let limits = Limits { size: window.len(), ..lower.clone() };
    if window.is_aligned(u64::from(lower.remap)) {
        return limits;
    }
    limits.only(OpSet::WITHOUT_REMAP)
}

impl Offset {
    fn shift(&self, range: ByteRange) -> ByteRange {
        span(self.start + range.start(), range.len())
    }

    fn shift_op(&self, op: RangeOp) -> RangeOp {
        match op {
            RangeOp::Clone { src, dst } => RangeOp::Clone { src: self.shift(src), dst: self.start + dst },
            RangeOp::Move { src, dst } => RangeOp::Move { src: self.shift(src), dst: self.start + dst },
            RangeOp::Delete { at } => RangeOp::Delete { at: self.shift(at) },
        }
    }
}

impl Extension for Offset {
    fn completes(&self) -> bool {
        false
    }

    fn issue(&self, _: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        match &mut bio.op {
            Op::Flush => {}
            Op::Ranges(ops) => ops.iter_mut().for_each(|op| *op = self.shift_op(*op)),
            Op::Read | Op::Write | Op::Zero | Op::Discard | Op::Extents => bio.range = self.shift(bio.range),
        }
        Step::Now(Flow::Down)
    }
}

#[cfg(test)]
mod tests;
