//! `able-overhead`: what requests cost through the sample extensions on the primitives, against the same extensions
//! by hand: in instructions (callgrind), and as a share of the time that the modelled disk takes for them.
//!
//! Costs are differences between runs of different length, so that start and end drop out. A request is half a write
//! and half a read of 4 KiB, each alone.

use esker_base::Nanos;
use esker_block::{Bio, Buf};

use esker_lab_kit::instructions::InstructionCounter;
use esker_lab_kit::{Figure, Lab, LabError, Rig};

/// Extensions: name, stack text in which VARIANT stands, and the thesis' two percentages if it has any.
type Case = (&'static str, &'static str, Option<(f64, f64)>);

const CASES: [Case; 4] = [
    ("raid1", "a = memory size=1MiB; b = memory size=1MiB; vol = raid1-VARIANT on a, b", Some((4.46, 0.14))),
    ("raw", "vol = memory size=1MiB | raw-VARIANT", Some((2.18, 0.08))),
    ("encryptor", "vol = memory size=1MiB | encryptor-VARIANT key=file:k", Some((1.25, 0.38))),
    // Its writes are all alike: each is hashed, found and mapped.
    ("dedup", "vol = memory size=1MiB | dedup-VARIANT", None),
];

/// Extensions on another volume, which requests do not match.
const OTHERS: usize = 16;

/// Instructions that a processor does in a nanosecond at least: below any in use, so times are upper bounds.
const PER_NANOSECOND: f64 = 1.0;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    lab.say("building the program that is counted");
    let counter = InstructionCounter::new(lab.scale(2_000, 20_000))?;
    let alone = counter.instructions("vol = memory size=1MiB")?;
    let disk = disk_time(lab.seed)?;
    lab.say(format!(
        "the modelled disk takes {disk} for a request; it is {alone:.0} instructions without an extension"
    ));
    let mut figures = Vec::new();
    for (name, text, paper) in CASES {
        let of = |variant: &str| Ok::<_, LabError>(counter.instructions(&text.replace("VARIANT", variant))? - alone);
        let (vanilla, able) = (of("vanilla")?, of("able")?);
        let more = (able / vanilla - 1.0) * 100.0;
        let share = (able - vanilla).max(0.0) / PER_NANOSECOND / disk.0 as f64 * 100.0;
        lab.say(format!("{name}: {vanilla:.0} by hand, {able:.0} on the primitives: {more:+.2} %"));
        let (paper_more, paper_share) = paper.unzip();
        let more = Figure::alone(format!("{name}_instructions_more"), more, "% more than by hand").paper(paper_more);
        let share = Figure::alone(format!("{name}_io_time_share"), share, "% of I/O time added").paper(paper_share);
        figures.extend([more, share]);
    }
    let others = " | pass".repeat(OTHERS);
    let unmatched = counter.instructions(&format!("vol = memory size=1MiB; other = memory size=1MiB{others}"))?;
    let each = (unmatched - alone) / OTHERS as f64 / PER_NANOSECOND;
    figures.push(Figure::alone("unmatched_ns_max", each, "ns per extension that a request does not match, at most"));
    Ok(figures)
}

/// Mean time of such requests at random places of a modelled disk.
fn disk_time(seed: u64) -> Result<Nanos, LabError> {
    const REQUESTS: u64 = 400;
    let rig = Rig::simulated(seed, "vol = disk-model size=100GiB")?;
    let (rt, vol) = (rig.world.rt(), rig.device("vol"));
    let mut places = rt.rng("places");
    rig.world.block_on(async move {
        let begin = rt.now();
        for i in 0..REQUESTS {
            let (at, buf) = (places.below(20 << 20) * 4096, Buf::described(4096, i));
            let bio = if i % 2 == 0 { Bio::write(at, buf).fua() } else { Bio::read(at, buf) };
            vol.submit(bio).await.result?;
        }
        Ok(Nanos(rt.now().since(begin).0 / REQUESTS))
    })
}
