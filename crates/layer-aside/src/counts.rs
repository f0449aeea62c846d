//! What the engine counts.

use std::cell::Cell;

use esker_block::{Stat, StatInfo};

/// Numbers since the start.
#[derive(Default, Debug)]
pub struct AsideCounts {
    pub(crate) read_hits: Cell<u64>,
    pub(crate) read_misses: Cell<u64>,
    pub(crate) write_hits: Cell<u64>,
    pub(crate) write_misses: Cell<u64>,
    pub(crate) fills: Cell<u64>,
    pub(crate) fills_dropped: Cell<u64>,
    pub(crate) written_back: Cell<u64>,
    pub(crate) given_up: Cell<u64>,
    pub(crate) read_again: Cell<u64>,
}

pub(crate) fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}

/// In the order in which they are told.
pub const STATS: &[StatInfo] = &[
    StatInfo::of("slots", "Copies that fit."),
    StatInfo::of("used", "Units that have a copy."),
    StatInfo::of("dirty", "Copies that are newer than home."),
    StatInfo::of("suspects", "Copies that were doubted at the start, because the last stop was not clean."),
    StatInfo::of("read_hits", "Reads that the fast device answered alone."),
    StatInfo::of("read_misses", "Reads that home answered, in whole or in part."),
    StatInfo::of("hit_ratio", "Share of reads that the fast device answered alone."),
    StatInfo::of("write_hits", "Changes of units with a copy."),
    StatInfo::of("write_misses", "Changes of units without one."),
    StatInfo::of("fills", "Copies that reads made."),
    StatInfo::of("fills_dropped", "Copies that were not made: a change came between, or no slot or task was free."),
    StatInfo::of("written_back", "Copies that were written home."),
    StatInfo::of("given_up", "Copies that were given up."),
    StatInfo::of("read_again", "Reads that home answered after the fast device had failed."),
    StatInfo::of("memory_bytes", "Bytes of memory of map, index and policy."),
    StatInfo::LATCHED,
];

impl AsideCounts {
    pub(crate) fn told(&self, sizes: [u64; 4], bytes: usize, is_latched: bool) -> Vec<Stat> {
        let [slots, used, dirty, suspects] = sizes.map(|size| size as f64);
        let of = |count: &Cell<u64>| count.get() as f64;
        let (hits, misses) = (of(&self.read_hits), of(&self.read_misses));
        let ratio = if hits + misses > 0.0 { hits / (hits + misses) } else { 0.0 };
        let values = [
            slots,
            used,
            dirty,
            suspects,
            hits,
            misses,
            ratio,
            of(&self.write_hits),
            of(&self.write_misses),
            of(&self.fills),
            of(&self.fills_dropped),
            of(&self.written_back),
            of(&self.given_up),
            of(&self.read_again),
            bytes as f64,
            f64::from(u8::from(is_latched)),
        ];
        STATS.iter().zip(values).map(|(info, value)| Stat { name: info.name, value }).collect()
    }
}
