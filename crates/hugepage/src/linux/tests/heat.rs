//! What the manager makes of the access bits of real processes.

use super::*;
use crate::linux::select::Rule;
use crate::linux::young::Young;
use crate::record::Counts;

/// A manager of some processes, whose scans are short, and its machine.
struct Managed {
    manager: Manager,
    system: System,
    reactor: Reactor,
    _folder: tempfile::TempDir,
}

impl Managed {
    /// With scans of this length, one after the other: long beside what other programs take of a CPU at once. None, with the
    /// reason on the screen, where access bits cannot be had.
    fn start(pids: &[Pid], scan: Nanos, policy: Policy) -> Option<Managed> {
        if let Err(error) = Young::start() {
            println!("SKIPPED: {error}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let policy = Policy { scan_period: scan, scan_interval: scan, slow: Nanos::secs(60), ..policy };
        let settings = Settings {
            rules: pids.iter().map(|pid| Rule { pid: Some(pid.0), ..Rule::default() }).collect(),
            promote: policy.promote,
            poll: Nanos::secs(60),
            poll_share: 1.0,
            base_faults: false,
            access_interval: Some(scan),
            access: crate::linux::Source::PageTables,
            merging: None,
            state: folder.path().join("state.json"),
        };
        let (mut system, manager) = (System::open(settings).unwrap(), Manager::new(policy, 1));
        // What was used before it began asks for nothing: the background scan finds it.
        assert_eq!(system.processes().len(), pids.len());
        system.signals();
        let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
        Some(Managed { manager, system, reactor, _folder: folder })
    }

    /// Works until something is so, or for a time.
    fn run(&mut self, most: Nanos, mut is_so: impl FnMut(&Manager) -> bool) {
        let rt = self.reactor.rt();
        let until = rt.now() + most;
        while rt.now() < until && !is_so(&self.manager) {
            let next = self.manager.turn(rt.now(), &mut self.system, &mut |_, _| {});
            self.reactor.block_on(rt.sleep_until(next.min(rt.now() + Nanos::millis(10))));
        }
    }

    fn huge(&self, pid: Pid) -> u64 {
        self.manager.records()[&pid].huge.len() as u64
    }
}

/// What other programs take of the CPUs can make a process idle that is meant to be busy, so that a few attempts are made.
const ATTEMPTS: u32 = 4;

/// The last attempt's failure, if all fail.
fn succeeds_once(mut attempt: impl FnMut() -> Result<(), String>) {
    let failed = |_| attempt().inspect_err(|why| println!("{why}")).err();
    let failures: Vec<String> = (0..ATTEMPTS).map_while(failed).collect();
    assert!(failures.len() < ATTEMPTS as usize, "{failures:?}");
}

#[test]
fn item_24_a_steady_load_of_a_real_process_is_predicted() {
    succeeds_once(steady_load);
}

fn steady_load() -> Result<(), String> {
    let Some(mut puppet) = Puppet::start(40) else { return Ok(()) };
    puppet.tell("write 0 20480");
    let mut tracked = puppet.track();
    assert!((0..40).all(|at| tracked.promote(puppet.region(at)).result.is_ok()));
    puppet.tell("hammer 0 9");
    let policy = Policy { clear_hot_permille: 1000, ..Policy::ingens() };
    let Some(mut managed) = Managed::start(&[puppet.pid()], Nanos::millis(300), policy) else { return Ok(()) };
    let hot = |manager: &Manager| manager.claims().first().map_or(0, |(_, claim)| claim.huge - claim.idle);
    // Nine regions, and the one in which it counts.
    managed.run(Nanos::secs(30), |manager| hot(manager) == 10);
    let found = (hot(&managed.manager), managed.huge(puppet.pid()) >= 40);
    if found != (10, true) {
        return Err(format!("{found:?} are hot and huge"));
    }
    let before = managed.manager.counts();
    managed.run(Nanos::secs(8), |_| false);
    let after = managed.manager.counts();
    let checked = after.hot_checked - before.hot_checked;
    let counts = Counts { hot_checked: checked, hot_missed: after.hot_missed - before.hot_missed, ..after };
    let ratio = counts.misprediction().unwrap();
    if checked >= 200 && ratio < 0.03 { Ok(()) } else { Err(format!("{ratio} of {checked}")) }
}

#[test]
fn item_34_of_two_real_processes_the_idle_one_gets_a_quarter_of_what_the_busy_one_gets() {
    succeeds_once(contended_budget);
}

fn contended_budget() -> Result<(), String> {
    const REGIONS: u64 = 100;
    let Some(mut busy) = Puppet::start(2 * REGIONS + 2) else { return Ok(()) };
    let mut idle = busy.beside(REGIONS + 1);
    for puppet in [&mut busy, &mut idle] {
        puppet.tell(&format!("write 0 {}", REGIONS * 512));
    }
    busy.tell(&format!("hammer 0 {REGIONS}"));
    // Awake, but it uses nothing any more but a page elsewhere, in which it counts.
    idle.tell(&format!("hammer {REGIONS} {REGIONS}"));
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
