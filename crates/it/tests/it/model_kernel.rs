//! The symbolic file system of traces against the kernel: random calls on both, every answer compared.
//!
//! Descriptors' numbers, root and working directory belong to a whole process, so that a process of its own does it:
//! the test runs this program again, for [`child`] alone, whose root is a scratch folder.

pub(crate) mod generate;
mod kernel;

use std::collections::VecDeque;
use std::process::Command;

use esker_base::Stream;
use esker_trace_calls::action::ProcessId;
use esker_trace_calls::call::{Call, Fd, Object};
use esker_trace_calls::snapshot::Snapshot;
use esker_trace_calls::wire::Field;
use esker_trace_calls::{Errno, ThreadId};
use esker_trace_order::model::world::ROOT_INODE;
use esker_trace_order::model::{Intent, World};

use generate::Generator;
use kernel::{Kernel, Seen};

/// Calls of one process, and of a usual test run; the variable asks for more.
const ROUND: u64 = 20_000;
const CALLS_VARIABLE: &str = "ESKER_MODEL_CALLS";
const FOLDER_VARIABLE: &str = "ESKER_MODEL_FOLDER";
/// Calls that a failure shows.
const RECENT: usize = 60;
const SEED_VARIABLE: &str = "ESKER_MODEL_SEED";

#[test]
fn the_model_answers_as_the_kernel_does() {
    if !rustix::process::geteuid().is_root() {
        return esker_testkit::skip(esker_testkit::Ability::Root, "only root may change a process's root directory");
    }
    let number = |name, usual| std::env::var(name).map_or(usual, |text| text.parse().expect("a number"));
    let (calls, seed): (u64, u64) = (number(CALLS_VARIABLE, ROUND), number(SEED_VARIABLE, 1));
    // Trees that only grow would make later calls slow: each round begins with an empty one.
    for round in 0..calls.div_ceil(ROUND) {
        compare_in_a_process(seed + round);
    }
    println!("{calls} calls from seed {seed} on, no difference");
}

fn compare_in_a_process(seed: u64) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let program = std::env::current_exe().expect("the test program's path");
    let run = Command::new(program)
        .args(["--exact", "model_kernel::child", "--ignored", "--nocapture", "--test-threads=1"])
        .env(FOLDER_VARIABLE, folder.path())
        .env(SEED_VARIABLE, seed.to_string())
        .output()
        .expect("the test program runs");
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(text.contains("calls, no difference"), "the child did nothing: {text}");
}

#[test]
#[ignore = "needs a process of its own: the test above runs it, as often as ESKER_MODEL_CALLS asks for"]
fn child() {
    let folder = std::env::var_os(FOLDER_VARIABLE).expect("the test above tells the folder");
    let seed = std::env::var(SEED_VARIABLE).expect("and the seed").parse().expect("a number");
    println!("seed {seed}");
    let (mut world, thread) = start();
    std::env::set_current_dir(&folder).expect("a scratch folder can be entered");
    rustix::process::chroot(".").expect("root may do that");
    let failed = compare(&mut world, thread, seed);
    println!("{ROUND} calls, no difference; {failed} of them failed, equally");
    assert!(failed < ROUND * 9 / 10, "too few calls succeed to show anything");
}

/// Both sides, from the same empty root directory on. Returns how many calls failed.
fn compare(world: &mut World, thread: ThreadId, seed: u64) -> u64 {
    let mut kernel = Kernel::default();
    let mut generator = Generator::new(Stream::named(seed, "model against kernel"));
    let (mut failed, mut recent) = (0, VecDeque::new());
    for number in 0..ROUND {
        let call = generator.call(kernel.numbers(), |fd| world.descriptor(thread, fd));
        let expected = kernel.call(&call);
        let answer = world.act(thread, &call, Intent::Free);
        let told = answer.map(|value| Seen { value, status: status(world, &call) });
        failed += u64::from(expected.is_err());
        recent.push_back(text(&call, &expected));
        recent.drain(..recent.len().saturating_sub(RECENT));
        assert_eq!(told, expected, "seed {seed}, call {number}; the last calls:\n{:#?}", recent);
    }
    failed
}

/// A model of the process as it will be: an empty root directory, and what the test program has open.
fn start() -> (World, ThreadId) {
    let mut world = World::new(&Snapshot::default());
    let thread = world.add_process(ProcessId(0), ROOT_INODE, 0o022);
    for fd in kernel::open_now() {
        world.make_unknown_fd(thread, Fd(fd), false);
    }
    (world, thread)
}

/// What the model knows where the kernel tells: type, size and names.
fn status(world: &World, call: &Call) -> Option<kernel::Status> {
    let Call::Stat { .. } = call else { return None };
    let (kind, size, links) = world.status(world.subject()?);
    Some(kernel::comparable(kind, size, links))
}

fn text(call: &Call, seen: &Result<Seen, Errno>) -> String {
    let mut text = String::new();
    call.render(&mut text);
    format!("{text} = {seen:?}")
}

/// Where a path of a call starts, if it is not in the working directory.
fn fd_of(object: &Object) -> Option<Fd> {
    if let Object::Fd(fd) = object { Some(*fd) } else { None }
}
