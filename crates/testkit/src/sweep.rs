//! Runs a scenario with each of its requests failing once.

use std::rc::Rc;

use esker_block::OpKind;
use esker_dev_sim::fault::{Fault, FaultPlan};
use esker_dev_sim::faulty::Injector;

/// Requests of one scenario that are made to fail, at most: a scenario that never ends is a bug.
const RUNS_MAX: u64 = 100_000;

/// Runs `scenario` with the first request of `kind` (or of any) failing, then with the second, until a run in which no
/// fault strikes. Returns how many runs had a fault.
///
/// # Panics
/// If more than 100 000 runs have a fault; and whenever the scenario does.
pub fn for_each_fault(kind: Option<OpKind>, mut scenario: impl FnMut(Rc<Injector>)) -> u64 {
    for nth in 1..=RUNS_MAX {
        let injector = Injector::new(FaultPlan(vec![Fault::Error(kind, nth)]));
        scenario(injector.clone());
        if injector.fired() == 0 {
            return nth - 1;
        }
    }
    panic!("after {RUNS_MAX} runs the scenario still had requests to fail");
}
