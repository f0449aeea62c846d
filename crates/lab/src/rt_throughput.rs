//! `rt-throughput`: what the loop itself costs.
//!
//! `five_layer_mios_per_s`: 4 KiB reads with described payload through five `pass` layers over a `null` device whose
//! answers wait in virtual time, 32 in flight, contract checks and digest on, on one core. `layer_now_ns`: the same
//! with answers that are there at once; the difference that 20 layers make, per layer.

use esker_base::units::GIB;
use esker_block::{Bio, Buf};

use esker_lab_kit::rig::{Rig, send_all};
use esker_lab_kit::timing::{medians_of, timed};
use esker_lab_kit::{Figure, Lab, LabError};

/// Requests in flight.
const DEPTH: u64 = 32;
/// Bytes of one request.
const BLOCK: u64 = 4096;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (rounds, requests) = lab.scale((7, 1 << 20), (15, 1 << 22));
    let [rate, layer_ns] = medians_of(rounds, |round| {
        let waiting = seconds_for(lab.seed, 5, "10us", requests)?;
        let rate = requests as f64 / waiting / 1e6;
        let bare = seconds_for(lab.seed, 0, "0", requests)?;
        let tall = seconds_for(lab.seed, 20, "0", requests)?;
        lab.say(format!("round {round} of {rounds}: {rate:.2} million per second"));
        Ok([rate, (tall - bare) / 20.0 / requests as f64 * 1e9])
    })?;
    Ok(vec![
        Figure::alone("five_layer_mios_per_s", rate, "million I/Os per second and core"),
        Figure::alone("layer_now_ns", layer_ns, "ns"),
    ])
}

/// Real seconds that `requests` reads take through `layers` layers over a device that answers after `wait`.
fn seconds_for(seed: u64, layers: usize, wait: &str, requests: u64) -> Result<f64, LabError> {
    let text = format!("vol = null size=1GiB latency={wait}{}", " | pass".repeat(layers));
    let Rig { world, stack } = Rig::simulated(seed, &text)?;
    let blocks = GIB / BLOCK;
    let reader =
        move |client| move |i| Bio::read((i * DEPTH + client) % blocks * BLOCK, Buf::described(BLOCK as usize, 0));
    Ok(timed(|| world.block_on(send_all(stack, DEPTH, requests, reader))).0)
}
