//! Ranks against values that are kept and compared one by one.

use std::collections::BTreeMap;

use esker_base::{Nanos, Stream, Time};
use esker_caching::Slot;

use crate::ranks::Ranks;

const HOUR: Nanos = Nanos::secs(3600);
/// Two pages in one bucket differ by less than an eighth of a doubling, and a little for the numbers' few bits.
const NEAR: f64 = 1.10;

fn hours(hours: f64) -> Time {
    Time::ZERO + Nanos::from_secs_f64(hours * 3600.0)
}

/// Values in joules at the begin of time, which never decay.
#[derive(Default)]
struct Plain {
    values: BTreeMap<u64, f64>,
    slots: BTreeMap<Slot, u64>,
}

impl Plain {
    fn note(&mut self, page: u64, joules: f64, age: f64) {
        *self.values.entry(page).or_default() += joules * age.exp2();
    }

    fn has_copy(&self, page: u64) -> bool {
        self.slots.values().any(|other| *other == page)
    }
}

#[test]
fn the_worst_copy_leaves_and_the_best_page_comes_as_by_comparing_all() {
    let (mut draw, slots) = (Stream::named(7, "ranks"), 12);
    let (mut ranks, mut plain) = (Ranks::new(HOUR, slots), Plain::default());
    let mut age = 0.0;
    for _ in 0..20_000 {
        age += draw.unit() * 0.01;
        let (now, page) = (hours(age), draw.below(40));
        match draw.below(8) {
            0 if (plain.slots.len() as u32) < slots => {
                let slot = (0..slots).find(|slot| !plain.slots.contains_key(slot)).unwrap();
                if plain.values.contains_key(&page) && !plain.has_copy(page) {
                    ranks.placed(page, slot, now);
                    plain.slots.insert(slot, page);
                }
            }
            1 => {
                let is_held = |slot: Slot| slot.is_multiple_of(3);
                let free = plain.slots.iter().filter(|(slot, _)| !is_held(**slot));
                let least = free.map(|(_, page)| plain.values[page]).reduce(f64::min);
                let victim = ranks.victim(is_held);
                assert_eq!(victim.is_some(), least.is_some());
                if let Some(slot) = victim {
                    let page = plain.slots.remove(&slot).unwrap();
                    assert!(plain.values[&page] <= least.unwrap() * NEAR, "{} {least:?}", plain.values[&page]);
                }
                (0..slots).for_each(|slot| ranks.released(slot));
            }
            2 => {
                let ghosts = plain.values.iter().filter(|(page, _)| !plain.has_copy(**page));
                let best = ghosts.map(|(_, value)| *value).reduce(f64::max);
                let found = ranks.wanted(1e-9, now).next().map(|(page, _)| plain.values[&page]);
                let is_best = best.zip(found).is_none_or(|(best, found)| found * NEAR >= best);
                assert!(is_best && (found.is_some() || best.is_none_or(|best| best < 2e-9 * age.exp2())));
            }
            _ => {
                let joules = 0.01 + draw.unit() * 20.0;
                ranks.note(page, joules, now);
                plain.note(page, joules, age);
            }
        }
        let (known, exact) = (ranks.joules(page, now), plain.values.get(&page).map_or(0.0, |value| value / age.exp2()));
        assert!((known - exact).abs() <= 0.02 * exact, "{known} {exact}");
    }
}

#[test]
fn the_page_that_is_worth_least_is_forgotten_and_memory_is_bounded() {
    let mut ranks = Ranks::new(HOUR, 10);
    for page in 0..1000 {
        ranks.note(page, if page == 500 { 100.0 } else { 1.0 + page as f64 / 1000.0 }, hours(0.0));
        assert!(ranks.pages() <= 40);
    }
    let kept: Vec<u64> = ranks.wanted(0.5, hours(0.0)).map(|(page, _)| page).collect();
    assert!(kept.len() == 40 && kept[0] == 500 && kept.iter().all(|page| *page >= 500), "{kept:?}");
    let bytes = ranks.bytes();
    (0..5000).for_each(|page| ranks.note(page, 5.0, hours(1.0)));
    assert_eq!(ranks.bytes(), bytes);
}

#[test]
fn what_was_used_long_ago_is_worth_nothing_and_stays_below_what_is_used_now() {
    let mut ranks = Ranks::new(HOUR, 4);
    ranks.note(1, 1e6, hours(0.0));
    ranks.placed(1, 0, hours(0.0));
    ranks.note(2, 1.0, hours(30.0));
    ranks.placed(2, 1, hours(30.0));
    assert_eq!(ranks.copies().map(|(slot, _)| slot).collect::<Vec<_>>(), [0, 1], "30 half-lives are worth 2^30");
    // More half-lives than there are buckets, twice.
    for (page, at) in [(3, 1e4), (4, 1.0e4 + 70.0)] {
        ranks.note(page, 1.0, hours(at));
        ranks.placed(page, page as Slot - 1, hours(at));
    }
    let order: Vec<Slot> = ranks.copies().map(|(slot, _)| slot).collect();
    assert_eq!((order[3], order.len()), (3, 4), "{order:?}");
    assert!(ranks.joules(1, hours(1.0e4)) < 1e-9);
    assert_eq!(ranks.wanted(1e-3, hours(1.0e4 + 70.0)).count(), 0);
}

#[test]
fn a_page_that_was_placed_unused_leaves_first() {
    let mut ranks = Ranks::new(HOUR, 4);
    ranks.note(1, 0.02, hours(5.0));
    ranks.placed(1, 0, hours(5.0));
    ranks.placed(2, 1, hours(5.0));
    assert_eq!(ranks.victim(|_| false), Some(1));
    ranks.removed(0);
    assert_eq!(ranks.wanted(0.01, hours(5.0)).map(|(page, _)| page).collect::<Vec<_>>(), [1]);
}
