//! RAW on the primitives.

use std::rc::Rc;

use esker_block::locks::{Mode, RangeLocks};
use esker_block::{Bio, BioError, Ctx, Done, Extension, Flow, Kind, KindError, Layer, Make, Op, OpKind, Role, Step};
use esker_layer_kit::Io;

use super::compare;

/// The manifest.
pub static KIND: Kind = Kind {
    passes: crate::PASSES,
    role: Role::Modifier,
    needs_bytes: true,
    ..Kind::layer("raw-able", "Read after write on the primitives.", &[], build)
};

struct Raw {
    locks: Rc<RangeLocks>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    Ok(Layer::single(Raw { locks: Rc::default() }, make.lowers[0].clone()))
}

impl Extension for Raw {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        match bio.op {
            Op::Read | Op::Flush | Op::Extents => Step::Now(Flow::Down),
            Op::Write => self.write(Io::of(ctx), bio.take()),
            Op::Zero | Op::Discard => self.locks.pass(ctx, bio),
            Op::Ranges(_) => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Clone)))),
        }
    }

    fn complete(&self, ctx: &mut Ctx<'_>, _: &mut Done) {
        self.locks.complete(ctx);
    }
}

impl Raw {
    fn write(&self, io: Io, mut bio: Bio) -> Step<Flow> {
        let locks = self.locks.clone();
        let ticket = locks.enter([bio.range], Mode::Exclusive);
        Step::later(async move {
            locks.granted(ticket).await;
            let mut result = io.submit(io.clone_bio(&mut bio)).await.result;
            if result.is_ok() {
                let back = io.read(bio.dest, bio.offset(), bio.buf.len()).await;
                if let Err(error) = back.and_then(|back| compare(&bio, &back)) {
                    result = Err(error);
                }
            }
            locks.leave(ticket);
            Flow::Done(Done { result, buf: bio.buf })
        })
    }
}
