//! For the tests: stacks from one line of text, and short words for requests.

use esker_block::{Bio, Ctx, Extension, Flow, Kind, KindError, Layer, Limits, Make, OpKind, Step, Support};
use esker_rt::sim::{Sim, SimConfig};
use esker_rt::{JoinHandle, Rt};
use esker_stack::Export;
use esker_testkit::bench;
pub(crate) use esker_testkit::bench::{read, run, stat, try_read, write};

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
    &esker_testkit::SPOIL,
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

/// The device `vol` of a stack text.
pub(crate) fn open(rt: &Rt, text: &str) -> Export {
    bench::open(rt, KINDS, text)
}

pub(crate) fn try_open(rt: &Rt, text: &str) -> Result<Export, String> {
    bench::try_open(rt, KINDS, text)
}

/// Demands that a stack is refused, with these words.
pub(crate) fn check_refused(text: &str, why: &str) {
    let sim = Sim::new(SimConfig::seeded(1));
    let error = try_open(&sim.rt(), text).err().unwrap_or_else(|| panic!("{text} was built"));
    assert!(error.contains(why), "{text}: \"{error}\" should say \"{why}\"");
}

/// Demands that a stack behaves like a flat array that keeps what is written.
pub(crate) fn check_conforms(text: &str) {
    bench::check_conforms(KINDS, text);
}

/// A write that runs as a task of its own.
pub(crate) fn start_write(vol: &Export, at: u64, bytes: Vec<u8>) -> JoinHandle<()> {
    let writer = vol.clone();
    vol.stack().rt().spawn("writer", async move { write(&writer, at, &bytes).await })
}
