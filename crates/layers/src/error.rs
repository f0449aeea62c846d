//! `error`: fails chosen requests, for tests of what stands above.

use std::cell::{Cell, RefCell};

use esker_base::{ByteRange, Stream};
use esker_block::{
    Bio, BioError, Ctx, Extension, Flow, Kind, KindError, Layer, Make, Op, OpKind, OpSet, Param, ParamType, RangeOp,
    Role, Routes, Stat, StatInfo, Step,
};

const PARAMS: &[Param] = &[
    Param::with_default(
        "ops",
        ParamType::Text,
        "all",
        "Operations that may fail: `all`, or words such as `read,flush`.",
    ),
    Param::with_default("probability", ParamType::Ratio, "0", "Probability that a matching request fails."),
    Param::optional("every", ParamType::Count, "Every n-th matching request fails."),
    Param::with_default("start", ParamType::Size, "0", "First byte that matches; flushes match everywhere."),
    Param::optional("len", ParamType::Size, "Bytes that match; by default all behind `start`."),
    Param::with_default("armed", ParamType::Flag, "true", "Whether the layer fails requests at all."),
];

const STATS: &[StatInfo] =
    &[StatInfo::of("matched", "Requests that matched."), StatInfo::of("failed", "Requests that failed.")];

/// The manifest.
pub static KIND: Kind = Kind {
    role: Role::Modifier,
    routes: Routes::FORWARD,
    stats: STATS,
    ..Kind::layer("error", "Fails chosen requests.", PARAMS, build)
};

struct Error {
    name: String,
    ops: OpSet,
    probability: f64,
    /// 0: never.
    every: u64,
    range: ByteRange,
    armed: bool,
    stream: RefCell<Stream>,
    matched: Cell<u64>,
    failed: Cell<u64>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let args = make.args;
    let start = args.int("start");
    let len = args.int_opt("len").unwrap_or(u64::MAX - start);
    let range = ByteRange::new(start, len)
        .ok_or_else(|| KindError::Unfit(format!("{}: start + len does not fit in 64 bits", make.name)))?;
    let error = Error {
        name: make.name.to_string(),
        ops: read_ops(args.text("ops"))?,
        probability: args.float("probability"),
        every: args.int_opt("every").unwrap_or(0),
        range,
        armed: args.flag("armed"),
        stream: RefCell::new(make.rt.rng(&format!("error {}", make.name))),
        matched: Cell::new(0),
        failed: Cell::new(0),
    };
    crate::transparent(make, error)
}

fn read_ops(text: &str) -> Result<OpSet, KindError> {
    if text.trim() == "all" {
        return Ok(OpSet::ALL);
    }
    let find = |word: &str| OpKind::ALL.into_iter().find(|kind| kind.word() == word.trim());
    let kinds: Option<Vec<OpKind>> = text.split(',').map(find).collect();
    let known = || OpKind::ALL.map(OpKind::word).join(", ");
    kinds.map(|kinds| OpSet::of(&kinds)).ok_or_else(|| KindError::BadValue {
        param: "ops".into(),
        text: text.into(),
        want: format!("`all`, or words separated by commas: {}", known()),
    })
}

impl Error {
    fn matches(&self, bio: &Bio) -> bool {
        let here = |kind, range: ByteRange| self.ops.has(kind) && self.range.overlaps(range);
        match &bio.op {
            Op::Read => here(OpKind::Read, bio.range),
            Op::Write => here(OpKind::Write, bio.range),
            Op::Flush => self.ops.has(OpKind::Flush),
            Op::Zero => here(OpKind::Zero, bio.range),
            Op::Discard => here(OpKind::Discard, bio.range),
            Op::Extents => here(OpKind::Extents, bio.range),
            Op::Ranges(ops) => ops.iter().any(|op| touches(op).any(|range| here(op.kind(), range))),
        }
    }

    /// Draws for every matching request, so that what fails does not depend on what else fails.
    fn fails(&self) -> bool {
        self.matched.set(self.matched.get() + 1);
        let by_chance = self.stream.borrow_mut().chance(self.probability);
        let by_count = self.every > 0 && self.matched.get().is_multiple_of(self.every);
        by_chance || by_count
    }
}

fn touches(op: &RangeOp) -> impl Iterator<Item = ByteRange> {
    op.ranges().into_iter().flat_map(|(src, dst)| src.into_iter().chain([dst]))
}

impl Extension for Error {
    fn completes(&self) -> bool {
        false
    }

    fn issue(&self, _: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        if !self.armed || !self.matches(bio) || !self.fails() {
            return Step::Now(Flow::Down);
        }
        self.failed.set(self.failed.get() + 1);
        let error = BioError::io(format!("injected by {}", self.name));
        Step::Now(Flow::Done(bio.take().fail(error)))
    }

    fn stats(&self) -> Vec<Stat> {
        let stat = |name, count: &Cell<u64>| Stat { name, value: count.get() as f64 };
        vec![stat("matched", &self.matched), stat("failed", &self.failed)]
    }
}

#[cfg(test)]
mod tests;
