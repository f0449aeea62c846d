//! What holds for the volume as a whole.

mod changes;
mod collect;
mod crash;
mod erase;
mod heads;
mod images;
mod log;
mod named;
mod part;
mod ranges;
mod recovery;
mod resize;
mod sent;
mod shared;
mod shortage;
mod space;
mod stores;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::conformance::{self, Options};
use esker_block::{Below, Bio, BioError, Buf, Device, Done, Kind, Limits, OpKind, RangeOp, Step};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_layer_kit::Io;
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig};
use esker_rt::sync::Notify;
use esker_stack::{Export, Spec, Stack};

use crate::{Config, Volume};

static KINDS: &[&Kind] = &[&crate::KIND, &crate::thin::KIND, &esker_dev::memory::KIND];

const BLOCK: usize = 512;

fn try_build(rt: &Rt, text: &str) -> Result<Export, String> {
    let spec = Spec::parse("test", text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let stack = Stack::build(rt, &Pool::default(), KINDS, &spec).map_err(|e| e.to_string())?;
    Ok(stack.device("vol").unwrap_or_else(|| panic!("{text}: no device \"vol\"")))
}

fn build(rt: &Rt, text: &str) -> Export {
    try_build(rt, text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// What a stack's volume tells.
fn told(vol: &Export, name: &str) -> f64 {
    let parts = vol.stack().stats();
    let part = parts.iter().find(|part| part.kind == "logvol").expect("the stack has one");
    part.stats.iter().find(|stat| stat.name == name).unwrap_or_else(|| panic!("no {name}")).value
}

#[test]
fn a_volume_conforms() {
    for text in [
        "a = memory size=8MiB; vol = logvol block=512 page=512 segment=64KiB size=2MiB on a",
        "a = memory size=24MiB defer=always latency=5us; vol = logvol block=4096 segment=256KiB size=64MiB on a",
        // Few segments and frequent checkpoints; the last block of 128 PiB.
        "a = memory size=4MiB defer=always latency=3us; vol = logvol block=512 page=1KiB segment=128KiB checkpoint_interval=64KiB on a",
    ] {
        let report = conformance::check(|rt| Rc::new(build(rt, text)), Options::facade(7));
        for kind in OpKind::ALL {
            assert!(report.answered(kind) > 5, "{text}: {kind:?}: {report:?}");
        }
    }
}

/// A volume over a medium, without a stack: for tests that look inside.
#[derive(Clone)]
struct Bench {
    rt: Rt,
    io: Io,
    volume: Rc<Volume>,
}

fn config(device: &dyn Device, segment: u64, checkpoint: u64) -> Config {
    Config::over("vol", device.limits(), BLOCK as u32, BLOCK as u32, segment, checkpoint)
}

impl Bench {
    async fn open(rt: &Rt, device: Rc<dyn Device>, segment: u64, checkpoint: u64) -> Bench {
        Bench::try_open(rt, device, segment, checkpoint).await.unwrap_or_else(|e| panic!("{e}"))
    }

    async fn try_open(rt: &Rt, device: Rc<dyn Device>, segment: u64, checkpoint: u64) -> Result<Bench, String> {
        let config = config(&*device, segment, checkpoint);
        let io = Io::over(rt, &Pool::default(), vec![device]);
        let volume = Volume::open(config, rt, io.pool(), io.below().clone()).await.map_err(|e| e.to_string())?;
        Ok(Bench { rt: rt.clone(), io, volume })
    }

    fn below(&self) -> Below {
        self.io.below().clone()
    }

    async fn submit(&self, bio: Bio) -> Done {
        self.volume.clone().change(self.below(), bio).await
    }

    async fn ok(&self, bio: Bio) {
        let text = format!("{bio:?}");
        let done = self.submit(bio).await;
        assert_eq!(done.result.err(), None, "{text}");
    }

    /// Writes blocks of one value.
    async fn write(&self, lba: u64, blocks: usize, value: u8) {
        let buf = Buf::from_bytes(self.io.pool(), &vec![value; blocks * BLOCK]);
        self.ok(Bio::write(lba * BLOCK as u64, buf)).await;
    }

    /// The value of each block, all of whose bytes must be equal.
    async fn values(&self, lba: u64, blocks: u64) -> Vec<u8> {
        let buf = self.volume.read_blocks(&self.below(), lba..lba + blocks, Default::default()).await;
        let bytes = buf.unwrap_or_else(|e| panic!("read of {blocks} blocks at {lba}: {e}")).to_vec();
        let value = |block: &[u8]| {
            assert!(block.iter().all(|byte| *byte == block[0]), "a block of different bytes");
            block[0]
        };
        bytes.chunks(BLOCK).map(value).collect()
    }

    async fn ranges(&self, ops: &[RangeOp]) {
        self.ok(Bio::ranges(ops)).await;
    }

    async fn checkpoint(&self) {
        self.volume.checkpoint(&self.volume.store(self.below())).await.unwrap_or_else(|e| panic!("{e}"));
    }

    /// Gives some of what is free back to the device.
    async fn erase(&self) {
        self.volume.erase_some(&self.volume.store(self.below())).await;
    }

    fn stat(&self, name: &str) -> f64 {
        let stats = self.volume.stats();
        stats.iter().find(|stat| stat.name == name).unwrap_or_else(|| panic!("no {name}")).value
    }
}

fn range(lba: u64, blocks: u64) -> esker_base::ByteRange {
    esker_base::ByteRange::new(lba * BLOCK as u64, blocks * BLOCK as u64).unwrap()
}

fn clone(src: u64, blocks: u64, dst: u64) -> RangeOp {
    RangeOp::Clone { src: range(src, blocks), dst: dst * BLOCK as u64 }
}

fn shift(src: u64, blocks: u64, dst: u64) -> RangeOp {
    RangeOp::Move { src: range(src, blocks), dst: dst * BLOCK as u64 }
}

fn delete(lba: u64, blocks: u64) -> RangeOp {
    RangeOp::Delete { at: range(lba, blocks) }
}

fn media(bytes: u64) -> Rc<Media> {
    Media::new(bytes)
}

fn device(rt: &Rt, media: &Rc<Media>) -> Rc<dyn Device> {
    Rc::new(MemoryDevice::over(rt, media.clone(), BLOCK as u32, Defer::Always(Nanos::micros(2))))
}

fn run<F: Future<Output = ()> + 'static>(body: impl FnOnce(Rt) -> F) {
    let sim = Sim::new(SimConfig::seeded(1));
    let rt = sim.rt();
    sim.block_on(body(rt));
}

/// A device that fails requests with what it is told.
struct Failing<F> {
    inner: Rc<dyn Device>,
    fails: F,
}

impl<F: Fn(&Bio) -> Option<BioError>> Device for Failing<F> {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        match (self.fails)(&bio) {
            Some(error) => Step::Now(bio.fail(error)),
            None => self.inner.submit(bio),
        }
    }
}

/// A device that holds requests back until they are let go, in any order. What passes is noted.
struct Gate {
    inner: Rc<dyn Device>,
    shut: Rc<Cell<bool>>,
    waiting: Rc<RefCell<Vec<u64>>>,
    open: Rc<RefCell<Vec<u64>>>,
    moved: Rc<Notify>,
    log: Rc<RefCell<Vec<(OpKind, u64, u64)>>>,
}

#[derive(Clone)]
struct Keeper {
    shut: Rc<Cell<bool>>,
    waiting: Rc<RefCell<Vec<u64>>>,
    open: Rc<RefCell<Vec<u64>>>,
    moved: Rc<Notify>,
    log: Rc<RefCell<Vec<(OpKind, u64, u64)>>>,
}

impl Gate {
    fn over(inner: Rc<dyn Device>) -> (Rc<Gate>, Keeper) {
        let keeper = Keeper {
            shut: Rc::default(),
            waiting: Rc::default(),
            open: Rc::default(),
            moved: Rc::default(),
            log: Rc::default(),
        };
        let Keeper { shut, waiting, open, moved, log } = keeper.clone();
        (Rc::new(Gate { inner, shut, waiting, open, moved, log }), keeper)
    }
}

impl Keeper {
    /// The requests that wait, by their offsets, in the order in which they came.
    fn waiting(&self) -> Vec<u64> {
        self.waiting.borrow().clone()
    }

    fn let_go(&self, offset: u64) {
        self.waiting.borrow_mut().retain(|other| *other != offset);
        self.open.borrow_mut().push(offset);
        self.moved.notify_all();
    }

    fn open_all(&self) {
        self.shut.set(false);
        self.waiting().into_iter().for_each(|offset| self.let_go(offset));
    }

    fn noted(&self, kind: OpKind) -> Vec<(u64, u64)> {
        self.log.borrow().iter().filter(|entry| entry.0 == kind).map(|entry| (entry.1, entry.2)).collect()
    }
}

impl Device for Gate {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let kind = match bio.op {
            esker_block::Op::Read => OpKind::Read,
            esker_block::Op::Write => OpKind::Write,
            esker_block::Op::Flush => OpKind::Flush,
            esker_block::Op::Zero => OpKind::Zero,
            _ => OpKind::Discard,
        };
        self.log.borrow_mut().push((kind, bio.offset(), bio.len()));
        if !self.shut.get() || matches!(kind, OpKind::Flush) {
            return self.inner.submit(bio);
        }
        let offset = bio.offset();
        self.waiting.borrow_mut().push(offset);
        let (inner, open, moved) = (self.inner.clone(), self.open.clone(), self.moved.clone());
        Step::later(async move {
            moved.wait_until(|| open.borrow().contains(&offset)).await;
            open.borrow_mut().retain(|other| *other != offset);
            inner.submit(bio).await
        })
    }
}
