//! `able-overhead`: what requests cost through the sample extensions on the primitives, against the same extensions by
//! hand: in instructions (callgrind), and as a share of the time that the modelled disk takes for them.
//!
//! Costs are differences between runs of different length, so that start and end drop out. A request is half a write
//! and half a read of 4 KiB, each alone.

use std::process::Command;

use esker_base::Nanos;
use esker_block::{Bio, Buf};

use esker_lab_kit::{Experiment, Figure, LabError, Options, Rig, peer};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "able-overhead",
    summary: "Instructions of the sample extensions on the primitives against the same by hand, and their share of I/O time",
    source: "Improving Storage with Stackable Extensions, figure 5.9; the project's bars: 5 %, 1 % and 10 ns",
    simulated: false,
    rivals: &["cargo", "valgrind"],
    run,
};

/// An extension: stack text in which VARIANT stands, names of its figures, and the thesis' two percentages if it has
/// any.
struct Case {
    text: &'static str,
    more: &'static str,
    share: &'static str,
    paper: Option<(f64, f64)>,
}

const CASES: [Case; 4] = [
    Case {
        text: "a = memory size=1MiB; b = memory size=1MiB; vol = raid1-VARIANT on a, b",
        more: "raid1_instructions_more",
        share: "raid1_io_time_share",
        paper: Some((4.46, 0.14)),
    },
    Case {
        text: "vol = memory size=1MiB | raw-VARIANT",
        more: "raw_instructions_more",
        share: "raw_io_time_share",
        paper: Some((2.18, 0.08)),
    },
    Case {
        text: "vol = memory size=1MiB | encryptor-VARIANT key=file:k",
        more: "encryptor_instructions_more",
        share: "encryptor_io_time_share",
        paper: Some((1.25, 0.38)),
    },
    // Its writes are all alike: each is hashed, found and mapped.
    Case {
        text: "vol = memory size=1MiB | dedup-VARIANT",
        more: "dedup_instructions_more",
        share: "dedup_io_time_share",
        paper: None,
    },
];

/// Extensions on another volume, which requests do not match.
const OTHERS: usize = 16;

/// Instructions that a processor does in a nanosecond at least: below any in use, so times are upper bounds.
const PER_NANOSECOND: f64 = 1.0;

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    progress("building the program that is counted");
    build()?;
    let counter = Counter { requests: if options.quick { 2_000 } else { 20_000 } };
    let alone = counter.instructions("vol = memory size=1MiB")?;
    let disk = disk_time(options.seed)?;
    progress(&format!(
        "the modelled disk takes {disk} for a request; without an extension it is {alone:.0} instructions"
    ));
    let mut figures = Vec::new();
    for case in CASES {
        let of = |variant: &str| counter.instructions(&case.text.replace("VARIANT", variant));
        let (vanilla, able) = (of("vanilla")?, of("able")?);
        // What the extension itself does: without client, loop and device.
        let (vanilla, able) = (vanilla - alone, able - alone);
        let more = (able / vanilla - 1.0) * 100.0;
        let share = (able - vanilla).max(0.0) / PER_NANOSECOND / disk.0 as f64 * 100.0;
        progress(&format!("{}: {vanilla:.0} by hand, {able:.0} on the primitives: {more:+.2} %", case.more));
        let (paper_more, paper_share) = case.paper.unzip();
        figures.push(Figure::alone(case.more, more, "% more than by hand").paper(paper_more));
        figures.push(Figure::alone(case.share, share, "% of I/O time added").paper(paper_share));
    }
    let others = " | pass".repeat(OTHERS);
    let unmatched = counter.instructions(&format!("vol = memory size=1MiB; other = memory size=1MiB{others}"))?;
    let each = (unmatched - alone) / OTHERS as f64 / PER_NANOSECOND;
    figures.push(Figure::alone("unmatched_ns_max", each, "ns per extension that a request does not match, at most"));
    Ok(figures)
}

fn build() -> Result<(), LabError> {
    let args = ["build", "--quiet", "--release", "--package", "esker-able-samples", "--example", "requests"];
    peer::output("cargo", &args.map(String::from)).map(drop)
}

/// Runs the program under callgrind.
struct Counter {
    requests: u64,
}

impl Counter {
    /// Instructions of one request through a stack.
    fn instructions(&self, stack: &str) -> Result<f64, LabError> {
        let (few, many) = (self.total(stack, self.requests)?, self.total(stack, 2 * self.requests)?);
        Ok((many - few) as f64 / self.requests as f64)
    }

    fn total(&self, stack: &str, requests: u64) -> Result<u64, LabError> {
        let program = target().join("release/examples/requests");
        let fault = |what: String| LabError::Rival { program: "valgrind".to_string(), what };
        let run = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(&program)
            .args([stack, &requests.to_string()])
            .output()
            .map_err(|error| fault(error.to_string()))?;
        let told = String::from_utf8_lossy(&run.stderr).into_owned();
        if !run.status.success() {
            return Err(fault(told));
        }
        let collected = told.lines().find_map(|line| line.split("Collected : ").nth(1));
        collected.and_then(|count| count.trim().parse().ok()).ok_or_else(|| fault(format!("no count in: {told}")))
    }
}

/// Where cargo puts what it builds.
fn target() -> std::path::PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), Into::into)
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
