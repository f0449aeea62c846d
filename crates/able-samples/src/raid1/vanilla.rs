//! Simple RAID-1 by hand: it copies requests, tracks heads, tries again and joins the answers itself.

use std::cell::Cell;
use std::rc::Rc;

use esker_block::{
    Arity, Below, Bio, BioError, Ctx, Done, Extension, Flow, Kind, KindError, Layer, Make, Op, OpKind, Reply, Role,
    Stat, Step, VolumeId,
};
use esker_rt::Level;
use esker_rt::sync::join_all;

use super::{TRIES, limits};

/// The manifest.
pub static KIND: Kind = Kind {
    lowers: Arity::AtLeast(2),
    passes: crate::PASSES,
    role: Role::Modifier,
    transparent: false,
    ..Kind::layer("raid1-vanilla", "Simple RAID-1 by hand.", &[], build)
};

struct Raid1 {
    disks: Rc<[Disk; 2]>,
}

#[derive(Default)]
struct Disk {
    failed: Cell<bool>,
    /// Where the last request ended.
    head: Cell<u64>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    Ok(Layer::single(Raid1 { disks: Rc::default() }, limits(make)?))
}

impl Extension for Raid1 {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        match bio.op {
            Op::Read | Op::Extents => {
                let disk = self.nearest(bio.offset());
                self.disks[disk].moved(bio);
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

impl Disk {
    fn moved(&self, bio: &Bio) {
        if matches!(bio.op, Op::Read | Op::Write | Op::Zero) {
            self.head.set(bio.range.end());
        }
    }
}

impl Raid1 {
    fn good(&self) -> Vec<usize> {
        (0..2).filter(|disk| !self.disks[*disk].failed.get()).collect()
    }

    fn nearest(&self, offset: u64) -> usize {
        let distance = |disk: &usize| self.disks[*disk].head.get().abs_diff(offset);
        self.good().into_iter().min_by_key(distance).expect("a disk is good")
    }

    fn both(&self, ctx: &Ctx<'_>, mut bio: Bio) -> Step<Flow> {
        let (rt, below, good) = (ctx.rt.clone(), ctx.below(), self.good());
        let mut sends = Vec::with_capacity(good.len());
        for disk in &good {
            self.disks[*disk].moved(&bio);
            sends.push(send(below.clone(), copy(&mut bio, ctx.lower(*disk))));
        }
        let disks = self.disks.clone();
        Step::later(async move {
            let answers = join_all(sends).await;
            let is_good = answers.iter().any(|answer| answer.is_ok());
            for (disk, answer) in good.iter().zip(&answers).filter(|(_, answer)| is_good && answer.is_err()) {
                disks[*disk].failed.set(true);
                rt.log(Level::Error, format_args!("disk {disk} has failed: {answer:?}"));
            }
            let result = answers.into_iter().reduce(Result::or).expect("a disk is good");
            Flow::Done(Done { result, buf: bio.buf })
        })
    }
}

/// The same request for one disk; the payload is shared.
fn copy(bio: &mut Bio, disk: VolumeId) -> Bio {
    Bio { op: bio.op.clone(), range: bio.range, flags: bio.flags, dest: disk, buf: bio.buf.share(), tag: bio.tag }
}

/// Sends a request, and again if it fails.
async fn send(below: Below, mut bio: Bio) -> Result<Reply, BioError> {
    let dest = bio.dest;
    for _ in 0..TRIES {
        let again = copy(&mut bio, dest);
        let done = below.submit(bio).await;
        if done.result.is_ok() {
            return done.result;
        }
        bio = again;
    }
    below.submit(bio).await.result
}
