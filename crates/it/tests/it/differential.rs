//! File systems of the kernel against `Ram` under `fs-posix`: the same random scripts on both. Every answer is
//! compared, and the whole tree behind each script.
//!
//! Root, working directory and rights belong to a whole process, and a mount to its namespace. So each file system has
//! a process of its own, which runs this program again for [`child`] alone, and leaves no mount behind however it ends.

mod passed;
mod rules;
mod scripts;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use esker_fs_host::Host;
use esker_fs_posix::script::{Actor, Facts, Held, Object, Outcome, Player, Random, ScriptOp, at_once, audit};
use esker_fs_posix::{Follow, SetTime, Settings, Whence, World};
use esker_it::kernel::{Bed, System, hard_links_are_protected};
use esker_rt::mem::Pool;
use esker_testkit::Ability;
use esker_vfs::{Cred, FileType, Ram, RamConfig, Stamp};

use rules::{Seen, Then};

/// Calls of one script, which begins with an empty tree.
const SCRIPT: usize = 400;
/// Calls of a usual test run on each file system.
const CALLS: usize = 4000;
const SOAK_CALLS: usize = 1_000_000;
const CALLS_VARIABLE: &str = "ESKER_FILES_CALLS";
const SEED_VARIABLE: &str = "ESKER_FILES_SEED";
/// What `cargo xtask soak` tells.
const SOAK_SEED_VARIABLE: &str = "ESKER_KILL_SEED";
const SYSTEM_VARIABLE: &str = "ESKER_FILES_SYSTEM";
/// What the child prints last.
const NO_DIFFERENCE: &str = "no difference that is not in the list";

#[test]
fn ram_answers_as_ext4_does() {
    compare_in_a_process(System::Ext4, CALLS);
}

#[test]
fn ram_answers_as_xfs_does() {
    compare_in_a_process(System::Xfs, CALLS);
}

#[test]
fn ram_answers_as_btrfs_does() {
    compare_in_a_process(System::Btrfs, CALLS);
}

#[test]
fn ram_answers_as_tmpfs_does() {
    compare_in_a_process(System::Tmpfs, CALLS);
}

#[test]
#[ignore = "10^6 calls on each file system: cargo xtask soak files"]
fn ram_answers_as_the_kernel_does_for_a_long_time() {
    System::ALL.into_iter().for_each(|system| compare_in_a_process(system, SOAK_CALLS));
}

fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

fn compare_in_a_process(system: System, calls: usize) {
    check_in_a_process(system, "differential::child", calls);
}

/// Runs a test of this program that is ignored otherwise, in a process with mounts of its own.
fn check_in_a_process(system: System, test: &str, calls: usize) {
    if !rustix::process::geteuid().is_root() {
        return esker_testkit::skip(Ability::Root, "only root mounts file systems");
    }
    if let Some(missing) = system.missing() {
        return esker_testkit::skip(Ability::Program, missing);
    }
    let program = std::env::current_exe().expect("the test program's path");
    let run = Command::new("unshare")
        .arg("--mount")
        .arg(program)
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env(SYSTEM_VARIABLE, system.name())
        .env(CALLS_VARIABLE, number(CALLS_VARIABLE, calls).to_string())
        .env(SEED_VARIABLE, number(SEED_VARIABLE, number(SOAK_SEED_VARIABLE, 1)).to_string())
        .output()
        .expect("unshare runs");
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(text.contains(NO_DIFFERENCE), "the child did nothing: {text}");
    println!("{text}");
}

/// The file system that the test above names.
fn system() -> System {
    let name = std::env::var(SYSTEM_VARIABLE).expect("the test above names the file system");
    System::named(&name).expect("one of the list")
}

#[test]
#[ignore = "needs a process of its own: the tests above run it, as often as ESKER_FILES_CALLS asks for"]
fn child() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let bed = Bed::new(system(), folder.path());
    play_at_random(system(), &|script| bed.in_a_tree(|| compare(system(), script, &mut by_the_kernel())));
}

/// The kernel itself, for a process whose root directory is an empty one.
fn by_the_kernel() -> Host {
    Host::at(Path::new("/")).expect("a root directory opens")
}

/// Plays random scripts on both sides, as many as the test above asks for. `compare` does so in an empty tree.
fn play_at_random(system: System, compare: &dyn Fn(&[ScriptOp]) -> Played) {
    let name = system.name();
    let (seed, calls) = (number(SEED_VARIABLE, 1), number(CALLS_VARIABLE, CALLS));
    println!("{name}, seed {seed}, {calls} calls");
    let (mut made, mut succeeded, mut explained) = (0, 0, BTreeMap::new());
    let mut round = seed as u64;
    while made < calls {
        let script: Vec<ScriptOp> = Random::new(round).filter(|op| rules::is_played(system, op)).take(SCRIPT).collect();
        let played = compare(&script);
        if let Err(difference) = &played.verdict {
            let script = shortened(compare, script);
            let lines: Vec<_> = script.iter().map(ScriptOp::to_string).collect();
            let last = compare(&script).verdict.expect_err("it was shortened while it differs");
            panic!("{name}, seed {round}: {difference}\nshortened:\n{}\n{last}", lines.join("\n"));
        }
        (made, succeeded) = (made + played.calls, succeeded + played.succeeded);
        played.explained.into_iter().for_each(|(why, count)| *explained.entry(why).or_insert(0) += count);
        round += 1;
    }
    explained.iter().for_each(|(why, count)| println!("{count} times {why}"));
    println!("{name}: {made} calls from seed {seed} on, {succeeded} succeed, {NO_DIFFERENCE}");
    assert!(succeeded > made / 5, "too few calls succeed to show anything");
}

/// What came of a script.
struct Played {
    calls: usize,
    succeeded: usize,
    explained: BTreeMap<&'static str, usize>,
    verdict: Result<(), String>,
}

/// Plays a script on both sides, in a root directory that is empty.
fn compare(system: System, script: &[ScriptOp], theirs: &mut impl Player) -> Played {
    let mut ours = actor();
    let mut played = Played { calls: 0, succeeded: 0, explained: BTreeMap::new(), verdict: Ok(()) };
    for (number, op) in script.iter().enumerate() {
        let (our, their) = (at_once(ours.call(op)), at_once(theirs.call(op)));
        played.calls += 1;
        played.succeeded += usize::from(!matches!(their, Outcome::Failed(_)));
        let (our, their) = (our.to_string(), their.to_string());
        if our == their {
            continue;
        }
        let is_directory = match op {
            ScriptOp::Seek(held, ..) | ScriptOp::Read(held, ..) => is_directory(&mut ours, *held),
            _ => false,
        };
        let here = at_once(ours.call(&ScriptOp::Stat(Object::Path(".".into()), Follow::Links)));
        let is_lost = matches!(here, Outcome::Facts(Facts { links: 0, .. }));
        match rules::explain(
            system,
            &Seen { op, before: &script[..number], is_directory, is_lost, our: &our, their: &their },
        ) {
            Some(rule) => {
                *played.explained.entry(rule.why).or_default() += 1;
                match (rule.then, op) {
                    (Then::Rewinds, ScriptOp::Seek(held, ..) | ScriptOp::Read(held, ..)) => {
                        let rewind = ScriptOp::Seek(*held, Whence::Set, 0);
                        at_once(ours.call(&rewind));
                        at_once(theirs.call(&rewind));
                    }
                    (Then::Ends, _) => {
                        // The audit is called for what it leaves: the superuser in the root directory.
                        at_once(audit(theirs));
                        return played;
                    }
                    (Then::GoesOn | Then::Rewinds, _) => {}
                }
            }
            None => {
                at_once(audit(theirs));
                played.verdict = Err(format!("call {number}: {op}\n  ours:   {our}\n  kernel: {their}"));
                return played;
            }
        }
    }
    let (our, their) = (at_once(audit(&mut ours)), at_once(audit(theirs)));
    let differs = our.iter().zip(&their).find(|(our, their)| our != their && !rules::is_one_tree(system, our, their));
    if let Some((our, their)) = differs {
        played.verdict = Err(format!("the tree:\n  ours:   {our}\n  kernel: {their}"));
    } else if our.len() != their.len() {
        played.verdict = Err(format!("the tree:\n  ours:   {our:?}\n  kernel: {their:?}"));
    }
    played
}

fn is_directory(player: &mut impl Player, held: Held) -> bool {
    let stat = at_once(player.call(&ScriptOp::Stat(Object::Held(held), Follow::Links)));
    matches!(stat, Outcome::Facts(Facts { kind: FileType::Directory, .. }))
}

fn actor() -> Actor {
    // Later than every time that a script sets, and later with each call.
    const NOW: i64 = 2_000_000_000_000_000_000;
    let ram = Ram::new(RamConfig::sized(64 << 20), Pool::default());
    let settings = Settings { hard_links_protected: hard_links_are_protected(), ..Settings::usual() };
    let now = std::cell::Cell::new(NOW);
    let clock = move || {
        now.set(now.get() + 1_000_000);
        Stamp(now.get())
    };
    let process = World::new(Rc::new(ram), settings, clock).process(Cred::root());
    // The kernel's root directory is new too.
    let touched = process.set_times("/", SetTime::Now, SetTime::Now, Follow::Links);
    at_once(touched).expect("the superuser may do that");
    Actor::new(process)
}

/// A script without the calls that a difference does not need.
fn shortened(compare: &dyn Fn(&[ScriptOp]) -> Played, mut script: Vec<ScriptOp>) -> Vec<ScriptOp> {
    let differs = |script: &[ScriptOp]| compare(script).verdict.is_err();
    let mut step = script.len() / 2;
    while step > 0 {
        let mut at = 0;
        while at < script.len() {
            let end = (at + step).min(script.len());
            let without = [&script[..at], &script[end..]].concat();
            if differs(&without) {
                script = without;
            } else {
                at = end;
            }
        }
        step /= 2;
    }
    script
}
