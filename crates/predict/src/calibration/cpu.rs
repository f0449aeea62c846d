//! Kind `cpu`: takes the CPU time that the layer above it was measured to take. Only twins contain it.

use std::cell::Cell;

use esker_base::Nanos;
use esker_block::{Bio, Ctx, Extension, Flow, Kind, KindError, Layer, Make, Param, ParamType, Step};

/// The manifest.
pub(super) static KIND: Kind = Kind {
    cost: Nanos::ZERO,
    ..Kind::layer(
        "cpu",
        "Takes CPU time.",
        &[
            Param::required("ns", ParamType::Number, "Nanoseconds for each request."),
            Param::required("ns_per_kib", ParamType::Number, "Nanoseconds for each KiB."),
        ],
        build,
    )
};

struct Cpu {
    ns: f64,
    ns_per_kib: f64,
    /// What whole nanoseconds have left over.
    rest: Cell<f64>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let cpu = Cpu { ns: make.args.float("ns"), ns_per_kib: make.args.float("ns_per_kib"), rest: Cell::new(0.0) };
    Ok(Layer::single(cpu, make.lowers[0].clone()))
}

impl Extension for Cpu {
    fn completes(&self) -> bool {
        false
    }

    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let due = self.rest.get() + self.ns + self.ns_per_kib * bio.len() as f64 / 1024.0;
        self.rest.set(due.fract());
        ctx.rt.charge(Nanos(due as u64));
        Step::Now(Flow::Down)
    }
}
