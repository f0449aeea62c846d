//! Traces replayed on `Ram` in virtual time: each call comes out as the trace says, but for a list of differences.
//!
//! What a trace says comes from three sources that know nothing of `Ram`. The symbolic file system of traces answers
//! random calls. Scripts of generators know their answers. Programs were recorded on kernels.

mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use esker_base::{Stream, Time};
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig};
use esker_trace_calls::etrace::{self, Limits};
use esker_trace_calls::generate::{Shape, apple_desktop};
use esker_trace_calls::{
    Action, At, Call, Fd, Object, Outcome, PathBytes, Platform, Process, ProcessId, Status, Thread, ThreadId, Trace,
    Word,
};
use esker_trace_order::compiled::Program;
use esker_trace_order::model::world::ROOT_INODE;
use esker_trace_order::model::{Intent, World, compile};
use esker_trace_order::rules::{Order, Rules};
use esker_trace_replay::files::{CallCosts, SimulateOptions, simulate};
use esker_trace_replay::{ExchangeBy, ReplayInput, Report, Speed};
use esker_vfs::{Ram, RamConfig};

use crate::model_kernel::generate::Generator;

/// Random calls of one trace, and traces of a usual run.
const CALLS: u64 = 4000;
const SEEDS: std::ops::Range<u64> = 1..6;
/// Recorded programs of a usual run: small ones that do much with files.
const USUAL: [&str; 6] = ["fd-find", "git-gc", "sqlite-rollback", "tar-zstd", "python-compileall", "rsync-tree"];
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/programs");

fn replay(name: &str, program: Program, order: Order, costs: CallCosts) -> Report {
    let sim = Sim::new(SimConfig { seed: 1, cpus: 2 });
    let files = Rc::new(Ram::new(RamConfig::sized(16 << 30), Pool::default()));
    let job = ReplayInput { name: name.to_string(), program };
    let options =
        SimulateOptions { order, speed: Speed::Afap, exchange: ExchangeBy::Link, max_bytes: None, costs, cpus: 2 };
    simulate(&sim, files, vec![job], &options).expect("the tree is made").remove(0)
}

fn root() -> Order {
    Order::Root(Rules::default())
}

/// Fails for a difference that is not in the list; counts those that are.
fn judge(report: &Report) -> BTreeMap<&'static str, u64> {
    assert_eq!(report.stopped, None, "{}", report.trace);
    let mut explained = BTreeMap::new();
    for one in &report.mismatches.listed {
        let Some(why) = rules::explain(&report.trace, one) else {
            let (call, expected, actual) = (&one.call, &one.expected, &one.actual);
            panic!("{}: action {}: {call}: traced {expected}, ram {actual}", report.trace, one.action);
        };
        *explained.entry(why).or_insert(0) += 1;
    }
    let listed = report.mismatches.listed.len() as u64;
    assert_eq!(report.mismatches.count, listed, "{}: more differ than are listed", report.trace);
    let differs = report.tree_differences.listed.first().map(rules::told);
    assert_eq!(differs, None, "{}", report.trace);
    explained
}

/// A trace of random calls, each with the answer of the model of traces.
fn random(seed: u64) -> Trace {
    let mut trace = Trace::new(Platform::Linux, "random calls");
    trace.processes.push(Process { pid: 100, parent: None, cwd: PathBytes::from("/"), umask: 0o22 });
    trace.threads.push(Thread { tid: 100, process: ProcessId(0), parent: None, name: Word::from("") });
    let mut world = World::new(&trace.snapshot);
    let thread = world.add_process(ProcessId(0), ROOT_INODE, 0o22);
    let mut generator = Generator::new(Stream::named(seed, "model against ram"));
    let mut open = BTreeSet::new();
    let mut returns = false;
    for number in 0..CALLS {
        let fds: Vec<Fd> = open.iter().copied().collect();
        let mut call = match returns {
            true => Call::Chdir { file: Object::Path { at: At::cwd("/"), follow: true } },
            false => generator.call(fds, |fd| world.descriptor(thread, fd)),
        };
        let answer = world.act(thread, &call, Intent::Free);
        if let Ok(value) = answer {
            match call {
                Call::Open { .. } | Call::Dup { .. } | Call::DupTo { .. } => {
                    open.insert(Fd(value as i32));
                }
                Call::Close { fd } => {
                    open.remove(&fd);
                }
                _ => {}
            }
        }
        // A replay names files from the root. So it cannot follow a program whose working directory is removed.
        returns = !returns && answer.is_ok() && matches!(call, Call::Chdir { .. });
        if let (Call::Stat { seen, .. }, Some(inode), Ok(_)) = (&mut call, world.subject(), answer) {
            let (kind, size, links) = world.status(inode);
            *seen = Some(Box::new(Status { kind, mode: 0, size, links, device: 0, inode: 0 }));
        }
        let outcome = answer.map_or_else(Outcome::Failed, Outcome::Done);
        let (enter, leave) = (Time(number * 2000), Time(number * 2000 + 1000));
        trace.actions.push(Action { thread: ThreadId(0), enter, leave, call, outcome });
    }
    trace
}

#[test]
fn random_calls_come_out_as_the_model_of_traces_says() {
    let mut explained = BTreeMap::new();
    for seed in SEEDS {
        let program = compile(random(seed), &mut |_| {}).unwrap();
        let report = replay(&format!("random calls of seed {seed}"), program, root(), CallCosts::none());
        assert_eq!(report.mismatches.compared, CALLS, "every call was made");
        judge(&report).into_iter().for_each(|(why, count)| *explained.entry(why).or_insert(0) += count);
    }
    explained.iter().for_each(|(why, count)| println!("{count} times {why}"));
}

#[test]
fn made_traces_come_out_as_their_scripts_say_in_each_order() {
    for seed in 1..4 {
        for order in [root(), Order::Temporal, Order::Single] {
            let program = compile(apple_desktop(Shape::tiny(seed)), &mut |_| {}).unwrap();
            judge(&replay(&format!("desktop of seed {seed}, {}", order.name()), program, order, CallCosts::built_in()));
        }
    }
}

fn recorded(name: &str) -> Program {
    let path = Path::new(PROGRAMS).join(format!("{name}.etrace"));
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let trace = etrace::read(&bytes[..], Limits::GENEROUS).expect("a recording of the suite");
    compile(trace, &mut |_| {}).unwrap()
}

#[test]
fn recorded_programs_come_out_as_on_the_kernel() {
    for name in USUAL {
        let report = replay(name, recorded(name), root(), CallCosts::built_in());
        judge(&report).iter().for_each(|(why, count)| println!("{name}: {count} times {why}"));
    }
}

#[test]
#[ignore = "all programs of the suite, for some minutes"]
fn all_recorded_programs_come_out_as_on_the_kernel() {
    let mut names: Vec<String> = std::fs::read_dir(PROGRAMS)
        .expect("the suite")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.strip_suffix(".etrace").map(str::to_string))
        .collect();
    names.sort_unstable();
    for name in names {
        let report = replay(&name, recorded(&name), root(), CallCosts::built_in());
        let explained = judge(&report);
        println!("{name}: {} calls, {explained:?}", report.mismatches.compared);
    }
}

#[test]
fn one_seed_gives_one_report_and_costs_decide_the_time() {
    let report = |costs| {
        let report = replay("twice", recorded("sqlite-rollback"), Order::Temporal, costs);
        (report.elapsed_ns, serde_json::to_string(&report).expect("a report is JSON"))
    };
    let (elapsed, text) = report(CallCosts::built_in());
    assert_eq!(report(CallCosts::built_in()), (elapsed, text));
    let slower = CallCosts::measured("here", [("write", 1e6, 0.0), ("read", 1e6, 0.0)].into_iter());
    assert!(report(slower).0 > 10 * elapsed);
    assert_eq!(report(CallCosts::none()).0, 0, "nothing but calls takes time");
}
