//! `rt-throughput`: what the loop itself costs.
//!
//! `five_layer_mios_per_s`: 4 KiB reads with described payload through five `pass` layers over a `null` device whose
//! answers wait in virtual time, 32 in flight, contract checks and digest on, on one core. `layer_now_ns`: the same
//! with answers that are there at once; the difference that 20 layers make, per layer.

use std::rc::Rc;

use esker_base::units::GIB;
use esker_block::{Bio, Buf};
use esker_stack::Stack;

use esker_lab_kit::{
    Experiment, Figure, LabError, Options,
    rig::{Rig, clients},
    timing::{median, seconds},
};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "rt-throughput",
    summary: "Simulated I/Os per second through five pass-through layers, and the cost of one layer",
    source: "the project's own bars: at least 4 million per second and core, at most 10 ns per layer",
    simulated: true,
    rivals: &[],
    run,
};

/// Requests in flight.
const DEPTH: u64 = 32;
/// Bytes of one request.
const BLOCK: u64 = 4096;

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let (rounds, requests) = if options.quick { (7, 1 << 20) } else { (15, 1 << 22) };
    let mut rates = Vec::new();
    let mut layer_ns = Vec::new();
    for round in 1..=rounds {
        let waiting = seconds_for(options.seed, 5, "10us", requests)?;
        rates.push(requests as f64 / waiting / 1e6);
        let bare = seconds_for(options.seed, 0, "0", requests)?;
        let tall = seconds_for(options.seed, 20, "0", requests)?;
        layer_ns.push((tall - bare) / 20.0 / requests as f64 * 1e9);
        progress(&format!("round {round} of {rounds}: {:.2} million per second", rates[rates.len() - 1]));
    }
    Ok(vec![
        Figure::alone("five_layer_mios_per_s", median(rates), "million I/Os per second and core"),
        Figure::alone("layer_now_ns", median(layer_ns), "ns"),
    ])
}

/// Real seconds that `requests` reads take through `layers` layers over a device that answers after `wait`.
fn seconds_for(seed: u64, layers: usize, wait: &str, requests: u64) -> Result<f64, LabError> {
    let text = format!("vol = null size=1GiB latency={wait}{}", " | pass".repeat(layers));
    let Rig { world, stack } = Rig::simulated(seed, &text)?;
    Ok(seconds(|| world.block_on(read_all(stack, requests))))
}

async fn read_all(stack: Rc<Stack>, requests: u64) {
    let export = stack.export("vol").or_else(|| stack.device("vol")).expect("the experiment's own name");
    let blocks = GIB / BLOCK;
    let client = |client| {
        let export = export.clone();
        async move {
            for i in 0..requests / DEPTH {
                let offset = (i * DEPTH + client) % blocks * BLOCK;
                let done = export.request(Bio::read(offset, Buf::described(BLOCK as usize, 0))).await;
                assert!(done.result.is_ok(), "a read of the experiment failed: {:?}", done.result);
            }
        }
    };
    clients(stack.rt(), DEPTH, client).await;
}
