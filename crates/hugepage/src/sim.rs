//! A machine's memory in virtual time: physical blocks that fragment and are compacted, processes that touch and free
//! pages, costs as measured.
//!
//! Reading order: [`costs`], [`physical`], [`machine`].

pub mod costs;
pub mod machine;
pub mod physical;

use esker_base::Time;

use crate::manager::{Manager, Tell};

pub use costs::Costs;
pub use machine::{Freeing, Machine};
pub use physical::Physical;

/// Lets a manager work on a machine from `now` until `until`, and returns when it has more to do.
pub fn run(manager: &mut Manager, machine: &mut Machine, now: Time, until: Time, tell: Tell<'_>) -> Time {
    let mut at = now;
    while at < until {
        machine.now = at;
        at = manager.turn(at, machine, tell);
    }
    machine.now = until;
    at
}
