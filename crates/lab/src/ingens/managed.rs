//! A modelled machine beside its manager, and what accesses to its memory cost.

use esker_base::{Nanos, Time};
use esker_hugepage::policy::Policy;
use esker_hugepage::sim::{self, Costs, Freeing, Machine, Physical};
use esker_hugepage::{Manager, Pid, Region, RegionAddress};

/// Nanoseconds of a dependent access over 1 GiB in base pages, and in huge ones: measured on Linux 6.18.
pub(crate) const BASE_NS: f64 = 182.2;
pub(crate) const HUGE_NS: f64 = 136.7;

/// A machine and its manager, from the same instant on.
pub(crate) struct ManagedMachine {
    /// The machine.
    pub machine: Machine,
    /// The manager.
    pub manager: Manager,
    now: Time,
}

impl ManagedMachine {
    /// A machine of so many regions, and a manager that has done nothing.
    pub(crate) fn new(regions: u64, policy: Policy, freeing: Freeing, seed: u64) -> ManagedMachine {
        let memory = Physical::new(regions as u32);
        let machine = Machine::new(memory, Costs::MEASURED, policy.promote, policy.demote, freeing);
        ManagedMachine { machine, manager: Manager::new(policy, seed), now: Time(0) }
    }

    /// A process whose first `regions` regions are there.
    ///
    /// # Panics
    /// If the machine is too small.
    pub(crate) fn process(&mut self, regions: u64) -> Pid {
        let pid = self.machine.spawn(10_000);
        self.machine.fill(pid, 0..regions).expect("the machine was made large enough");
        pid
    }

    /// Lets the manager work for so long.
    pub(crate) fn pass(&mut self, time: Nanos) {
        let until = self.now + time;
        sim::run(&mut self.manager, &mut self.machine, self.now, until, &mut |_, _| {});
        self.now = until;
    }
}

/// A region of a process.
pub(crate) fn place(pid: Pid, region: u64) -> RegionAddress {
    RegionAddress { pid, region: Region(region) }
}
