//! `ingens-daemon`: the manager's own share of a CPU beside a process of 10 GiB in huge pages. The process first
//! sleeps. Then it writes at random, and takes 48 MiB of fresh memory twice a second.
//!
//! Of a machine with less free memory the process is smaller: `watched_gib` tells. It has its huge pages from faults,
//! before the manager begins, so that what is measured is watching and not catching up.

use std::time::Duration;

use esker_base::units::{GIB, MIB};
use esker_hugepage_linux::linux::system::huge_blocks;

use crate::ingens::loads;
use crate::ingens::settings::keep_memory;
use crate::ingens::{Arm, SPARE, huge_of, room_up_to, wait_stable};
use esker_lab_kit::{Figure, Lab, LabError};

const WATCHED: u64 = 10 * GIB;
const WATCHED_MIN: u64 = 512 * MIB;
/// Nothing happens any more once the process' huge pages have been as many for so long.
const SETTLED: Duration = Duration::from_secs(3);
const SETTLED_MOST: Duration = Duration::from_secs(30);

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    // Two scans of access bits at least.
    let time = Duration::from_secs(if lab.quick { 20 } else { 60 });
    let free = huge_blocks(WATCHED + SPARE);
    let bytes = WATCHED.min(free.saturating_sub(SPARE));
    if bytes < WATCHED_MIN {
        return Err(LabError::Data(format!("{} MiB of free memory are in blocks of huge pages: too few", free / MIB)));
    }
    let _kept = keep_memory(lab)?;
    room_up_to(bytes + loads::turnover(time), lab)?;
    let greedy = Arm::Greedy.hold(lab)?;
    let mut load = (loads::ALL[0].begin)(bytes as usize, lab.seed);
    drop(greedy);
    let held = Arm::Ours.hold(lab)?;
    wait_stable(SETTLED, SETTLED_MOST, || huge_of("self"), PartialEq::eq);
    let huge = huge_of("self");
    if huge < bytes / 10 * 9 {
        let (huge, all) = (huge / MIB, bytes / MIB);
        return Err(LabError::Data(format!("only {huge} of {all} MiB are in huge pages: memory is too fragmented")));
    }
    let [idle, busy] = held.shares(load.as_mut(), time, lab)?;
    Ok(vec![idle, busy, Figure::alone("watched_gib", bytes as f64 / GIB as f64, "GiB")])
}
