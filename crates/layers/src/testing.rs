//! For the tests: stacks from one line of text, and short words for requests.

use std::rc::Rc;

use esker_block::conformance::{self, Options};
use esker_block::{
    Bio, BioError, Buf, Ctx, Device, Extension, Flow, Kind, KindError, Layer, Limits, Make, OpKind, Step, Support,
};
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig};
use esker_rt::{JoinHandle, Rt};
use esker_stack::{Export, Spec, Stack};

static KINDS: &[&Kind] = &[
    &esker_dev::memory::KIND,
    &esker_dev::null::KIND,
    &POOR,
    &crate::align::KIND,
    &crate::concat::KIND,
    &crate::crypt::KIND,
    &crate::delay::KIND,
    &crate::emulate::KIND,
    &crate::error::KIND,
    &crate::offset::KIND,
    &crate::pass::KIND,
    &crate::rate::KIND,
    &crate::stats::KIND,
    &crate::stripe::KIND,
    &crate::tap::KIND,
    &crate::verify::KIND,
    &SPOIL,
];

/// A device below that cannot zero and has a volatile cache.
static POOR: Kind = Kind { transparent: false, ..Kind::layer("poor", "Takes abilities away.", &[], build_poor) };

struct Poor;

impl Extension for Poor {
    fn issue(&self, _: &mut Ctx<'_>, _: &mut Bio) -> Step<Flow> {
        Step::Now(Flow::Down)
    }
}

fn build_poor(make: &Make<'_>) -> Result<Layer, KindError> {
    let limits = make.lowers[0].clone().with(OpKind::Zero, Support::No);
    Ok(Layer::single(Poor, Limits { volatile_cache: true, ..limits }))
}

/// A way down that changes one byte of each write.
static SPOIL: Kind =
    Kind { role: esker_block::Role::Modifier, ..Kind::layer("spoil", "Changes byte 700.", &[], build_spoil) };

struct Spoil;

impl Extension for Spoil {
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        if bio.op == esker_block::Op::Write && bio.buf.len() > 700 {
            let mut bytes = bio.buf.to_vec();
            bytes[700] ^= 1;
            bio.buf = esker_block::Buf::from_bytes(ctx.pool, &bytes);
        }
        Step::Now(Flow::Down)
    }
}

fn build_spoil(make: &Make<'_>) -> Result<Layer, KindError> {
    Ok(Layer::single(Spoil, make.lowers[0].clone()))
}

/// The device `vol` of a stack text.
pub fn open(rt: &Rt, text: &str) -> Export {
    try_open(rt, text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

pub fn try_open(rt: &Rt, text: &str) -> Result<Export, String> {
    let spec = Spec::parse("test", text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let stack = Stack::build(rt, &Pool::default(), KINDS, &spec).map_err(|e| e.to_string())?;
    Ok(stack.device("vol").unwrap_or_else(|| panic!("{text}: no device \"vol\"")))
}

/// Demands that a stack is refused, with these words.
pub fn check_refused(text: &str, why: &str) {
    let sim = Sim::new(SimConfig::seeded(1));
    let error = try_open(&sim.rt(), text).err().unwrap_or_else(|| panic!("{text} was built"));
    assert!(error.contains(why), "{text}: \"{error}\" should say \"{why}\"");
}

/// Demands that a stack behaves like a flat array that keeps what is written.
pub fn check_conforms(text: &str) {
    let report = conformance::check(|rt| Rc::new(open(rt, text)), Options::facade(7));
    assert!(report.answered(OpKind::Read) > 100 && report.answered(OpKind::Write) > 100, "{text}: {report:?}");
}

pub async fn write(vol: &Export, at: u64, bytes: &[u8]) {
    let done = vol.submit(Bio::write(at, Buf::from_bytes(vol.stack().pool(), bytes))).await;
    assert_eq!(done.result.err(), None, "write of {} bytes at {at}", bytes.len());
}

/// A write that runs as a task of its own.
pub fn start_write(vol: &Export, at: u64, bytes: Vec<u8>) -> JoinHandle<()> {
    let writer = vol.clone();
    vol.stack().rt().spawn("writer", async move { write(&writer, at, &bytes).await })
}

pub async fn try_read(vol: &Export, at: u64, len: usize) -> Result<Vec<u8>, BioError> {
    let done = vol.submit(Bio::read(at, Buf::unique(vol.stack().pool(), len))).await;
    done.result.map(|_| done.buf.to_vec())
}

pub async fn read(vol: &Export, at: u64, len: usize) -> Vec<u8> {
    try_read(vol, at, len).await.unwrap_or_else(|e| panic!("read of {len} bytes at {at}: {e}"))
}

/// Sends requests without data, which must succeed.
pub async fn run(vol: &Export, bio: Bio) {
    let what = format!("{bio:?}");
    assert_eq!(vol.submit(bio).await.result.err(), None, "{what}");
}

/// A number that a part of the stack tells about itself.
pub fn stat(vol: &Export, part: &str, name: &str) -> f64 {
    let parts = vol.stack().stats();
    let part = parts.iter().find(|p| p.name == part).unwrap_or_else(|| panic!("no part {part}"));
    part.stats.iter().find(|s| s.name == name).map_or_else(|| panic!("no {name} in {:?}", part.stats), |s| s.value)
}
