//! A test bench: the device `vol` of a stack text, and short words for what is asked of it.

use std::cell::RefCell;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::conformance::{self, Options, Report};
use esker_block::{Bio, BioError, Buf, Device, Env, Kind, OpKind, Stat};
use esker_rt::mem::Pool;
use esker_rt::{Rt, Sim, SimConfig};
use esker_stack::{Export, Spec, Stack};

/// The device `vol` of a stack of these kinds.
///
/// # Errors
/// Why the stack cannot be built.
///
/// # Panics
/// If the text is none, or has no such device: that is the test's own mistake.
pub fn try_open(rt: &Rt, kinds: &'static [&'static Kind], text: &str) -> Result<Export, String> {
    try_open_with(rt, kinds, text, Env::default())
}

fn try_open_with(rt: &Rt, kinds: &'static [&'static Kind], text: &str, env: Env) -> Result<Export, String> {
    let spec = Spec::parse("test", text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let stack = Stack::build_with(rt, &Pool::default(), kinds, &spec, env).map_err(|e| e.to_string())?;
    Ok(stack.device("vol").unwrap_or_else(|| panic!("{text}: no device \"vol\"")))
}

/// The same, of a stack that must be built.
pub fn open(rt: &Rt, kinds: &'static [&'static Kind], text: &str) -> Export {
    try_open(rt, kinds, text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// The same in an environment.
pub fn open_with(rt: &Rt, kinds: &'static [&'static Kind], text: &str, env: &Env) -> Export {
    try_open_with(rt, kinds, text, env.clone()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Runs `body` on the device `vol` of a text, in a world of its own.
pub fn with<F: Future<Output = ()> + 'static>(
    kinds: &'static [&'static Kind],
    text: &str,
    body: impl FnOnce(Export) -> F + 'static,
) {
    let sim = Sim::new(SimConfig::seeded(1));
    let (rt, text) = (sim.rt(), text.to_string());
    sim.block_on(async move { body(open(&rt, kinds, &text)).await });
}

/// Why the device `vol` of a text refuses a write.
pub fn refusal(kinds: &'static [&'static Kind], text: &str) -> String {
    let told = Rc::new(RefCell::new(String::new()));
    let out = told.clone();
    with(kinds, text, async move |vol| {
        *out.borrow_mut() = try_write(&vol, 0, &[1; 4096]).await.expect_err("it must refuse").to_string();
    });
    told.take()
}

/// Demands that a stack behaves like a flat array that keeps what is written.
pub fn check_conforms(kinds: &'static [&'static Kind], text: &str) -> Report {
    let report = conformance::check(|rt| Rc::new(open(rt, kinds, text)), Options::facade(7));
    assert!(report.answered(OpKind::Read) > 100 && report.answered(OpKind::Write) > 100, "{text}: {report:?}");
    report
}

/// Writes at an offset in bytes.
///
/// # Errors
/// What the device answers.
pub async fn try_write(vol: &Export, at: u64, bytes: &[u8]) -> Result<(), BioError> {
    vol.submit(Bio::write(at, Buf::from_bytes(vol.stack().pool(), bytes))).await.result.map(drop)
}

/// The same, which must succeed.
pub async fn write(vol: &Export, at: u64, bytes: &[u8]) {
    assert_eq!(try_write(vol, at, bytes).await, Ok(()), "write of {} bytes at {at}", bytes.len());
}

/// Reads at an offset in bytes.
///
/// # Errors
/// What the device answers.
pub async fn try_read(vol: &Export, at: u64, len: usize) -> Result<Vec<u8>, BioError> {
    let done = vol.submit(Bio::read(at, Buf::unique(vol.stack().pool(), len))).await;
    done.result.map(|_| done.buf.to_vec())
}

/// The same, which must succeed.
pub async fn read(vol: &Export, at: u64, len: usize) -> Vec<u8> {
    try_read(vol, at, len).await.unwrap_or_else(|error| panic!("read of {len} bytes at {at}: {error}"))
}

/// Sends a request that carries no data and must succeed.
pub async fn run(vol: &Export, bio: Bio) {
    let what = format!("{bio:?}");
    assert_eq!(vol.submit(bio).await.result.err(), None, "{what}");
}

/// Makes durable what was written.
pub async fn flush(vol: &Export) {
    run(vol, Bio::flush()).await;
}

/// Lets time go by.
pub async fn sleep(vol: &Export, span: Nanos) {
    vol.stack().rt().sleep(span).await;
}

/// A number that a part of the stack tells about itself.
pub fn stat(vol: &Export, part: &str, name: &str) -> f64 {
    told(vol, part, name).unwrap_or_else(|told| panic!("no {name} in {told:?}"))
}

/// The same of what is told from its first time on: 0 before.
pub fn count(vol: &Export, part: &str, name: &str) -> f64 {
    told(vol, part, name).unwrap_or(0.0)
}

fn told(vol: &Export, part: &str, name: &str) -> Result<f64, Vec<Stat>> {
    let parts = vol.stack().stats();
    let part = parts.into_iter().find(|p| p.name == part).unwrap_or_else(|| panic!("no part {part}"));
    let value = part.stats.iter().find(|s| s.name == name).map(|s| s.value);
    value.ok_or(part.stats)
}

/// Waits until such a number is told and is `value`.
pub async fn until(vol: &Export, part: &str, name: &str, value: f64) {
    for _ in 0..10_000 {
        if told(vol, part, name) == Ok(value) {
            return;
        }
        sleep(vol, Nanos::millis(10)).await;
    }
    panic!("{name} of {part} stays {:?}", told(vol, part, name));
}
