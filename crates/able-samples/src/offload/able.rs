//! Off-loading on the primitives.

use esker_base::span;
use std::cell::OnceCell;
use std::rc::Rc;

use esker_block::split::{LowerAddress, LowerExtent};
use esker_block::{
    Bio, BioError, Ctx, Done, Extension, Flow, Kind, KindError, Layer, Limits, Make, Op, OpKind, OpenContext, Reply,
    Step,
};
use esker_layer_kit::Io;
use esker_layer_kit::mover::{Move, Mover, Settings, Way};
use esker_layer_kit::region::{Area, Region, RegionError, Regions};

use super::{AREA, BACKUP, DISK, PARAMS, UNIT, limits, manifest, units};

/// The manifest.
pub static KIND: Kind = manifest(Kind::layer("offload-able", "Off-loading on the primitives.", PARAMS, build));

struct Offload {
    rests: bool,
    size: u64,
    backup: Limits,
    mover: Rc<Mover>,
    dirty: Rc<OnceCell<Rc<dyn Region>>>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let limits = limits(make)?;
    let offload = Offload {
        rests: make.args.flag("rests"),
        size: limits.size,
        backup: make.lowers[BACKUP].clone(),
        mover: Rc::new(Mover::new(Settings::background())),
        dirty: Rc::default(),
    };
    Ok(Layer::single(offload, limits))
}

impl Extension for Offload {
    fn open(&self, opening: OpenContext) -> Step<Result<(), KindError>> {
        let OpenContext { rt, pool, below, handle } = opening;
        let (rests, size, backup) = (self.rests, self.size, self.backup.clone());
        let (mover, slot) = (self.mover.clone(), self.dirty.clone());
        Step::later(async move {
            let dirty = restore(&Io::new(&rt, &pool, below), size, &backup).await;
            let dirty = dirty.map_err(|error| KindError::Outside(error.to_string()))?;
            if !rests {
                let way = Way::Background(rt.clone(), pool, handle);
                rt.spawn("off-loading", go_home(mover, way, dirty.clone(), size)).detach();
            }
            slot.get_or_init(|| dirty);
            Ok(())
        })
    }

    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let dirty = self.dirty.get().expect("opened before the first request").clone();
        match bio.op {
            Op::Ranges(_) => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Clone)))),
            Op::Flush => self.flush(Io::of(ctx), dirty, bio.take()),
            _ if !self.rests => self.mover.pass(ctx, bio, move |at| place(&*dirty, at)),
            Op::Write | Op::Zero | Op::Discard => {
                units(bio.range).for_each(|unit| set(&*dirty, unit, true));
                bio.dest = ctx.lower(BACKUP);
                if bio.flags.fua {
                    return forced(Io::of(ctx), dirty, bio.take());
                }
                Step::Now(Flow::Down)
            }
            Op::Read | Op::Extents => {
                bio.dest = ctx.lower(BACKUP);
                Step::Now(Flow::Down)
            }
        }
    }

    fn complete(&self, ctx: &mut Ctx<'_>, _: &mut Done) {
        self.mover.complete(ctx);
    }
}

impl Offload {
    fn flush(&self, io: Io, dirty: Rc<dyn Region>, bio: Bio) -> Step<Flow> {
        let rests = self.rests;
        Step::later(async move {
            let flushed = match rests {
                true => io.flush(io.lower(BACKUP)).await,
                false => io.flush_all().await,
            };
            let result = match flushed {
                Ok(()) => commit(dirty, &io).await.map(|()| Reply::Empty),
                Err(error) => Err(error),
            };
            Flow::Done(Done { result, buf: bio.buf })
        })
    }
}

fn forced(io: Io, dirty: Rc<dyn Region>, bio: Bio) -> Step<Flow> {
    Step::later(async move {
        let mut sent = io.send(bio).await;
        if sent.result.is_ok() {
            sent.result = commit(dirty, &io).await.map(|()| Reply::Empty);
        }
        Flow::Done(sent.into_done())
    })
}

async fn restore(io: &Io, size: u64, backup: &Limits) -> Result<Rc<dyn Region>, RegionError> {
    let area = Area::open(io, BACKUP, span(size, AREA), backup).await?;
    match area.restore(io, "dirty").await? {
        Some(dirty) => Ok(dirty),
        None => area.malloc(io, "dirty", size.div_ceil(8 * UNIT)).await,
    }
}

async fn commit(dirty: Rc<dyn Region>, io: &Io) -> Result<(), BioError> {
    dirty.commit(io).await.map_err(|error| BioError::io(error.to_string()))
}

async fn go_home(mover: Rc<Mover>, way: Way, dirty: Rc<dyn Region>, size: u64) {
    let home = |unit: u64| {
        let at = unit * UNIT;
        Move { upper: at, from: LowerAddress { lower: BACKUP, at }, to: LowerAddress { lower: DISK, at }, len: UNIT }
    };
    let moves = units(span(0, size)).filter(|unit| is_set(&*dirty, *unit)).map(home).collect();
    let moved = |io: &Io, moves: &[Move]| {
        moves.iter().for_each(|one| set(&*dirty, one.upper / UNIT, false));
        let (dirty, io) = (dirty.clone(), io.clone());
        Step::later(async move { commit(dirty, &io).await })
    };
    // What could not be moved stays dirty and is served from the backup.
    let _left_there = mover.copy(&way, moves, &moved).await;
}

fn place(dirty: &dyn Region, at: u64) -> LowerExtent {
    let lower = if is_set(dirty, at / UNIT) { BACKUP } else { DISK };
    LowerExtent { place: LowerAddress { lower, at }, len: UNIT - at % UNIT }
}

fn is_set(dirty: &dyn Region, unit: u64) -> bool {
    let mut byte = [0];
    dirty.read(unit / 8, &mut byte);
    byte[0] >> (unit % 8) & 1 != 0
}

fn set(dirty: &dyn Region, unit: u64, value: bool) {
    let mut byte = [0];
    dirty.read(unit / 8, &mut byte);
    byte[0] = byte[0] & !(1 << (unit % 8)) | u8::from(value) << (unit % 8);
    dirty.write(unit / 8, &byte);
}
