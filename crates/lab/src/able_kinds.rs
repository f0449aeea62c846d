//! Random stacks of the product's own layers, for `able-predicted-vs-observed`: layers that write logs and labels, copy
//! in the background and move blocks must stay within what their kinds declare.

use std::rc::Rc;

use esker_base::{Nanos, Stream};
use esker_block::{Bio, Buf, Op};
use esker_stack::{Handled, Spec, Stack, Watching};

use esker_lab_kit::{LabError, Rig};

/// Devices of a stack.
const DEVICES: usize = 4;
/// Requests that are sent to it.
const REQUESTS: u64 = 80;
const BLOCK: usize = 4096;

/// Layers over one device, and over two.
const ONE: [&str; 5] = [
    "stats",
    "verify",
    "shepherd spares=8 retry_delay=1us scrub_interval=2s",
    "delay write=3us jitter=2us",
    "error every=40 start=64KiB",
];
const TWO: [&str; 3] = [
    "mirror region=64KiB clean_after=1ms rescan=1ms",
    "offload idle_after=200us high_watermark=0.4",
    "offload idle_after=0s high_watermark=0.2",
];

/// A random stack: its text, and the handlers of its requests.
pub(crate) fn watched(rng: &mut Stream, seed: u64) -> Result<(Spec, Vec<Handled>), LabError> {
    let text = text(rng);
    let spec = Spec::parse("a random stack of kinds", &text).map_err(|e| LabError::Data(format!("{e}\n{text}")))?;
    let Rig { world: sim, stack } = Rig::simulated(seed, &text)?;
    // What layers ask while they open is on its way already, past an observer that begins then.
    sim.block_on(stack.rt().sleep(Nanos::secs(1)));
    stack.watch(Watching { handlers: true, ..Watching::default() }).map_err(LabError::data)?;
    let numbers: Vec<u64> = (0..REQUESTS).map(|_| rng.below(1 << 40)).collect();
    sim.block_on(send(stack.clone(), numbers));
    Ok((spec, stack.handled()))
}

/// Up to six layers, each on the one before and perhaps on another device.
fn text(rng: &mut Stream) -> String {
    let mut lines: Vec<String> = (0..DEVICES).map(|n| format!("d{n} = memory size=2MiB")).collect();
    let (mut top, mut devices) = ("d0".to_string(), 1);
    for number in 0..2 + rng.below(5) {
        let (kind, on) = match rng.below(2) == 0 && devices < DEVICES {
            true => (TWO[rng.below(TWO.len() as u64) as usize], format!("{top}, d{devices}")),
            false => (ONE[rng.below(ONE.len() as u64) as usize], top.clone()),
        };
        devices += usize::from(on != top);
        top = format!("l{number}");
        lines.push(format!("{top} = {kind} on {on}"));
    }
    lines.push(format!("export out = {top}"));
    lines.join("\n")
}

/// Writes, reads, zeroes and flushes. What fails fails: some layers are there for that.
async fn send(stack: Rc<Stack>, numbers: Vec<u64>) {
    let out = stack.export("out").expect("the text exports it");
    let blocks = 512 << 10 >> BLOCK.trailing_zeros();
    for number in numbers {
        let at = (number >> 8) % blocks * BLOCK as u64;
        let bio = match number % 8 {
            0..4 => Bio::write(at, Buf::from_bytes(stack.pool(), &[number as u8; BLOCK])),
            4 | 5 => Bio::read(at, Buf::unique(stack.pool(), BLOCK)),
            6 => Bio::zero(at, BLOCK as u64),
            _ => Bio::flush(),
        };
        debug_assert!(bio.op == Op::Flush || bio.range.end() <= 512 << 10, "every stack is larger");
        let _may_fail = out.request(bio).await;
    }
    stack.rt().sleep(Nanos::secs(3)).await;
}
