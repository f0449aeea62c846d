//! Simple RAID-1 on the primitives.

use std::cell::Cell;
use std::rc::Rc;

use esker_block::{
    Arity, Bio, BioError, Ctx, Done, Extension, Flow, Kind, KindError, Layer, Make, Op, OpKind, Role, Stat, Step,
};
use esker_layer_kit::io::{Io, retry};

use crate::primitives::lowers::Lowers;
use esker_rt::Level;

use super::{TRIES, limits};

/// The manifest.
pub static KIND: Kind = Kind {
    lowers: Arity::AtLeast(2),
    passes: crate::PASSES,
    role: Role::Modifier,
    transparent: false,
    ..Kind::layer("raid1-able", "Simple RAID-1 on the primitives.", &[], build)
};

struct Raid1 {
    disks: Lowers,
    failed: Rc<[Cell<bool>; 2]>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let raid = Raid1 { disks: Lowers::new(make.lowers), failed: Rc::default() };
    Ok(Layer::single(raid, limits(make)?))
}

impl Extension for Raid1 {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        match bio.op {
            Op::Read | Op::Extents => {
                let disk = self.disks.closest(&self.good(), bio.offset()).expect("a disk is good");
                self.sent(disk, bio);
                bio.dest = ctx.lower(disk);
                Step::Now(Flow::Down)
            }
            Op::Write | Op::Zero | Op::Flush => self.both(ctx, bio.take()),
            Op::Discard => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Discard)))),
            Op::Ranges(_) => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Clone)))),
        }
    }

    fn completes(&self) -> bool {
        false
    }

    fn stats(&self) -> Vec<Stat> {
        vec![Stat { name: "disks_good", value: self.good().len() as f64 }]
    }
}

impl Raid1 {
    fn good(&self) -> Vec<usize> {
        (0..2).filter(|disk| !self.failed[*disk].get()).collect()
    }

    fn sent(&self, disk: usize, bio: &Bio) {
        self.disks.sent(disk, bio).expect("one of the two disks");
    }

    fn both(&self, ctx: &Ctx<'_>, mut bio: Bio) -> Step<Flow> {
        let (io, disks) = (Io::of(ctx), self.good());
        disks.iter().for_each(|disk| self.sent(*disk, &bio));
        let copies = disks.iter().map(|disk| io.clone_bio(&mut bio).to(io.lower(*disk))).collect();
        let failed = self.failed.clone();
        io.fork(copies, retry(TRIES)).map(move |answers| {
            let is_good = answers.iter().any(|answer| answer.result.is_ok());
            for (disk, answer) in disks.iter().zip(&answers).filter(|(_, answer)| is_good && answer.result.is_err()) {
                failed[*disk].set(true);
                io.rt().log(Level::Error, format_args!("disk {disk} has failed: {:?}", answer.result));
            }
            let result = answers.into_iter().map(|answer| answer.result).reduce(Result::or);
            Flow::Done(Done { result: result.expect("a disk is good"), buf: bio.buf })
        })
    }
}
