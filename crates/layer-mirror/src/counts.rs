//! Statistics.

use std::cell::Cell;

use esker_block::{Stat, Trouble};

use crate::members::State;
use crate::run::Mirror;

/// What it tells about itself.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) retries: Cell<u64>,
    pub(crate) read_elsewhere: Cell<u64>,
    pub(crate) superblocks: Cell<u64>,
    pub(crate) lost: Cell<u64>,
    pub(crate) copied: Cell<u64>,
    pub(crate) zeroed: Cell<u64>,
    pub(crate) repaired: Cell<u64>,
}

impl Mirror {
    pub(crate) fn stats(&self) -> Vec<Stat> {
        let stat = |name, value: u64| Stat { name, value: value as f64 };
        let members = |state| self.members.count(state) as u64;
        vec![
            stat("members_in_sync", members(State::InSync)),
            stat("members_resyncing", members(State::Catching)),
            stat("members_offline", members(State::Out)),
            stat("dirty_regions", self.superblock.borrow().dirty.count() as u64),
            stat("suspect_regions", self.suspect.borrow().count() as u64),
            stat("generation", self.superblock.borrow().generation),
            stat("retries", self.counts.retries.get()),
            stat("reads_redirected", self.counts.read_elsewhere.get()),
            stat("member_failures", self.counts.lost.get()),
            stat("superblocks_written", self.counts.superblocks.get()),
            stat("resync_bytes", self.counts.copied.get()),
            stat("zeroed_bytes", self.counts.zeroed.get()),
            stat("repaired_bytes", self.counts.repaired.get()),
            stat("latched", u64::from(self.latch.is_set())),
        ]
    }

    /// That it is latched, or has fewer members in sync than the set has members.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let (members, in_sync) = (usize::from(self.superblock.borrow().members), self.members.count(State::InSync));
        let degraded = || {
            let in_state =
                |state, what| self.members.which(|other| other == state).into_iter().map(move |lower| (lower, what));
            let absent = in_state(State::Out, "is offline").chain(in_state(State::Catching, "is resyncing"));
            let absent: Vec<String> = absent.map(|(lower, what)| format!("member {lower} {what}")).collect();
            let told = if absent.is_empty() { "the others are not in the text".to_string() } else { absent.join(", ") };
            let name = &self.config.name;
            Trouble::Degraded(format!("{name} is degraded: {in_sync} of {members} members are in sync; {told}."))
        };
        self.latch.trouble().or_else(|| (in_sync < members).then(degraded))
    }
}
