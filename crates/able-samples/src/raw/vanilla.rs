//! RAW by hand: it keeps the ranges that are being compared, and copies requests itself.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{
    Below, Bio, BioError, Buf, Ctx, Done, Extension, Flow, Kind, KindError, Layer, Make, Op, OpKind, Role, Step,
};
use esker_rt::mem::Pool;
use esker_rt::sync::Notify;

use super::compare;

/// The manifest.
pub static KIND: Kind = Kind {
    passes: crate::PASSES,
    role: Role::Modifier,
    needs_bytes: true,
    ..Kind::layer("raw-vanilla", "Read after write by hand.", &[], build)
};

struct Raw {
    changes: Rc<Changes>,
}

/// Changes under way, by the order in which they came.
#[derive(Default)]
struct Changes {
    under_way: RefCell<BTreeMap<u64, ByteRange>>,
    last: Cell<u64>,
    ended: Notify,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    Ok(Layer::single(Raw { changes: Rc::default() }, make.lowers[0].clone()))
}

impl Extension for Raw {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        match bio.op {
            Op::Read | Op::Flush | Op::Extents => Step::Now(Flow::Down),
            Op::Write => self.write(ctx, bio.take()),
            Op::Zero | Op::Discard => self.change(ctx, bio),
            Op::Ranges(_) => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Clone)))),
        }
    }

    fn complete(&self, ctx: &mut Ctx<'_>, _: &mut Done) {
        if ctx.scratch != 0 {
            self.changes.end(ctx.scratch);
        }
    }
}

impl Changes {
    fn begin(&self, range: ByteRange) -> u64 {
        let mut under_way = self.under_way.borrow_mut();
        let number = self.last.get() + 1;
        self.last.set(number);
        under_way.insert(number, range);
        number
    }

    fn is_first(&self, number: u64) -> bool {
        let under_way = self.under_way.borrow();
        let range = under_way[&number];
        under_way.range(..number).all(|(_, earlier)| !earlier.overlaps(range))
    }

    async fn turn(&self, number: u64) {
        while !self.is_first(number) {
            self.ended.wait().await;
        }
    }

    fn end(&self, number: u64) {
        let mut under_way = self.under_way.borrow_mut();
        under_way.remove(&number);
        self.ended.notify_all();
    }
}

impl Raw {
    /// Zeroes and discards are not compared, but they wait for their turn.
    fn change(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let number = self.changes.begin(bio.range);
        ctx.scratch = number;
        if self.changes.is_first(number) {
            return Step::Now(Flow::Down);
        }
        let (changes, bio) = (self.changes.clone(), bio.take());
        Step::later(async move {
            changes.turn(number).await;
            Flow::Resume(bio)
        })
    }

    fn write(&self, ctx: &Ctx<'_>, bio: Bio) -> Step<Flow> {
        let (changes, pool, below) = (self.changes.clone(), ctx.pool.clone(), ctx.below());
        let number = changes.begin(bio.range);
        Step::later(async move {
            changes.turn(number).await;
            let done = write_and_compare(&pool, &below, bio).await;
            changes.end(number);
            Flow::Done(done)
        })
    }
}

async fn write_and_compare(pool: &Pool, below: &Below, mut bio: Bio) -> Done {
    let copy =
        Bio { op: Op::Write, range: bio.range, flags: bio.flags, dest: bio.dest, buf: bio.buf.share(), tag: bio.tag };
    let mut done = below.submit(copy).await;
    if done.result.is_ok() {
        let read = Bio::read(bio.offset(), Buf::unique(pool, bio.buf.len())).to(bio.dest).tagged(bio.tag);
        let back = below.submit(read).await;
        let verdict = match back.result {
            Ok(_) => compare(&bio, &back.buf),
            Err(error) => Err(error),
        };
        if let Err(error) = verdict {
            done.result = Err(error);
        }
    }
    Done { result: done.result, buf: bio.buf }
}
