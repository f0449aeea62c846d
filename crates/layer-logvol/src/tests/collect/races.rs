//! Each race that section 5 of the source's analysis names, in the one order of events in which it would do harm.

use super::*;
use crate::format::slots_of;
use crate::segments::State;

/// Blocks 0 to 59 in four closed segments and more, all of which a pass would choose: their records count as dead.
async fn filled(rt: &Rt) -> (Bench, Keeper) {
    let (bench, keeper) = small(rt, 1 << 20, 1 << 40).await;
    bench.fill(0..60).await;
    (bench, keeper)
}

/// The same with so many clones that a pass takes its time.
async fn cloned(rt: &Rt) -> (Bench, Keeper) {
    let (bench, keeper) = filled(rt).await;
    for i in 0..300 {
        bench.ranges(&[clone(0, 60, 1000 + 60 * i)]).await;
    }
    (bench, keeper)
}

/// 5.2: a segment that waits for the cleaner is watched.
#[test]
fn a_clone_of_what_waits_for_the_cleaner_is_moved_too() {
    run(async |rt| {
        let (bench, _) = filled(&rt).await;
        let victim = bench.segment_of(3);
        bench.prepare().await;
        assert_eq!(bench.segment(victim).stage, Stage::Ready);
        bench.ranges(&[clone(3, 2, 200)]).await;
        bench.clean().await;
        bench.expect_moved(victim, &[(3, 4), (4, 5), (200, 4), (201, 5)]).await;
    });
}

/// 5.3: a full segment of copies drains until the map knows all of them.
#[test]
fn copies_that_the_map_does_not_know_yet_are_not_taken_for_dead() {
    run(async |rt| {
        let (bench, keeper) = filled(&rt).await;
        bench.prepare().await;
        keeper.shut.set(true);
        let ended = bench.start(false);
        let full = || bench.volume.segments().iter().position(|segment| segment.state == State::Draining);
        // Chunk by chunk, until one fills its segment.
        for _ in 0..100 {
            bench.let_pass_all_but(&keeper, &[State::Draining]).await;
            if full().is_some() {
                break;
            }
        }
        let full = full().expect("a segment of copies is full");
        assert!(!ended.get());
        // All that it holds so far dies, and a checkpoint frees what is dead.
        let of_it: Vec<u64> = (0..60).filter(|lba| bench.segment_of(*lba) == full).collect();
        let other = bench.clone();
        let checkpoint = rt.spawn("checkpoint", async move {
            for lba in of_it {
                other.ranges(&[delete(lba, 1)]).await;
            }
            other.checkpoint().await;
        });
        for _ in 0..10 {
            bench.let_pass_all_but(&keeper, &[State::Draining]).await;
        }
        checkpoint.await;
        let Segment { state, live, .. } = bench.segment(full);
        assert_eq!((state, live), (State::Draining, 0), "a copy is on its way to it");
        keeper.open_all();
        rt.sleep(Nanos::millis(5)).await;
        assert!(ended.get());
        for lba in (0..60).filter(|lba| !bench.volume.pieces(*lba..lba + 1).is_empty()) {
            assert_eq!(bench.values(lba, 1).await, [lba as u8 + 1]);
        }
    });
}

/// 5.4: the copy of a mapping lands behind the scanner, and its source goes before the scanner comes there.
#[test]
fn a_block_that_moves_past_the_scanner_is_not_lost() {
    run(async |rt| {
        let (bench, _) = cloned(&rt).await;
        let victim = bench.segment_of(40);
        bench.pass().await;
        assert_eq!(bench.segment(victim).stage, Stage::Candidate);
        let ended = bench.start(true);
        rt.yield_now().await;
        bench.ranges(&[clone(40, 1, 500), shift(40, 1, 0)]).await;
        assert!(!ended.get() && bench.values(40, 1).await == [0]);
        bench.wait_for(&ended).await;
        bench.clean().await;
        bench.expect_moved(victim, &[(0, 41), (500, 41), (40, 0), (1040, 41)]).await;
    });
}

/// 5.5: whatever the moment at which a clone lands between choice, the beginning of a pass and its end.
#[test]
fn a_clone_is_moved_whenever_it_comes() {
    for delay in 0..60u64 {
        run(async move |rt| {
            let (bench, _) = filled(&rt).await;
            let victim = bench.segment_of(20);
            let (other, done) = (bench.clone(), Rc::new(Cell::new(false)));
            let told = done.clone();
            rt.spawn("clone", async move {
                other.rt.sleep(Nanos(delay * 100)).await;
                other.ranges(&[clone(20, 1, 300)]).await;
                told.set(true);
            })
            .detach();
            bench.prepare().await;
            bench.wait_for(&done).await;
            bench.clean().await;
            assert_eq!(bench.segment(victim).live, 0, "the clone came after {delay} x 100 ns");
            assert_eq!(bench.values(300, 1).await, [21]);
        });
    }
}

/// 5.6: what was overwritten or deleted after the scanner saw it is not copied, and does not come back.
#[test]
fn what_went_while_it_was_listed_is_neither_copied_nor_brought_back() {
    run(async |rt| {
        let (bench, _) = filled(&rt).await;
        let victim = bench.segment_of(3);
        let lbas: Vec<u64> = (0..60).filter(|lba| bench.segment_of(*lba) == victim).collect();
        bench.prepare().await;
        // All but one of them.
        for lba in &lbas[1..] {
            if lba % 2 == 0 {
                bench.ranges(&[delete(*lba, 1)]).await;
            } else {
                bench.write(*lba, 1, 99).await;
            }
        }
        let mut moved = bench.stat("moved_bytes");
        while bench.segment(victim).stage != Stage::Rest {
            moved = bench.stat("moved_bytes");
            bench.clean_one().await;
        }
        let avoided = bench.stat("gc_bytes_avoided") as usize;
        assert_eq!(avoided, (lbas.len() - 1) * BLOCK);
        assert_eq!(bench.stat("moved_bytes") - moved, BLOCK as f64, "only one block lives");
        for lba in &lbas[1..] {
            assert_eq!(bench.values(*lba, 1).await, [if lba % 2 == 0 { 0 } else { 99 }]);
        }
    });
}

/// 5.7: a segment that was closed while a pass was under way was seen only in part, and is not judged by that.
#[test]
fn a_segment_that_was_seen_in_part_is_not_chosen() {
    run(async |rt| {
        let (bench, _) = cloned(&rt).await;
        let write = async || {
            let lba = 30_000 + bench.stat("records") as u64;
            bench.write(lba, 1, 1).await;
            bench.segment_of(lba)
        };
        // One that was opened just now, and is almost full when the pass begins.
        let (last, mut open) = (write().await, write().await);
        while open == last {
            open = write().await;
        }
        for _ in 0..13 {
            assert_eq!(write().await, open);
        }
        let ended = bench.start(true);
        rt.yield_now().await;
        while bench.segment(open).state != State::Closed {
            write().await;
        }
        assert!(!ended.get() && bench.segment(open).live > 0);
        bench.wait_for(&ended).await;
        assert!(bench.stat("gc_candidates") > 0.0);
        assert_eq!(bench.segment(open).stage, Stage::Rest);
    });
}

/// 5.8: a clone copies the old place of a block while the cleaner is about to leave its segment.
#[test]
fn a_clone_that_comes_while_its_segment_is_cleaned_is_moved_too() {
    run(async |rt| {
        let (bench, keeper) = filled(&rt).await;
        bench.prepare().await;
        keeper.shut.set(true);
        let ended = bench.start(false);
        // Until copies are on their way.
        bench.let_pass_all_but(&keeper, &[State::Copies, State::Draining]).await;
        let victim = bench.cleaned_now();
        let lba = (0..60).find(|lba| bench.segment_of(*lba) == victim).expect("it has live blocks");
        assert!(!keeper.waiting().is_empty() && !ended.get());
        let other = bench.clone();
        let cloned = rt.spawn("clone", async move { other.ranges(&[clone(lba, 1, 400)]).await });
        bench.let_pass_all_but(&keeper, &[State::Copies, State::Draining]).await;
        cloned.await;
        assert_eq!(bench.segment_of(400), victim, "it got the old place");
        keeper.open_all();
        bench.wait_for(&ended).await;
        bench.expect_moved(victim, &[(lba, lba as u8 + 1), (400, lba as u8 + 1)]).await;
    });
}

/// 5.9: a read that found the old place ends before the segment is used anew.
#[test]
fn a_segment_that_was_cleaned_waits_for_its_readers() {
    run(async |rt| {
        let (bench, keeper) = filled(&rt).await;
        let victim = bench.segment_of(3);
        keeper.shut.set(true);
        let reader = bench.clone();
        let read = rt.spawn("reader", async move { reader.values(3, 1).await });
        rt.sleep(Nanos::millis(1)).await;
        let slow = keeper.waiting();
        assert_eq!(slow.len(), 1);
        keeper.shut.set(false);
        bench.prepare().await;
        bench.clean().await;
        bench.checkpoint().await;
        let Segment { state, live, holds, .. } = bench.segment(victim);
        assert_eq!((state, live, holds), (State::Closed, 0, 1));
        for i in 0..2000u64 {
            bench.write(700 + i % 9, 1, 255).await;
        }
        keeper.let_go(slow[0]);
        assert_eq!(read.await, [4]);
        bench.checkpoint().await;
        assert_eq!(bench.segment(victim).state, State::Free);
    });
}

/// 5.10: what the newest durable checkpoint refers to is there until a newer one is durable, in front and at the back.
#[test]
fn a_segment_is_free_only_when_both_slots_are_durable() {
    run(async |rt| {
        let (bench, keeper) = filled(&rt).await;
        let victim = bench.segment_of(3);
        bench.prepare().await;
        bench.clean().await;
        assert_eq!(bench.segment(victim).live, 0);
        keeper.shut.set(true);
        let other = bench.clone();
        let checkpoint = rt.spawn("checkpoint", async move { other.checkpoint().await });
        for slot in slots_of(bench.volume.generation.get() + 1, 1 << 20) {
            while !keeper.waiting().contains(&slot) {
                keeper.waiting().into_iter().for_each(|offset| keeper.let_go(offset));
                rt.sleep(Nanos::micros(10)).await;
            }
            rt.sleep(Nanos::millis(1)).await;
            assert_eq!(bench.segment(victim).state, State::Closed, "the slot at {slot} is on its way");
            keeper.let_go(slot);
        }
        keeper.open_all();
        checkpoint.await;
        assert_eq!(bench.segment(victim).state, State::Free);
    });
}

/// 5.12 and 5.31: an overwrite comes between the copy and the change of the map: it wins, now and after a replay.
#[test]
fn an_overwrite_wins_over_a_copy_under_way() {
    run(async |rt| {
        let (gate, keeper) = Gate::over(device(&rt, &media(1 << 20)));
        let bench = Bench::open(&rt, gate.clone(), SEGMENT, 1 << 40).await;
        bench.fill(0..60).await;
        bench.checkpoint().await;
        bench.prepare().await;
        keeper.shut.set(true);
        let ended = bench.start(false);
        bench.let_pass_all_but(&keeper, &[State::Copies, State::Draining]).await;
        assert!(!keeper.waiting().is_empty());
        let victim = bench.cleaned_now();
        let lbas: Vec<u64> = (0..60).filter(|lba| bench.segment_of(*lba) == victim).collect();
        let (other, all) = (bench.clone(), lbas.clone());
        let writer = rt.spawn("writer", async move {
            for lba in all {
                other.write(lba, 1, 200).await;
            }
            other.ok(Bio::flush()).await;
        });
        for _ in 0..10 {
            bench.let_pass_all_but(&keeper, &[State::Copies, State::Draining]).await;
        }
        writer.await;
        keeper.open_all();
        bench.wait_for(&ended).await;
        assert!(bench.stat("mappings_stale") > 0.0);
        for lba in &lbas {
            assert_eq!(bench.values(*lba, 1).await, [200], "block {lba}");
        }
        // Without a checkpoint: all of it is replayed.
        let again = Bench::open(&rt, gate, SEGMENT, 1 << 40).await;
        for lba in 0..60 {
            let expected = if lbas.contains(&lba) { 200 } else { lba as u8 + 1 };
            assert_eq!(again.values(lba, 1).await, [expected], "block {lba} after a replay");
        }
    });
}

/// 5.13: a block that many share is copied once, and they go on sharing it.
#[test]
fn a_shared_block_is_copied_once() {
    run(async |rt| {
        let (bench, _) = filled(&rt).await;
        let victim = bench.segment_of(3);
        let live = (0..60).filter(|lba| bench.segment_of(*lba) == victim).count();
        for i in 0..100 {
            bench.ranges(&[clone(0, 10, 1000 + 10 * i)]).await;
        }
        bench.prepare().await;
        let mut moved = 0.0;
        while bench.segment(victim).stage != Stage::Rest {
            moved = bench.stat("moved_bytes");
            bench.clean_one().await;
        }
        assert_eq!(bench.stat("moved_bytes") - moved, (live * BLOCK) as f64);
        bench.clean().await;
        let place = |lba: u64| bench.volume.pieces(lba..lba + 1)[0].pba;
        assert_eq!(bench.segment(victim).live, 0);
        assert!((0..1000).all(|i| place(1000 + i) == place(i % 10)));
    });
}

/// What is chosen stays what it is until the collector has let go of it, even if all of it dies.
#[test]
fn a_chosen_segment_is_not_freed_under_the_collector() {
    run(async |rt| {
        let (bench, _) = filled(&rt).await;
        let victim = bench.segment_of(3);
        bench.pass().await;
        assert_eq!(bench.segment(victim).stage, Stage::Candidate);
        bench.fill(0..60).await;
        bench.checkpoint().await;
        let Segment { state, live, .. } = bench.segment(victim);
        assert_eq!((state, live), (State::Closed, 0));
        bench.pass().await;
        bench.clean().await;
        bench.checkpoint().await;
        assert_eq!(bench.segment(victim).state, State::Free);
    });
}

/// 5.14: whatever the number of references, lists of them never take more memory than they may (demand 37).
#[test]
fn a_segment_with_too_many_references_is_cleaned_without_a_list() {
    run(async |rt| {
        let (bench, _) = scarce(&rt).await;
        bench.fill(0..60).await;
        let victim = bench.segment_of(3);
        for i in 0..400 {
            bench.ranges(&[clone(0, 60, 1000 + 60 * i)]).await;
        }
        bench.pass().await;
        assert_eq!(bench.segment(victim).stage, Stage::Ready, "at once: it needs no list");
        bench.clean().await;
        assert_eq!(bench.segment(victim).stage, Stage::Forwarding);
        assert!(bench.segment(victim).live > 4000, "mappings still lead to the old place");
        // A clone of an old place that the pass comes to last, to where it has been.
        let ended = bench.start(true);
        rt.yield_now().await;
        bench.ranges(&[clone(24_943, 1, 500)]).await;
        assert!(!ended.get());
        bench.wait_for(&ended).await;
        let Segment { stage, live, .. } = bench.segment(victim);
        assert_eq!((stage, live), (Stage::Forwarding, 1), "the clone still leads to the old place");
        bench.pass().await;
        bench.expect_moved(victim, &[(3, 4), (1003, 4), (24_943, 4), (500, 4)]).await;
        assert!(bench.stat("gc_remapped") >= 1.0);
        let peak = bench.stat("reverse_bytes_peak");
        assert!(peak > 0.0 && peak <= 65_536.0, "{peak} bytes");
        let place = |lba: u64| bench.volume.pieces(lba..lba + 1)[0].pba;
        assert!((0..24_000).all(|i| place(1000 + i) == place(i % 60)), "they go on sharing");
    });
}

/// The same at scale: a million logical blocks lead to one physical block (demand 36).
#[test]
fn a_block_with_a_million_references_is_moved_and_they_go_on_sharing() {
    const REFERENCES: u64 = 1_000_000;
    const FIRST: u64 = 1000;
    run(async |rt| {
        let (bench, _) = scarce_over(&rt, 256 << 20).await;
        bench.fill(0..60).await;
        let (victim, place) = (bench.segment_of(3), |lba: u64| bench.volume.pieces(lba..lba + 1)[0].pba);
        bench.ranges(&[clone(3, 1, FIRST)]).await;
        let mut made = 1;
        while made < REFERENCES {
            let more = made.min(REFERENCES - made);
            bench.ranges(&[clone(FIRST, more, FIRST + made)]).await;
            made += more;
        }
        let old = place(3);
        assert!((0..REFERENCES).all(|i| place(FIRST + i) == old), "all share one block");
        assert!(bench.segment(victim).live > REFERENCES, "each reference counts");
        bench.pass().await;
        bench.clean().await;
        bench.pass().await;
        bench
            .expect_moved(victim, &[(3, 4), (FIRST, 4), (FIRST + REFERENCES / 2, 4), (FIRST + REFERENCES - 1, 4)])
            .await;
        let new = place(3);
        assert!(new != old && (0..REFERENCES).all(|i| place(FIRST + i) == new), "they go on sharing");
        let peak = bench.stat("reverse_bytes_peak");
        assert!(peak <= 65_536.0, "{peak} bytes of lists");
        bench.write(FIRST + 7, 1, 99).await;
        assert_eq!((bench.values(FIRST + 6, 3).await, bench.values(3, 1).await), (vec![4, 99, 4], vec![4]));
    });
}

/// A list that outgrows its memory while it is made is given up, and its segment is cleaned without.
#[test]
fn a_list_that_outgrows_its_memory_is_given_up() {
    run(async |rt| {
        let (bench, _) = scarce(&rt).await;
        bench.fill(0..60).await;
        let victim = bench.segment_of(3);
        bench.prepare().await;
        assert_eq!(bench.segment(victim).stage, Stage::Ready);
        for i in 0..400 {
            bench.ranges(&[clone(0, 10, 1000 + 10 * i)]).await;
        }
        bench.clean().await;
        assert_eq!(bench.segment(victim).stage, Stage::Forwarding);
        bench.prepare().await;
        bench.clean().await;
        bench.expect_moved(victim, &[(3, 4), (1003, 4), (4993, 4)]).await;
        assert!(bench.stat("reverse_bytes_peak") <= 65_536.0);
    });
}

/// 5.3 without a list: nothing leads to the copies until the next pass, and they are not taken for dead.
#[test]
fn copies_that_nothing_leads_to_yet_stay() {
    run(async |rt| {
        let (bench, _) = scarce(&rt).await;
        bench.fill(0..60).await;
        for i in 0..400 {
            bench.ranges(&[clone(0, 60, 1000 + 60 * i)]).await;
        }
        bench.pass().await;
        bench.clean().await;
        let is_full = |segment: &Segment| {
            let has_copies = !segment.class.is_new();
            has_copies && segment.live == 0 && segment.state != State::Copies && segment.state != State::Free
        };
        let full = bench.volume.segments().iter().position(is_full).expect("a segment of copies is full");
        bench.checkpoint().await;
        assert_eq!(bench.segment(full).state, State::Draining);
        for i in 0..1000u64 {
            bench.write(100_000 + i % 9, 1, 255).await;
        }
        for _ in 0..6 {
            bench.pass().await;
            bench.clean().await;
        }
        assert!(bench.stat("gc_remapped") > 0.0);
        for lba in 0..60 {
            assert_eq!(bench.values(1000 + lba, 1).await, [lba as u8 + 1]);
        }
    });
}
