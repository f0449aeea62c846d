//! What the layer tells about itself: what its engine does, and the disk.

use esker_block::{Stat, StatInfo};
use esker_layer_aside::STATS;

use crate::director::RankDirector;
use crate::windows::WindowCounts;

const OWN: [StatInfo; 9] = [
    StatInfo::of("home_rests", "1 while the disk counts as resting, else 0."),
    StatInfo::of("windows", "Times that a request of a client found the disk resting."),
    StatInfo::of("windows_pressed", "Times that write-back did, because too many pages were dirty."),
    StatInfo::of("plans", "Plans that were made behind reads that missed."),
    StatInfo::of("plans_pressed", "Plans that were made because too many pages were dirty."),
    StatInfo::of("fetched", "Pages that plans fetched."),
    StatInfo::of("spin_ups_plain", "Requests that would have found the disk resting if all had gone there."),
    StatInfo::of("spin_ups_avoided", "Those less the times that it was found resting."),
    StatInfo::of("pages_ranked", "Pages whose value is known."),
];

/// In the order in which they are told.
pub(crate) const ALL: &[StatInfo] = &{
    let mut all = [OWN[0]; STATS.len() + OWN.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < STATS.len() { STATS[at] } else { OWN[at - STATS.len()] };
        at += 1;
    }
    all
};

pub(crate) fn told(mut stats: Vec<Stat>, director: &RankDirector, windows: WindowCounts) -> Vec<Stat> {
    let spins = director.counts();
    let values = [
        f64::from(u8::from(director.is_resting())),
        spins.woken as f64,
        spins.pressed as f64,
        windows.plans as f64,
        windows.pressed as f64,
        windows.fetched as f64,
        spins.plain as f64,
        spins.plain as f64 - (spins.woken + spins.pressed) as f64,
        director.pages() as f64,
    ];
    stats.extend(OWN.iter().zip(values).map(|(info, value)| Stat { name: info.name, value }));
    stats
}
