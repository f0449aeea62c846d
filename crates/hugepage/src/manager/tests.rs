//! The whole policy on simulated memory. Numbers in names of tests are those of the source's checklist.

mod fairness;
mod heat;
mod memory;
mod queues;
mod sharing;

use super::*;
use crate::sim::{self, Costs, Freeing, Machine, Physical};
use crate::view::Skip;

const SHARES: u64 = 10_000;
const PAGES: u64 = crate::REGION_PAGES as u64;

/// A machine with plenty of memory under a policy's thresholds.
fn machine(policy: &Policy) -> Machine {
    Machine::new(Physical::new(8_192), Costs::MEASURED, policy.promote, policy.demote, Freeing::Deferred)
}

/// A process with so many full regions that no fault has asked for.
fn dense(machine: &mut Machine, shares: u64, regions: u64) -> Pid {
    let pid = machine.spawn(shares);
    machine.fill(pid, 0..regions).expect("memory suffices");
    machine.signals();
    pid
}

fn place(pid: Pid, region: u64) -> RegionAddress {
    RegionAddress { pid, region: Region(region) }
}

/// Runs second by second, with `each` at the beginning of every second.
fn drive(
    manager: &mut Manager,
    machine: &mut Machine,
    seconds: std::ops::Range<u64>,
    mut each: impl FnMut(&mut Machine, &Manager),
) -> Vec<(Time, Decision)> {
    let mut told = Vec::new();
    for second in seconds {
        each(machine, manager);
        let (from, until) = (Time(second * 1_000_000_000), Time((second + 1) * 1_000_000_000));
        sim::run(manager, machine, from, until, &mut |at, decision| told.push((at, *decision)));
    }
    told
}

fn huge_of(manager: &Manager, pid: Pid) -> u64 {
    manager.records()[&pid].huge.len() as u64
}
