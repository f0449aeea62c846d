//! What users of a map see.

use super::*;
use esker_rt::sync::join_all;

fn limits(size: u64) -> Limits {
    Limits::plain(size, BLOCK)
}

#[test]
fn what_does_not_fit_is_refused_with_what_to_choose() {
    let plan = |change: &dyn Fn(&mut SlotShape), size| {
        let mut asked = shape(10, 2);
        change(&mut asked);
        SlotMap::plan(&asked, &limits(size)).map_err(|error| error.to_string())
    };
    let error = |change: &dyn Fn(&mut SlotShape)| plan(change, 1 << 20).unwrap_err();
    assert!(error(&|shape| shape.keys = 1 << 32).contains("choose a larger line"));
    assert!(error(&|shape| shape.keys = u64::from(u32::MAX)).contains("choose a larger line"));
    assert!(error(&|shape| shape.unit = 5000).contains("power of two"));
    assert!(error(&|shape| shape.unit = 256).contains("power of two"));
    assert!(error(&|shape| shape.journal = 5000).contains("multiple of 4096"));
    assert!(error(&|shape| shape.journal = 1 << 27).contains("64 MiB"));
    assert!(error(&|shape| shape.zones = 30_721).contains("30720"));
    assert!(error(&|shape| shape.slots = Some(1000)).contains("no room"));
    assert!(error(&|shape| shape.slots = Some(0)).contains("no room"));
    assert!(plan(&|shape| shape.slots = None, 20_000).unwrap_err().contains("no room"));
    assert!(plan(&|shape| shape.slots = Some(1 << 40), 1 << 60).unwrap_err().contains("choose a larger line"));
    let lower = Limits { block: 8192, ..limits(1 << 20) };
    assert!(SlotMap::plan(&shape(10, 2), &lower).unwrap_err().to_string().contains("at most 4096"));
}

#[test]
fn a_map_takes_all_slots_that_fit_beside_it() {
    for (unit, size) in [(4096, 1 << 20), (65_536, 1 << 30), (1 << 20, (5 << 30) + 12_345), (512, 300 << 10)] {
        let asked = SlotShape { slots: None, unit, ..shape(0, 4096) };
        let layout = SlotMap::plan(&asked, &limits(size)).unwrap();
        assert!(layout.end() <= size && layout.data().is_multiple_of(unit.max(4096)), "{layout:?}");
        let more = SlotShape { slots: Some(u64::from(layout.slots) + 1), ..asked };
        assert!(SlotMap::plan(&more, &limits(size)).is_err(), "{layout:?}");
        assert_eq!(layout.data_at(layout.slots - 1) + unit, layout.end());
        assert!(layout.zone_of(layout.slots - 1) < layout.zones);
    }
    // The further slots of a tier lie elsewhere.
    let tier = SlotShape { kind: SlotKind::Tier, slots: Some(1000), unit: 65_536, ..shape(0, 1) };
    let layout = SlotMap::plan(&tier, &limits(1 << 20)).unwrap();
    assert_eq!((layout.slots, layout.here), (1000, ((1 << 20) - layout.data() as u32) / 65_536));
}

#[test]
fn a_stopped_map_is_found_as_it_was() {
    let (asked, note) = (shape(40, 4), std::array::from_fn(|at| at as u8));
    let media = medium(&asked);
    let entries = on(&media, &asked, async move |rig, found| {
        assert_eq!(found, Found::Fresh);
        rig.begin().await;
        let slots: Vec<u32> = (0..20).map(|key| rig.fill(key, SlotMarks::NONE)).collect();
        rig.map.masked(slots[3], &Mask::first(1), LowerSet::NONE);
        rig.map.touch(&rig.io, &[slots[5]]).await.unwrap();
        rig.map.settle(&rig.io, &note).await.unwrap();
        rig.entries()
    });
    let verdict = checked(&media).unwrap();
    assert_eq!((verdict.is_clean, verdict.used, verdict.parts, verdict.touched), (true, 20, 1, 0), "{verdict:?}");
    on(&media, &asked, async move |rig, found| {
        assert_eq!(found, Found::Clean { note });
        assert_eq!(rig.entries(), entries);
        let part = (0..40).find(|slot| rig.map.mask(*slot).is_some()).unwrap();
        assert_eq!(rig.map.mask(part), Some(Mask::first(1)));
        // What the images hold already is not written again.
        rig.begin().await;
        rig.settle().await;
        assert!(rig.map.counts().cells <= 3, "{:?}", rig.map.counts());
    });
}

#[test]
fn what_was_asked_for_must_be_what_is_there() {
    let asked = shape(40, 4);
    let media = medium(&asked);
    begun(&media, &asked, async |rig| rig.settle().await);
    let open = |change: &dyn Fn(&mut SlotShape)| {
        let mut asked = asked.clone();
        change(&mut asked);
        try_on(&media, &asked, async |_, _| ()).map_err(|error| error.to_string())
    };
    assert_eq!(open(&|_| ()), Ok(()));
    assert_eq!(open(&|shape| shape.slots = None), Ok(()));
    assert_eq!(open(&|shape| (shape.zones, shape.journal) = (8, 1 << 20)), Ok(()), "as they were made");
    assert!(open(&|shape| shape.kind = SlotKind::Tier).unwrap_err().contains("the map of a cache"));
    for error in
        [open(&|shape| shape.unit = 4096), open(&|shape| shape.keys = 1), open(&|shape| shape.slots = Some(39))]
    {
        assert!(error.unwrap_err().contains("40 slots of 8192 bytes for 1000 units"));
    }
}

#[test]
fn changes_that_were_not_committed_are_lost_together() {
    let asked = shape(40, 4);
    let media = medium(&asked);
    begun(&media, &asked, async |rig| {
        let slot = rig.fill(1, SlotMarks::DIRTY);
        rig.commit().await;
        let other = rig.map.free(1)[0];
        rig.map.set(&[(slot, None), (other, Some(SlotEntry::of(1)))], LowerSet::NONE);
        assert!(rig.map.has_pending() && rig.map.get(slot).is_none());
    });
    on(&media, &asked, async |rig, found| {
        assert_eq!(found, Found::Unclean { note: NOTE, suspects: 0, replayed: 1 });
        assert_eq!(rig.entries().iter().flatten().collect::<Vec<_>>(), [&SlotEntry::of(1).with(SlotMarks::DIRTY)]);
    });
}

#[test]
fn only_clean_entries_of_touched_zones_are_doubtful() {
    for (doubt, suspects) in [
        (Doubt::Zones, Suspects::Dirty),
        (Doubt::Zones, Suspects::Drop),
        (Doubt::All, Suspects::Dirty),
        (Doubt::All, Suspects::Drop),
    ] {
        let asked = SlotShape { doubt, suspects, ..shape(40, 4) };
        let media = medium(&asked);
        begun(&media, &asked, async move |rig| {
            for key in 0..40 {
                rig.fill(key, if key == 12 { SlotMarks::DIRTY } else { SlotMarks::NONE });
            }
            rig.commit().await;
            assert_eq!(rig.map.trusts(15), doubt == Doubt::All);
            let before = rig.map.counts();
            rig.map.touch(&rig.io, &[15, 16]).await.unwrap();
            rig.map.touch(&rig.io, &[17]).await.unwrap();
            assert_eq!(rig.map.counts().commits - before.commits, u64::from(doubt == Doubt::Zones));
            assert!(rig.map.trusts(10) && rig.map.trusts(19));
        });
        // In use the next time with zones, what is on the medium says what is doubtful.
        let zones = SlotShape { doubt: Doubt::Zones, ..asked };
        on(&media, &zones, async move |rig, found| {
            let doubted = |slot: &u32| doubt == Doubt::All || (10..20).contains(slot);
            let Found::Unclean { suspects: count, .. } = found else { panic!("{found:?}") };
            assert_eq!(count, if doubt == Doubt::All { 39 } else { 9 });
            for slot in 0..40 {
                let clean = SlotEntry::of(u64::from(slot));
                let entry = match suspects {
                    _ if slot == 12 => Some(clean.with(SlotMarks::DIRTY)),
                    _ if !doubted(&slot) => Some(clean),
                    Suspects::Dirty => Some(clean.with(SlotMarks::DIRTY)),
                    Suspects::Drop => None,
                };
                assert_eq!(rig.map.get(slot), entry, "slot {slot}, {doubt:?}, {suspects:?}");
            }
        });
    }
}

#[test]
fn a_zone_that_rests_is_not_doubtful_any_more() {
    let asked = shape(40, 4);
    let media = medium(&asked);
    begun(&media, &asked, async |rig| {
        for key in 0..40 {
            rig.fill(key, SlotMarks::NONE);
        }
        rig.map.touch(&rig.io, &[5, 15, 25]).await.unwrap();
        rig.map.writing(25);
        for _ in 0..8 {
            rig.map.quiet(&rig.io).await.unwrap();
            rig.io.rt().sleep(Nanos::secs(10)).await;
            rig.map.wrote(15);
        }
        assert_eq!([5, 15, 25].map(|slot| rig.map.trusts(slot)), [false, true, true]);
    });
    on(&media, &asked, async |_, found| {
        let Found::Unclean { suspects, .. } = found else { panic!("{found:?}") };
        assert_eq!(suspects, 20);
    });
}

#[test]
fn a_slot_is_free_again_when_the_medium_says_so_and_no_request_reads_it() {
    let asked = shape(4, 2);
    begun(&medium(&asked), &asked, async |rig| {
        let slots: Vec<u32> = (0..4).map(|key| rig.fill(key, SlotMarks::NONE)).collect();
        rig.commit().await;
        rig.map.rest(slots[1]);
        rig.give_up(slots[1]);
        rig.give_up(slots[2]);
        assert!(rig.map.free(4).is_empty() && !rig.map.take(slots[2]));
        rig.commit().await;
        assert_eq!(rig.map.free(4), [slots[2]]);
        assert!(rig.map.free(4).is_empty());
        rig.map.give_back(slots[2]);
        rig.map.rested(slots[1]);
        assert!(rig.map.take(slots[1]));
        assert_eq!(rig.map.free(4), [slots[2]]);
    });
}

#[test]
fn a_thousand_changes_share_a_few_commits() {
    let count = |commit| {
        let asked = SlotShape { commit, journal: 1 << 20, ..shape(1000, 16) };
        begun(&medium(&asked), &asked, async |rig| {
            let before = rig.map.counts();
            // 100 clients, each of which changes a slot and waits, ten times.
            let clients = (0..100u64).map(|client| {
                let rig = rig.clone();
                async move {
                    for turn in 0..10 {
                        let slot = rig.map.free(1)[0];
                        let entry = SlotEntry::of(client * 10 + turn).with(SlotMarks::DIRTY);
                        rig.map.set(&[(slot, Some(entry))], LowerSet::one(FAST));
                        rig.commit().await;
                    }
                }
            });
            join_all(clients.collect::<Vec<_>>()).await;
            let counts = rig.map.counts();
            (counts.flushes - before.flushes, counts.commits - before.commits)
        })
    };
    let (grouped, commits) = count(CommitRule::Group);
    assert!(grouped <= 50 && commits <= 50, "{grouped} flushes of {commits} commits");
    assert_eq!(count(CommitRule::Each), (1000, 1000));
}

#[test]
fn a_line_that_is_there_in_part_keeps_its_pages() {
    let asked = SlotShape { unit: 1 << 19, ..shape(4, 2) };
    let media = medium(&asked);
    begun(&media, &asked, async |rig| {
        let slot = rig.fill(1, SlotMarks::PART);
        assert_eq!(rig.map.mask(slot), Some(Mask::NONE));
        let mut pages = Mask::first(3);
        pages.set(100);
        rig.map.masked(slot, &pages, LowerSet::NONE);
        let whole = rig.fill(2, SlotMarks::DIRTY);
        rig.map.set(&[(whole, Some(SlotEntry::of(2).with(SlotMarks::PART)))], LowerSet::NONE);
        assert_eq!(rig.map.mask(whole), Some(Mask::first(128)), "a whole line has all pages");
        let full = rig.fill(3, SlotMarks::PART);
        rig.map.masked(full, &Mask::first(128), LowerSet::NONE);
        assert_eq!((rig.map.get(full), rig.map.mask(full)), (Some(SlotEntry::of(3)), None));
        assert_eq!(rig.map.parts_left(), 26);
        // Masks outlive checkpoints, whose images have none.
        for _ in 0..40 {
            let other = rig.fill(4, SlotMarks::NONE);
            rig.commit().await;
            rig.give_up(other);
            rig.commit().await;
        }
        assert!(rig.map.counts().checkpoints > 10);
    });
    on(&media, &asked, async |rig, _| {
        let masks = (0..4).filter_map(|slot| rig.map.mask(slot)).map(|mask| (mask.count(), mask.has(100)));
        assert_eq!(masks.collect::<Vec<_>>(), [(4, true), (128, true)]);
    });
}

#[test]
fn the_memory_of_a_slot_is_five_bytes() {
    let asked = SlotShape { slots: None, unit: 65_536, ..shape(0, ZONES) };
    let media = Media::new(4 << 30);
    on(&media, &asked, async |rig, _| {
        let slots = rig.map.slots() as usize;
        let bytes = rig.map.bytes() - ZONES as usize * 13;
        assert!(slots > 65_000 && bytes < slots * 5 + slots / 50, "{bytes} bytes for {slots} slots");
    });
}

#[test]
#[should_panic(expected = "was not given out")]
fn a_slot_that_was_not_given_out_takes_no_entry() {
    let asked = shape(4, 2);
    begun(&medium(&asked), &asked, async |rig| rig.map.set(&[(2, Some(SlotEntry::of(1)))], LowerSet::NONE));
}
