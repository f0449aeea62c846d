//! What the layer tells about itself.

use std::cell::Cell;

use esker_block::{Stat, StatInfo};

/// In the order in which they are told.
pub(crate) const ALL: &[StatInfo] = &[
    StatInfo::of("extents", "Extents of the volume."),
    StatInfo::of("touched", "Extents that clients used between the last two looks."),
    StatInfo::of("moved", "Extents that moved since the start."),
    StatInfo::of("relieved", "Those among them that left an end that throttled."),
    StatInfo::of("abandoned", "Moves that ended early: they were cancelled, or failed, or clients changed too much."),
    StatInfo::of("moving", "Extents that move now."),
    StatInfo::of("queued", "Moves that wait."),
    StatInfo::of("dropped", "Planned moves that were dropped before they began."),
    StatInfo::of("split", "Extents that lie on two ends, because a move of them ended early."),
    StatInfo::of("bad_slots", "Slots that could not be written; they are not used before the next start."),
    StatInfo::of("plans", "Placements that were planned."),
    StatInfo::of("planned", "Moves of the last plan."),
    StatInfo::of("overloads", "Extents for which the last plan found no room or time."),
    StatInfo::of("budget", "Moves of a plan in which the slowest end may take part now."),
    StatInfo::of("corrections", "Times that an end began to throttle."),
    StatInfo::of("throttling", "Ends that throttle."),
    StatInfo::of("saturated", "Extents that should have left an end that throttles, and found no other place."),
    StatInfo::of("ends_unused", "Ends on which no extent lies."),
    StatInfo::of("ends_lost", "Ends that do not answer."),
    StatInfo::of("held_longest_us", "Longest time for which a move kept changes waiting, in microseconds."),
    StatInfo::of("memory_bytes", "Bytes of memory of map, places and counters, without demands of extents in use."),
    StatInfo::LATCHED,
];

/// Numbers since the start.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) touched: Cell<u64>,
    pub(crate) moved: Cell<u64>,
    pub(crate) relieved: Cell<u64>,
    pub(crate) abandoned: Cell<u64>,
    pub(crate) dropped: Cell<u64>,
    pub(crate) bad_slots: Cell<u64>,
    pub(crate) plans: Cell<u64>,
    pub(crate) planned: Cell<u64>,
    pub(crate) overloads: Cell<u64>,
    pub(crate) corrections: Cell<u64>,
    pub(crate) saturated: Cell<u64>,
    pub(crate) held_longest_us: Cell<u64>,
}

/// What is so now.
pub(crate) struct Present {
    pub(crate) extents: u64,
    pub(crate) moving: u64,
    pub(crate) queued: u64,
    pub(crate) split: u64,
    pub(crate) budget: u64,
    pub(crate) throttling: u64,
    pub(crate) ends_unused: u64,
    pub(crate) ends_lost: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) is_latched: bool,
}

pub(crate) fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}

impl Counts {
    pub(crate) fn told(&self, now: &Present) -> Vec<Stat> {
        let values = [
            now.extents,
            self.touched.get(),
            self.moved.get(),
            self.relieved.get(),
            self.abandoned.get(),
            now.moving,
            now.queued,
            self.dropped.get(),
            now.split,
            self.bad_slots.get(),
            self.plans.get(),
            self.planned.get(),
            self.overloads.get(),
            now.budget,
            self.corrections.get(),
            now.throttling,
            self.saturated.get(),
            now.ends_unused,
            now.ends_lost,
            self.held_longest_us.get(),
            now.memory_bytes,
            u64::from(now.is_latched),
        ];
        ALL.iter().zip(values).map(|(info, value)| Stat { name: info.name, value: value as f64 }).collect()
    }
}
