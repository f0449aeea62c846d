//! `artc-compile`: what compiling and loading a large trace costs. The trace is generated, with the patterns of
//! Apple's desktop programs on 16 threads, about as long as the longest one of the source (1,660,736 actions). The
//! memory is that of the whole process while it compiles, with the trace in it; loading is decoding the file's bytes,
//! deriving all edges of the usual rules, and reducing them.

use std::fs;

use esker_trace_calls::generate::{Shape, apple_desktop};
use esker_trace_order::compiled::Program;
use esker_trace_order::model::compile;
use esker_trace_order::rules::{Order, Rules};

use esker_lab_kit::{Figure, Lab, LabError, machine::told_bytes, timing::timed};

/// Scripts of the trace, 19 actions each in the mean, and of the short form, which is a tenth.
const SCRIPTS: u32 = 90_000;
const THREADS: u32 = 16;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let scripts = if lab.quick { SCRIPTS / 10 } else { SCRIPTS };
    let trace = apple_desktop(Shape { seed: lab.seed, threads: THREADS, scripts });
    let actions = trace.actions.len();
    lab.say(format!("{actions} actions of {THREADS} threads"));
    // The kernel sets the recorded peak of this process's memory to its present size.
    fs::write("/proc/self/clear_refs", "5")
        .map_err(|error| LabError::Data(format!("/proc/self/clear_refs: {error}")))?;
    let (compile_seconds, compiled) = timed(|| compile(trace, &mut |_| {}));
    let program = compiled.map_err(LabError::data)?;
    let peak = told_bytes("/proc/self/status", "VmHWM");
    let peak = peak.ok_or_else(|| LabError::data("/proc/self/status tells no peak of memory"))?;
    lab.say(format!("compiled in {compile_seconds:.2} s, peak {:.3} GiB", gib(peak)));
    let bytes = program.encode();
    drop(program);
    let (load_seconds, loaded) = timed(|| {
        let program = Program::decode(&bytes).map_err(LabError::data)?;
        let schedule = program.schedule(Order::Root(Rules::default()));
        Ok::<_, LabError>((program, schedule))
    });
    let (program, schedule) = loaded?;
    let cost = schedule.cost();
    lab.say(format!("loaded in {load_seconds:.2} s, {} waits", cost.waits));
    Ok(vec![
        Figure::alone("actions", program.len() as f64, "actions"),
        Figure::alone("compile_s", compile_seconds, "s"),
        Figure::alone("compile_gib", gib(peak), "GiB, peak of the process"),
        Figure::alone("load_s", load_seconds, "s"),
        Figure::alone("dependency_bytes", cost.bytes_per_action, "bytes per action while replaying"),
        Figure::alone("file_bytes", bytes.len() as f64 / actions as f64, "bytes per action in the file"),
    ])
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
