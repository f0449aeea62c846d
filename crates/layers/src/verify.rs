//! `verify`: reads each write back and compares (read after write, ABLE's RAW). So a device that stores other bytes is
//! noticed at the write, not when the data is needed.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::locks::{Mode, RangeLocks};
use esker_block::{
    Below, Bio, BioError, Buf, Ctx, Done, Ends, Extension, Flow, Kind, KindError, Layer, Make, Op, OpKind, OpSet, Role,
    Routes, Stat, StatInfo, Step,
};
use esker_rt::mem::Pool;
use esker_rt::{Level, Rt};

/// What a range vector leaves in its destinations is not known here.
const STATS: &[StatInfo] = &[
    StatInfo::of("verified_bytes", "Bytes that were read back."),
    StatInfo::of("corrupt_writes", "Writes that read back as other bytes."),
];

/// The manifest.
pub static KIND: Kind = Kind {
    passes: OpSet::WITHOUT_REMAP,
    // It changes nothing, but it creates reads.
    role: Role::Modifier,
    routes: Routes { forward: Ends::All, generate: Ends::All, spontaneous: false },
    needs_bytes: true,
    transparent: true,
    cost: Nanos(100),
    stats: STATS,
    ..Kind::layer("verify", "Reads each write back and compares.", &[], build)
};

/// Claims keep other changes off a range until it is compared; reads need none.
struct Verify {
    shared: Rc<Shared>,
}

struct Shared {
    name: String,
    locks: Rc<RangeLocks>,
    verified: Cell<u64>,
    corrupt: Cell<u64>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let shared = Shared {
        name: make.name.to_string(),
        locks: Rc::default(),
        verified: Cell::default(),
        corrupt: Cell::default(),
    };
    crate::transparent(make, Verify { shared: Rc::new(shared) })
}

impl Extension for Verify {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        match &bio.op {
            Op::Write => {
                let (shared, below, bio) = (self.shared.clone(), ctx.below(), bio.take());
                let (rt, pool) = (ctx.rt.clone(), ctx.pool.clone());
                Step::later(async move { Flow::Done(shared.write(&rt, &pool, &below, bio).await) })
            }
            Op::Zero | Op::Discard => self.shared.locks.pass(ctx, bio),
            Op::Ranges(_) => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Clone)))),
            Op::Read | Op::Flush | Op::Extents => Step::Now(Flow::Down),
        }
    }

    fn complete(&self, ctx: &mut Ctx<'_>, _: &mut Done) {
        self.shared.locks.complete(ctx);
    }

    fn stats(&self) -> Vec<Stat> {
        vec![
            Stat { name: "verified_bytes", value: self.shared.verified.get() as f64 },
            Stat { name: "corrupt_writes", value: self.shared.corrupt.get() as f64 },
        ]
    }
}

impl Shared {
    async fn write(&self, rt: &Rt, pool: &Pool, below: &Below, mut bio: Bio) -> Done {
        let ticket = self.locks.enter([bio.range], Mode::Exclusive);
        self.locks.granted(ticket).await;
        let payload = bio.buf.share();
        let copy = bio.part(Op::Write, bio.range, payload);
        let mut result = below.submit(copy).await.result;
        if result.is_ok() {
            let read = Bio::read(bio.offset(), Buf::unique(pool, bio.buf.len())).tagged(bio.tag).to(bio.dest);
            let back = below.submit(read).await;
            result = match back.result {
                Ok(_) if back.buf.same_bytes(&bio.buf) => result,
                Ok(_) => Err(self.corrupt(rt, &bio, &back.buf)),
                Err(error) => Err(error),
            };
        }
        self.locks.leave(ticket);
        self.verified.set(self.verified.get() + bio.len());
        Done { result, buf: bio.buf }
    }

    fn corrupt(&self, rt: &Rt, bio: &Bio, back: &Buf) -> BioError {
        self.corrupt.set(self.corrupt.get() + 1);
        let (wrote, read) = (bio.buf.to_vec(), back.to_vec());
        let first = wrote.iter().zip(&read).position(|(a, b)| a != b).unwrap_or(0);
        let at = bio.offset() + first as u64;
        rt.log(Level::Error, format_args!("{}: byte {at} reads back as other than was written", self.name));
        BioError::Corrupt(at)
    }
}

#[cfg(test)]
mod tests;
