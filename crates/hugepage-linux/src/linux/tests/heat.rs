//! What the manager makes of the access bits of real processes.

use super::*;
use crate::linux::select::Rule;
use crate::linux::young::Young;

/// A manager of some processes, whose scans are short, and its machine.
pub(super) struct Managed {
    pub(super) manager: Manager,
    system: System,
    reactor: Reactor,
    _folder: tempfile::TempDir,
}

impl Managed {
    /// With scans of this length, one after the other: long beside what other programs take of a CPU at once. What the
    /// processes have in use already asks for nothing: the background scan finds it. None where access bits cannot be
    /// had, which is recorded as a skip.
    pub(super) fn start(pids: &[Pid], scan: Nanos, policy: Policy) -> Option<Managed> {
        let mut managed = Managed::meeting(pids, scan, policy)?;
        assert_eq!(managed.system.processes().len(), pids.len());
        managed.system.signals();
        Some(managed)
    }

    /// The same, but what they have in use asks as soon as they are met.
    pub(super) fn meeting(pids: &[Pid], scan: Nanos, policy: Policy) -> Option<Managed> {
        if let Err(error) = Young::start() {
            skip(Ability::Bpf, error);
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let policy = Policy { scan_period: scan, scan_interval: scan, slow_promotion: Nanos::secs(60), ..policy };
        let settings = Settings {
            rules: pids.iter().map(|pid| Rule { pid: Some(pid.0), ..Rule::default() }).collect(),
            promote: policy.promote,
            poll: Nanos::secs(60),
            poll_cpu_max: 1.0,
            base_faults: false,
            access_interval: Some(scan),
            access: crate::linux::Source::PageTables,
            merging: None,
            state: folder.path().join("state.json"),
        };
        let (system, manager) = (System::open(settings).unwrap(), Manager::new(policy, 1));
        let reactor = Reactor::new(RealConfig::seeded(1)).unwrap();
        Some(Managed { manager, system, reactor, _folder: folder })
    }

    /// Works until something is so, or for a time.
    pub(super) fn run(&mut self, most: Nanos, mut is_so: impl FnMut(&Manager) -> bool) {
        let rt = self.reactor.rt();
        let until = rt.now() + most;
        while rt.now() < until && !is_so(&self.manager) {
            let next = self.manager.turn(rt.now(), &mut self.system, &mut |_, _| {});
            self.reactor.block_on(rt.sleep_until(next.min(rt.now() + Nanos::millis(10))));
        }
    }

    pub(super) fn huge(&self, pid: Pid) -> u64 {
        self.manager.records()[&pid].huge.len() as u64
    }
}

/// What other programs take of the CPUs can make a process idle that is meant to be busy, so that a few attempts are
/// made.
const ATTEMPTS: u32 = 4;

/// All failures, if all attempts fail.
pub(super) fn attempted(mut attempt: impl FnMut() -> Result<(), String>) -> Result<(), Vec<String>> {
    let failed = |_| attempt().inspect_err(|why| println!("{why}")).err();
    let failures: Vec<String> = (0..ATTEMPTS).map_while(failed).collect();
    if failures.len() < ATTEMPTS as usize { Ok(()) } else { Err(failures) }
}

#[test]
fn a_steady_load_of_a_real_process_is_predicted() {
    assert_eq!(attempted(steady_load), Ok(()));
}

fn steady_load() -> Result<(), String> {
    let Some(mut puppet) = Puppet::start(40) else { return Ok(()) };
    puppet.send("write 0 20480");
    let mut tracked = puppet.track();
    assert!((0..40).all(|at| tracked.promote(puppet.region(at)).result.is_ok()));
    // Others that clear bits (the kernel's reclaim, a monitor of the machine's own) drop no translations: what is used
    // through one that stays looks idle then. Of a program that maps and frees memory none stays for long.
    puppet.send("work 0 9");
    let policy = Policy { clear_hot_permille: 1000, ..Policy::ingens() };
    let Some(mut managed) = Managed::start(&[puppet.pid()], Nanos::millis(300), policy) else { return Ok(()) };
    // Others of the interpreter's own can be huge and hot too.
    let mapped = puppet.region(0)..puppet.region(40);
    let hot = |manager: &Manager| {
        let huge = manager.records().get(&puppet.pid()).map(|record| record.huge.range(mapped.clone()));
        huge.into_iter().flatten().filter(|(_, access)| access.is_hot(&policy.tracking)).count()
    };
    // Nine regions, and the one in which it counts.
    managed.run(Nanos::secs(30), |manager| hot(manager) == 10);
    let found = (hot(&managed.manager), managed.huge(puppet.pid()) >= 40);
    if found != (10, true) {
        return Err(format!("{found:?} are hot and huge"));
    }
    let before = managed.manager.counts();
    managed.run(Nanos::secs(8), |_| false);
    let heat = managed.manager.counts().heat_since(&before);
    let (checked, ratio) = (heat.hot_checked, heat.misprediction().unwrap());
    if checked >= 200 && ratio < 0.03 { Ok(()) } else { Err(format!("{ratio} of {checked}")) }
}
