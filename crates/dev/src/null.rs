//! Kind `null`: a device that keeps nothing.

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{
    Bio, BioError, Device, Done, Durability, Extent, ExtentState, Kind, KindError, Limits, Make, Op, OpKind, Param,
    ParamType, Reply, Step,
};
use esker_rt::Rt;

use crate::memory::check_geometry;

const PARAMS: &[Param] = &[
    Param::required("size", ParamType::Size, "Size of the device."),
    Param::with_default("block", ParamType::Size, "512", "Logical block, a power of two from 512 to 64KiB."),
    Param::with_default("latency", ParamType::Span, "0", "Time that each answer takes."),
];

/// The manifest.
pub static KIND: Kind = Kind {
    durability: Durability::Weakens,
    cost: Nanos(10),
    ..Kind::device(
        "null",
        "Discards writes and reads as zeroes, at once or after a set time: measures everything above it.",
        PARAMS,
        build,
    )
};

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let (size, block) = (make.args.int("size"), make.args.int("block"));
    check_geometry(size, block)?;
    let device = NullDevice::new(size, block as u32);
    Ok(match make.args.span("latency") {
        Nanos::ZERO => Rc::new(device),
        latency => Rc::new(NullDevice { wait: Some((make.rt.clone(), latency)), ..device }),
    })
}

/// The device.
#[derive(Debug)]
pub struct NullDevice {
    limits: Limits,
    wait: Option<(Rt, Nanos)>,
}

impl NullDevice {
    /// A device of `size` bytes, a multiple of `block`.
    pub fn new(size: u64, block: u32) -> NullDevice {
        NullDevice { limits: Limits { described: true, ..Limits::plain(size, block) }, wait: None }
    }
}

impl Device for NullDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        match &self.wait {
            None => Step::Now(answer(bio)),
            Some((rt, latency)) => Step::After(rt.sleep(*latency), answer(bio)),
        }
    }
}

fn answer(mut bio: Bio) -> Done {
    match &bio.op {
        Op::Read => {
            blank(&mut bio);
            bio.ok()
        }
        Op::Write | Op::Flush | Op::Zero | Op::Discard => bio.ok(),
        Op::Extents => {
            let hole = Extent { len: bio.len(), state: ExtentState::Hole };
            Done { result: Ok(Reply::Extents([hole].into())), buf: bio.buf }
        }
        Op::Ranges(ops) => {
            let kind = ops.first().map_or(OpKind::Clone, |op| op.kind());
            bio.fail(BioError::Unsupported(kind))
        }
    }
}

/// Zeroes a carried payload: it may hold what another client left in its slab.
fn blank(bio: &mut Bio) {
    const ZEROES: [u8; 4096] = [0; 4096];
    if bio.buf.is_described() {
        return;
    }
    if let Some(bytes) = bio.buf.bytes_mut() {
        return bytes.fill(0);
    }
    for at in (0..bio.buf.len()).step_by(ZEROES.len()) {
        let len = ZEROES.len().min(bio.buf.len() - at);
        bio.buf.fill(at, &ZEROES[..len]);
    }
}
