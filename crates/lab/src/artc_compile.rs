//! `artc-compile`: what compiling and loading a large trace costs. The trace is generated, with the patterns of Apple's
//! desktop programs on 16 threads, about as long as the longest one of the source (1,660,736 actions). The memory is
//! that of the whole process while it compiles, with the trace in it; loading is decoding the file's bytes, deriving
//! all edges of the usual rules, and reducing them.

use std::fs;
use std::time::Instant;

use esker_trace_calls::generate::{Shape, apple_desktop};
use esker_trace_order::compiled::Program;
use esker_trace_order::model::compile;
use esker_trace_order::rules::{Order, Rules};

use esker_lab_kit::{Experiment, Figure, LabError, Options, machine::told_bytes};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "artc-compile",
    summary: "Time and memory of compiling and loading a trace of 1.7 million actions",
    source: "thesis on hardware-driven evolution, section 2.4; the project's own bars",
    simulated: false,
    rivals: &[],
    run,
};

/// Scripts of the trace, 19 actions each in the mean, and of the short form, which is a tenth.
const SCRIPTS: u32 = 90_000;
const THREADS: u32 = 16;

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let scripts = if options.quick { SCRIPTS / 10 } else { SCRIPTS };
    let trace = apple_desktop(Shape { seed: options.seed, threads: THREADS, scripts });
    let actions = trace.actions.len();
    progress(&format!("{actions} actions of {THREADS} threads"));
    forget_peak()?;
    let (compiled, compile_seconds) = timed(|| compile(trace, &mut |_| {}));
    let program = compiled.map_err(LabError::data)?;
    let peak = peak_bytes()?;
    progress(&format!("compiled in {compile_seconds:.2} s, peak {:.3} GiB", gib(peak)));
    let bytes = program.encode();
    drop(program);
    let (loaded, load_seconds) = timed(|| {
        let program = Program::decode(&bytes)?;
        let schedule = program.schedule(Order::Root(Rules::default()));
        Ok((program, schedule))
    });
    let (program, schedule) =
        loaded.map_err(|error: esker_trace_order::compiled::CompiledError| LabError::Data(error.to_string()))?;
    let cost = schedule.cost();
    progress(&format!("loaded in {load_seconds:.2} s, {} waits", cost.waits));
    Ok(vec![
        Figure::alone("actions", program.len() as f64, "actions"),
        Figure::alone("compile_s", compile_seconds, "s"),
        Figure::alone("compile_gib", gib(peak), "GiB, peak of the process"),
        Figure::alone("load_s", load_seconds, "s"),
        Figure::alone("dependency_bytes", cost.bytes_per_action, "bytes per action while replaying"),
        Figure::alone("file_bytes", bytes.len() as f64 / actions as f64, "bytes per action in the file"),
    ])
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed().as_secs_f64())
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// The process's peak of memory is what it has now.
fn forget_peak() -> Result<(), LabError> {
    fs::write("/proc/self/clear_refs", "5").map_err(|error| LabError::Data(format!("/proc/self/clear_refs: {error}")))
}

fn peak_bytes() -> Result<u64, LabError> {
    told_bytes("/proc/self/status", "VmHWM")
        .ok_or_else(|| LabError::Data("/proc/self/status tells no peak of memory".into()))
}
