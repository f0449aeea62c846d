//! What of this machine works for the verbs of Esker: the checks of `esker doctor`, one file for each group.
//!
//! A check reads files below the root of a [`Machine`], for which tests take a tree of their own, and asks its
//! [`Probes`](machine::Probes). No check changes a setting. Those of a [`Place`] make files without a name in it, which
//! end with the check.
//!
//! A thing is *missing* if a verb needs it and this machine lacks it. It is a *note* if a verb does less without it, or
//! if only root may use it.

pub mod finding;
pub mod machine;
pub mod place;
pub mod text;

mod clock;
mod cpus;
mod fuse;
mod limits;
mod memory;
mod modules;
mod programs;
mod recording;
mod release;
mod units;
mod uring;

use clock::StolenTime;
use finding::Finding;
use machine::Machine;
use place::Place;

/// The checks of the machine, in the order of the table.
const CHECKS: &[fn(&Machine) -> Vec<Finding>] = &[
    release::check,
    uring::check,
    limits::check,
    fuse::check,
    modules::check,
    recording::check,
    memory::check,
    clock::check,
    cpus::check,
    units::check,
    programs::check,
];

/// Runs all checks.
pub fn examine(machine: &Machine, places: &[Place]) -> Vec<Finding> {
    let stolen = StolenTime::begin(machine);
    let mut found: Vec<Finding> = CHECKS.iter().flat_map(|check| check(machine)).collect();
    found.extend(places.iter().flat_map(|place| place.check(machine)));
    found.push(stolen.end(machine));
    found
}

#[cfg(test)]
mod tests;
