//! `sim-throughput`: how fast the modelled drive is simulated.
//!
//! `ssd_ftl_mios_per_s`: random 4 KiB writes to a drive of `ssd-model` that is full and in steady state, so that its
//! collector moves units all the time, 32 in flight, each on its whole way: task, stack with contract check, translation
//! layer, dies, channels and buffer, event, completion. Virtual time, one core, digest on.

use std::rc::Rc;

use esker_base::units::GIB;
use esker_block::{Bio, Buf};
use esker_rt::mem::Pool;
use esker_rt::{Sim, SimConfig};
use esker_stack::{Spec, Stack};

use crate::experiment::{Experiment, Figure, LabError, Options};
use crate::timing::{median, seconds};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sim-throughput",
    summary: "Simulated I/Os per second through the SSD model's FTL in steady state",
    source: "the project's own bar: at least 1 million per second and core; MQSim reaches about 0.1",
    simulated: true,
    rivals: &[],
    run,
};

/// Requests in flight.
const DEPTH: u64 = 32;
/// Bytes of one request.
const BLOCK: u64 = 4096;
/// Bytes of the drive. Its map does not fit into the caches of today's CPUs.
const CAPACITY: u64 = 16 * GIB;
const DRIVE: &str = "vol = ssd-model capacity=16GiB erase_block=512KiB spare=0.28 fill=1";

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let (rounds, requests) = if options.quick { (5, 1 << 20) } else { (9, 1 << 22) };
    let spec = Spec::parse("sim-throughput", DRIVE).unwrap_or_else(|e| panic!("the experiment's own text: {e}"));
    let sim = Sim::new(SimConfig::seeded(options.seed));
    let stack = Stack::build(&sim.rt(), &Pool::default(), esker_kinds::ALL, &spec)?;
    sim.block_on(write_all(stack.clone(), 0, requests));
    let mut rates = Vec::new();
    for round in 1..=rounds {
        let took = seconds(|| sim.block_on(write_all(stack.clone(), round, requests)));
        rates.push(requests as f64 / took / 1e6);
        progress(&format!("round {round} of {rounds}: {:.2} million per second", rates[rates.len() - 1]));
    }
    Ok(vec![
        Figure::alone("ssd_ftl_mios_per_s", median(rates), "million I/Os per second and core"),
        Figure::alone("write_amplification", amplification(&stack), "units written per host unit"),
    ])
}

fn amplification(stack: &Stack) -> f64 {
    let stats = stack.stats().into_iter().flat_map(|part| part.stats);
    stats.filter(|stat| stat.name == "write_amplification").map(|stat| stat.value).sum()
}

/// Streams of random numbers are named after the round, so that no round repeats another.
async fn write_all(stack: Rc<Stack>, round: u64, requests: u64) {
    let export = stack.export("vol").or_else(|| stack.device("vol")).expect("the experiment's own name");
    let clients: Vec<_> = (0..DEPTH)
        .map(|client| {
            let (export, mut rng) = (export.clone(), stack.rt().rng(&format!("round {round} client {client}")));
            stack.rt().spawn("client", async move {
                for _ in 0..requests / DEPTH {
                    let offset = rng.below(CAPACITY / BLOCK) * BLOCK;
                    let done = export.request(Bio::write(offset, Buf::described(BLOCK as usize, 1))).await;
                    assert!(done.result.is_ok(), "a write of the experiment failed: {:?}", done.result);
                }
            })
        })
        .collect();
    for client in clients {
        client.await;
    }
}
