//! Deduplication on the primitives.

use esker_base::span;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use esker_block::locks::{Mode, RangeLocks};
use esker_block::split::{LowerAddress, LowerExtent, pieces};
use esker_block::{
    Bio, BioError, Buf, Ctx, Done, Extension, Flow, Kind, KindError, Layer, Limits, Make, Op, OpKind, OpenContext,
    Reply, Stat, Step,
};
use esker_layer_kit::Io;
use esker_layer_kit::region::{Area, Region, RegionError, Regions};

use super::{AREA, Table, UNIT, blocks, fingerprint, full, limits, manifest, zeroes};

/// The manifest.
pub static KIND: Kind = manifest(Kind::layer("dedup-able", "Deduplication on the primitives.", &[], build));

struct Dedup {
    size: u64,
    lower: Limits,
    locks: Rc<RangeLocks>,
    kept: Rc<OnceCell<Rc<Kept>>>,
}

/// The table, and the memory that survives with the same content.
struct Kept {
    table: RefCell<Table>,
    region: Rc<dyn Region>,
}

fn build(make: &Make<'_>) -> Result<Layer, KindError> {
    let limits = limits(make)?;
    let lower = make.lowers[0].clone();
    Ok(Layer::single(Dedup { size: limits.size, lower, locks: Rc::default(), kept: Rc::default() }, limits))
}

impl Extension for Dedup {
    fn open(&self, opening: OpenContext) -> Step<Result<(), KindError>> {
        let io = Io::new(&opening.rt, &opening.pool, opening.below);
        let (size, lower, slot) = (self.size, self.lower.clone(), self.kept.clone());
        Step::later(async move {
            let kept = restore(&io, size, &lower).await;
            let kept = kept.map_err(|error| KindError::Outside(error.to_string()))?;
            slot.get_or_init(|| Rc::new(kept));
            Ok(())
        })
    }

    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        if let Op::Ranges(_) | Op::Extents = bio.op {
            return Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Extents))));
        }
        let kept = self.kept.get().expect("opened before the first request").clone();
        let (io, locks, bio) = (Io::of(ctx), self.locks.clone(), bio.take());
        let ticket = match bio.op {
            Op::Read => locks.enter([bio.range], Mode::Shared),
            _ => locks.enter([span(0, self.size)], Mode::Exclusive),
        };
        Step::later(async move {
            locks.granted(ticket).await;
            let done = match bio.op {
                Op::Read => kept.read(&io, bio).await,
                _ => kept.change(&io, bio).await,
            };
            locks.leave(ticket);
            Flow::Done(done)
        })
    }

    fn completes(&self) -> bool {
        false
    }

    fn stats(&self) -> Vec<Stat> {
        let used = self.kept.get().map_or(0, |kept| kept.table.borrow().used());
        vec![Stat { name: "data_blocks", value: used as f64 }]
    }
}

async fn restore(io: &Io, size: u64, lower: &Limits) -> Result<Kept, RegionError> {
    let area = Area::open(io, 0, span(lower.size - AREA, AREA), lower).await?;
    let region = match area.restore(io, "table").await? {
        Some(region) => region,
        None => {
            io.write(io.lower(0), 0, zeroes(), false).await?;
            area.malloc(io, "table", Table::len(size)).await?
        }
    };
    let mut bytes = vec![0; region.len() as usize];
    region.read(0, &mut bytes);
    Ok(Kept { table: RefCell::new(Table::decode(&bytes, size)?), region })
}

impl Kept {
    async fn read(&self, io: &Io, mut bio: Bio) -> Done {
        let place = |at: u64| {
            let at = self.table.borrow().place(at / UNIT) + at % UNIT;
            LowerExtent { place: LowerAddress { lower: 0, at }, len: UNIT - at % UNIT }
        };
        let pieces = pieces(bio.range, place);
        match io.splitter().redirect(&mut bio, &pieces).await {
            Flow::Done(done) => done,
            _ => io.submit(bio).await,
        }
    }

    async fn change(&self, io: &Io, mut bio: Bio) -> Done {
        let mut result = Ok(());
        for logical in blocks(bio.range) {
            if result.is_ok() {
                result = self.change_one(io, logical, &mut bio).await;
            }
        }
        if result.is_ok() && (bio.op == Op::Flush || bio.flags.fua) {
            result = self.commit(io).await;
        }
        Done { result: result.map(|()| Reply::Empty), buf: bio.buf }
    }

    async fn change_one(&self, io: &Io, logical: u64, bio: &mut Bio) -> Result<(), BioError> {
        let data = match bio.op {
            Op::Write => bio.buf.slice((logical * UNIT - bio.offset()) as usize, UNIT as usize),
            _ => zeroes(),
        };
        let fingerprint = fingerprint(&data);
        let known = self.table.borrow().find(&fingerprint);
        let block = match known {
            Some(block) => block,
            None => self.store(io, data).await?,
        };
        let mut table = self.table.borrow_mut();
        table.redirect(logical, block, fingerprint);
        table.entries(logical).iter().for_each(|(at, bytes)| self.region.write(*at, bytes));
        Ok(())
    }

    /// Writes bytes that are not there yet to a free data block.
    async fn store(&self, io: &Io, data: Buf) -> Result<u32, BioError> {
        if !self.table.borrow().has_free() {
            self.commit(io).await?;
        }
        let block = self.table.borrow_mut().take().ok_or_else(full)?;
        io.write(io.lower(0), u64::from(block) * UNIT, data, false).await?;
        Ok(block)
    }

    async fn commit(&self, io: &Io) -> Result<(), BioError> {
        io.flush_all().await?;
        self.region.clone().commit(io).await.map_err(|error| BioError::io(error.to_string()))?;
        self.table.borrow_mut().rested();
        Ok(())
    }
}
