//! What power cuts leave.

use std::cell::Cell;
use std::rc::Rc;

use esker_block::conformance::Options;
use esker_block::{Bio, Buf, Device, Done, Env, Kind, Limits, Step};
use esker_rt::Rt;
use esker_stack::Export;
use esker_testkit::power::{self, RECORDED};
use esker_testkit::{Bound, bench};

use crate::check;

static KINDS: &[&Kind] = &[&crate::KIND, &RECORDED];

const MEMBERS: &str = "a = recorded size=64KiB latency=3us; b = recorded size=64KiB latency=7us;";
const BOTH: &str = "vol = mirror region=4KiB clean_after=40us";

fn open(rt: &Rt, text: &str, env: &Env) -> Export {
    bench::open_with(rt, KINDS, text, env)
}

/// A volume over two members that are compared before its first request, as the power cut left them.
struct Compared {
    volume: Export,
    compared: Rc<Cell<bool>>,
}

impl Device for Compared {
    fn limits(&self) -> &Limits {
        self.volume.limits()
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let (volume, is_first) = (self.volume.clone(), !self.compared.replace(true));
        Step::later(async move {
            if is_first {
                compare(&volume).await;
            }
            volume.submit(bio).await
        })
    }
}

/// Members that call each other in sync are equal wherever no superblock says that they may differ.
async fn compare(volume: &Export) {
    let mut members = Vec::new();
    for name in ["a", "b"] {
        let member = volume.stack().device(name).expect("the text names it");
        let done = member.submit(Bio::read(0, Buf::unique(volume.stack().pool(), 64 << 10))).await;
        members.push(done.buf.to_vec());
    }
    let verdict = check::check(2, &mut |member, at, out| {
        out.copy_from_slice(&members[member][at as usize..][..out.len()]);
        Ok(())
    });
    if let Ok(verdict) = verdict {
        assert_eq!(verdict.differing, [], "no superblock tells of it");
    }
}

/// Runs the suite on one stack, and opens another one over each state that a power cut could leave.
fn check(first: &str, then: &str, states_min: u64) {
    let mut states = 0;
    for seed in 1..=2 {
        // The stack is built once to run and then once for each state.
        let built = Cell::new(false);
        let text = || format!("{MEMBERS} {}", if built.replace(true) { then } else { first });
        let bound = Bound { states_max: 11, seed };
        let volume = |rt: &Rt, env: &Env| -> Rc<dyn Device> {
            let compared = Rc::new(Cell::new(!built.get()));
            Rc::new(Compared { compared, volume: open(rt, &text(), env) })
        };
        let count = power::check(volume, Options::power_cuts(seed), bound);
        states += count.unwrap_or_else(|broken| panic!("{then}: {broken}")).states;
    }
    println!("{states} crash states: {first} -> {then}");
    assert!(states >= states_min, "only {states} states");
}

#[test]
fn a_mirror_keeps_its_promises_in_every_crash_state() {
    let text = format!("{BOTH} on a, b");
    check(&text, &text, 2500);
    let text = format!("{BOTH} initial=assume-clean on a, b");
    check(&text, &text, 2500);
}

/// A process is killed at each event of a short run, and the power fails while the next process opens the members.
#[test]
fn a_power_cut_behind_a_killed_process_leaves_a_usable_mirror() {
    for (seed, initial) in [(1, "resync"), (2, "assume-clean")] {
        let text = format!("{MEMBERS} {BOTH} initial={initial} on a, b");
        let options = Options { batches: 3, ..Options::power_cuts(seed) };
        let volume = |rt: &Rt, env: &Env| -> Rc<dyn Device> { Rc::new(open(rt, &text, env)) };
        let count = power::check_kills(volume, options, Bound { states_max: 4, seed }, 60);
        let count = count.unwrap_or_else(|broken| panic!("{text}: {broken}"));
        println!("{count:?}");
        assert!(count.states > 2500, "{count:?}");
    }
}

/// The power fails and one member never comes back: the other one has everything.
#[test]
fn either_member_keeps_all_promises_alone() {
    for member in ["a", "b"] {
        check(
            &format!("{BOTH} initial=assume-clean on a, b"),
            &format!("vol = mirror degraded=true on {member}"),
            2500,
        );
    }
}
