//! `cache-hit`: what a hit of the kind `cache` costs, in CPU time over the same device without the cache, at a million
//! lines and uniform keys; and its bytes of memory for each line.
//!
//! Both devices discard what they get, so that a request is the stack's loop and the cache. Rounds with and without the
//! cache take turns.

use std::rc::Rc;

use esker_block::{Bio, Buf};
use esker_rt::Sim;
use esker_stack::Stack;

use esker_lab_kit::instructions::InstructionCounter;
use esker_lab_kit::rig::{Rig, vol};
use esker_lab_kit::{Figure, Lab, LabError, cpu_time::CpuTime, timing};

/// Lines of 4 KiB that are used, of those that fit.
const LINES: u64 = 1_000_000;
const LINE: u64 = 4096;
const WITH: &str = "h = null size=16GiB; f = null size=4400MiB; vol = cache line=4KiB bypass=0 on h, f";
const SMALL: &str = "h = null size=1MiB; f = null size=8MiB; vol = cache line=4KiB bypass=0 on h, f";
const WITHOUT: &str = "vol = null size=16GiB";

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let (rounds, requests) = lab.scale((5, 1 << 20), (9, 1 << 22));
    let cached = Rig::simulated(lab.seed, WITH)?;
    let bare = Rig::simulated(lab.seed, WITHOUT)?;
    lab.say("a million lines are written");
    cached.world.block_on(fill(cached.stack.clone()));
    let mut alone = Vec::new();
    let more = timing::median_of(rounds, |round| {
        let with = nanos(&cached.world, &cached.stack, round, requests);
        let without = nanos(&bare.world, &bare.stack, round, requests);
        lab.say(format!("round {} of {rounds}: {with:.0} ns with the cache, {without:.0} without", round + 1));
        alone.push(without);
        Ok(with - without)
    })?;
    let told = |name: &str| {
        let stats = cached.stack.stats().into_iter().flat_map(|part| part.stats);
        stats.filter(|stat| stat.name == name).map(|stat| stat.value).sum::<f64>()
    };
    let instructions = hit_instructions(lab);
    if let Err(why) = &instructions {
        lab.say(format!("hit_instructions is not counted: {why}"));
    }
    let counted = instructions.ok().map(|count| Figure::alone("hit_instructions", count, "instructions, half writes"));
    let figures = [
        Figure::alone("hit_ns", more, "ns of CPU time").peer("the same without the cache, ns", timing::mean(&alone)),
        Figure::alone("hit_ratio", told("hit_ratio"), "share of the reads"),
        Figure::alone("bytes_per_line", told("memory_bytes") / told("slots"), "bytes of map, index and policy"),
    ];
    Ok(figures.into_iter().chain(counted).collect())
}

/// Instructions that the cache adds to a hit, without the misses that an instruction waits for.
fn hit_instructions(lab: &Lab<'_>) -> Result<f64, LabError> {
    let counter = InstructionCounter::new(lab.scale(2_000, 20_000))?.again();
    Ok(counter.instructions(SMALL)? - counter.instructions("vol = null size=1MiB")?)
}

async fn fill(stack: Rc<Stack>) {
    let device = vol(&stack);
    for line in 0..LINES {
        let done = device.request(Bio::write(line * LINE, Buf::described(LINE as usize, 1))).await;
        assert!(done.result.is_ok(), "a request of the experiment failed: {:?}", done.result);
    }
    let told = || stack.stats().into_iter().flat_map(|part| part.stats).find(|stat| stat.name == "dirty");
    while told().is_some_and(|dirty| dirty.value > 0.0) {
        stack.rt().sleep(esker_base::Nanos::secs(1)).await;
    }
}

/// CPU time of a read of a line, drawn evenly.
fn nanos(sim: &Sim, stack: &Rc<Stack>, round: u32, requests: u64) -> f64 {
    let before = CpuTime::now().own;
    let device = vol(stack);
    let mut places = stack.rt().rng(&format!("round {round}"));
    sim.block_on(async move {
        for _ in 0..requests {
            let at = places.below(LINES) * LINE;
            let done = device.request(Bio::read(at, Buf::described(LINE as usize, 1))).await;
            assert!(done.result.is_ok(), "a request of the experiment failed: {:?}", done.result);
        }
    });
    (CpuTime::now().own - before) * 1e9 / requests as f64
}
