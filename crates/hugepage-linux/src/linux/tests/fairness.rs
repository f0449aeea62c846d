//! How real processes share huge pages that do not suffice for all.

use super::heat::{Managed, attempted};
use super::*;

#[test]
fn what_two_processes_have_in_use_when_they_are_met_is_served_by_their_claims() {
    const REGIONS: u64 = 20;
    let Some(mut first) = Puppet::start(2 * REGIONS + 2) else { return };
    let mut second = first.beside(REGIONS);
    for puppet in [&mut first, &mut second] {
        puppet.send(&format!("write 0 {}", REGIONS * 512));
    }
    let pids = [first.pid(), second.pid()];
    let policy = Policy { budget: Some(REGIONS), quantum_sleep: Nanos::secs(3_600), ..Policy::ingens() };
    let Some(mut managed) = Managed::meeting(&pids, Nanos::secs(60), policy) else { return };
    let huge = |manager: &Manager| manager.claims().iter().map(|(_, claim)| claim.huge).sum::<u64>();
    managed.run(Nanos::secs(20), |manager| huge(manager) == REGIONS);
    assert_eq!(pids.map(|pid| managed.huge(pid)), [REGIONS / 2; 2]);
}

#[test]
fn of_two_real_processes_the_idle_one_gets_a_quarter_of_what_the_busy_one_gets() {
    assert_eq!(attempted(contended_budget), Ok(()));
}

fn contended_budget() -> Result<(), String> {
    const REGIONS: u64 = 100;
    let Some(mut busy) = Puppet::start(2 * REGIONS + 2) else { return Ok(()) };
    let mut idle = busy.beside(REGIONS + 1);
    for puppet in [&mut busy, &mut idle] {
        puppet.send(&format!("write 0 {}", REGIONS * 512));
    }
    busy.send(&format!("work 0 {REGIONS}"));
    // Awake, but it uses nothing any more but a page elsewhere, in which it counts.
    idle.send(&format!("work {REGIONS} {REGIONS}"));
    let pids = [busy.pid(), idle.pid()];
    let scan = Nanos::millis(100);
    // A promotion for every second scan, so that heat is known before many more.
    let policy = Policy {
        budget: Some(REGIONS),
        quantum_regions: 1,
        quantum_sleep: scan * 2,
        clear_hot_permille: 1000,
        ..Policy::ingens()
    };
    let Some(mut managed) = Managed::start(&pids, scan, policy) else { return Ok(()) };
    let huge = |manager: &Manager| manager.claims().iter().map(|(_, claim)| claim.huge).sum::<u64>();
    managed.run(Nanos::secs(60), |manager| huge(manager) == REGIONS);
    let [busy, idle] = pids.map(|pid| managed.huge(pid));
    let is_so = busy + idle == REGIONS && (busy as f64 / idle as f64 / 4.0 - 1.0).abs() <= 0.1;
    if is_so { Ok(()) } else { Err(format!("{busy} : {idle}")) }
}
