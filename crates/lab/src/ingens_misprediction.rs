//! `ingens-misprediction`: how often a huge page that is thought to be hot turns out not to have been used, and what
//! clearing only a fifth of the access bits of hot pages saves.
//!
//! `misprediction` is of a steady load: a fifth of all huge pages is used all the time. With random use, each huge
//! page has a rate of its own, so that those near the boundary come and go. These are simulated; the figures that end
//! in `_real` are of this process' own memory, a fifth of which is used all the time, beside a manager whose scans
//! are short. What has just become huge counts as hot, and one scan of five looks at such a page: it takes some forty
//! scans until all that is cold is known.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use esker_base::{Nanos, Stream};
use esker_hugepage::policy::Policy;
use esker_hugepage::process::Counts;
use esker_hugepage::sim::Freeing;
use esker_hugepage::{ProcView, REGION_BYTES};

use crate::ingens::loads::Next;
use crate::ingens::managed::{ManagedMachine, place};
use crate::ingens::settings::keep_memory;
use crate::ingens::{self, first_region, room};
use esker_lab_kit::{Figure, Lab, LabError};

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let seconds = lab.scale(2_000, 20_000);
    let steady = |region: u64, _: &mut Stream| region.is_multiple_of(5);
    // Rates from 0 to 1.5 uses in two seconds, the length of an interval.
    let random = |region: u64, rng: &mut Stream| rng.chance(1.0 - (-(region as f64) / 512.0 * 0.75).exp());
    let figure = |id, sampled, uses: &dyn Fn(u64, &mut Stream) -> bool| {
        let counts = measure(sampled, seconds, lab.seed, uses);
        let ratio = counts.misprediction().ok_or_else(|| LabError::Data(format!("{id}: no hot page was checked")))?;
        lab.say(format!("{id}: {} of {}", counts.hot_missed, counts.hot_checked));
        Ok::<_, LabError>((Figure::alone(id, ratio, "of hot pages checked"), counts.hot_checked as f64))
    };
    let (steady_ratio, checked) = figure("misprediction", true, &steady)?;
    let (_, all) = figure("misprediction_all_cleared", false, &steady)?;
    let (random_ratio, _) = figure("misprediction_random", true, &random)?;
    let cleared =
        Figure::alone("hot_cleared", checked / all, "of the hot pages' bits").peer("when all are cleared", all);
    let mut figures = vec![steady_ratio, random_ratio, cleared];
    figures.extend(on_real_pages(lab)?);
    Ok(figures)
}

const REGION: usize = REGION_BYTES as usize;
const REGIONS: usize = 200;
/// No multiple of half a second: a monitor of the machine's own (DAMON) clears bits too, and all scans would end just
/// after it, or none.
const ACCESS: &str = "[access]\nperiod = \"470ms\"\ninterval = \"370ms\"\n";
/// Hot and cold are told apart.
const LEARNT: Duration = Duration::from_secs(22);

fn on_real_pages(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let time = Duration::from_secs(if lab.quick { 20 } else { 300 });
    let _kept = keep_memory(lab)?;
    room(((REGIONS + 1) * REGION) as u64, lab)?;
    let manager = ingens::Manager::start(lab.scratch, std::process::id(), ACCESS)?;
    let mut memory = vec![0u8; (REGIONS + 1) * REGION];
    memory.fill(1);
    let memory = &memory[first_region(&memory)..];
    let is_over = AtomicBool::new(false);
    let (before, after) = scope(|threads| {
        threads.spawn(|| use_a_fifth(memory, &is_over));
        sleep(LEARNT);
        let before = manager.status();
        sleep(time);
        let after = manager.status();
        is_over.store(true, Ordering::Relaxed);
        (before, after)
    });
    let (before, after) = (before?, after?);
    let (checked, missed) =
        (after.done.hot_checked - before.done.hot_checked, after.done.hot_missed - before.done.hot_missed);
    lab.say(format!("of real pages: {missed} of {checked}"));
    let Some(own) = after.processes.first().filter(|_| checked > 0) else {
        return Err(LabError::Data("no hot page of this process was checked: `esker hugepage doctor` says why".into()));
    };
    let ratio = missed as f64 / checked as f64;
    Ok(vec![
        Figure::alone("misprediction_real", ratio, "of hot pages checked"),
        Figure::alone("idle_real", own.idle, "of all huge pages; 0.8 are"),
        Figure::alone("huge_real", own.huge_bytes as f64 / (REGIONS * REGION) as f64, "of the memory"),
    ])
}

/// Reads every fifth region until it is over.
fn use_a_fifth(memory: &[u8], is_over: &AtomicBool) {
    let mut next = Next::from(1);
    while !is_over.load(Ordering::Relaxed) {
        for region in (0..REGIONS).step_by(5) {
            black_box(memory[region * REGION + next.below(REGION)]);
        }
    }
}

/// Counts after a time to settle, for 512 huge pages of which `uses` says in each second whether one is used.
fn measure(sampled: bool, seconds: u64, seed: u64, uses: &dyn Fn(u64, &mut Stream) -> bool) -> Counts {
    const REGIONS: u64 = 512;
    const SETTLED: u64 = 400;
    let clear_hot_permille = if sampled { Policy::ingens().clear_hot_permille } else { 1000 };
    let policy = Policy { clear_hot_permille, scan_period: Nanos::secs(2), ..Policy::ingens() };
    let mut managed = ManagedMachine::new(2 * REGIONS, policy, Freeing::Deferred, seed);
    let mut rng = Stream::named(seed, "ingens-misprediction");
    managed.machine.set_greedy(true);
    let pid = managed.process(REGIONS);
    let mut before = Counts::default();
    for second in 0..SETTLED + seconds {
        if second == SETTLED {
            before = managed.manager.counts();
        }
        for region in (0..REGIONS).filter(|region| uses(*region, &mut rng)) {
            managed.machine.use_region(place(pid, region));
        }
        managed.pass(Nanos::secs(1));
    }
    managed.manager.counts().heat_since(&before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_load_is_predicted_and_a_random_one_less_well() {
        let steady = measure(true, 500, 1, &|region, _| region % 5 == 0);
        let random = measure(true, 500, 1, &|_, rng| rng.chance(0.65));
        assert_eq!((steady.hot_checked > 1_000, steady.hot_missed), (true, 0), "{steady:?}");
        assert!(random.misprediction().is_some_and(|ratio| ratio > 0.03), "{random:?}");
    }
}
