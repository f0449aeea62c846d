//! `delay`: every request waits before it goes on.

use std::cell::RefCell;

use esker_base::{Nanos, Stream};
use esker_block::{Bio, Ctx, Extension, Flow, Kind, KindError, Layer, Make, Op, Param, ParamType, Step};

const PARAMS: &[Param] = &[
    Param::with_default("read", ParamType::Span, "0", "Wait before reads and extent queries."),
    Param::with_default("write", ParamType::Span, "0", "Wait before writes, zeroes, discards and range vectors."),
    Param::with_default("flush", ParamType::Span, "0", "Wait before flushes."),
    Param::with_default(
        "jitter",
        ParamType::Span,
        "0",
        "Largest random time that is added, evenly distributed, to a wait that is not 0.",
    ),
];

/// The manifest.
pub static KIND: Kind = Kind::layer("delay", "Makes every request wait before it goes on.", PARAMS, build);

struct Delay {
    read: Nanos,
    write: Nanos,
    flush: Nanos,
    jitter: Nanos,
    stream: RefCell<Stream>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let [read, write, flush, jitter] = ["read", "write", "flush", "jitter"].map(|name| make.args.span(name));
    let stream = RefCell::new(make.rt.rng(&format!("delay {}", make.name)));
    crate::transparent(make, Delay { read, write, flush, jitter, stream })
}

impl Delay {
    fn wait(&self, op: &Op) -> Nanos {
        let base = match op {
            Op::Read | Op::Extents => self.read,
            Op::Write | Op::Zero | Op::Discard | Op::Ranges(_) => self.write,
            Op::Flush => self.flush,
        };
        if base == Nanos::ZERO || self.jitter == Nanos::ZERO {
            return base;
        }
        base + Nanos(self.stream.borrow_mut().below(self.jitter.0.saturating_add(1)))
    }
}

impl Extension for Delay {
    fn completes(&self) -> bool {
        false
    }

    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let wait = self.wait(&bio.op);
        if wait == Nanos::ZERO {
            return Step::Now(Flow::Down);
        }
        Step::After(ctx.rt.sleep(wait), Flow::Down)
    }
}

#[cfg(test)]
mod tests;
