//! The calls of cleaners: what is malformed changes nothing, and a wrong list loses nothing.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::units::{KIB, MIB};
use esker_base::{Errno, Nanos};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_rt::Rt;
use esker_vfs::{Answer, Call, FileSystem, Ino, Name, New, NewKind, Stamp, Sync};
use proptest::prelude::*;

use super::writing::judged;
use super::{MADE, SECTOR, config, device, made, run};
use crate::control::wire::{RemoteControl, answered};
use crate::control::{
    CheckpointMode, Checkpoints, CleaningOrder, DatBlock, ENTRIES_MAX, LEASE, LfsControl, LiveInfo, MovedVirtual,
    SegmentInfo, SegmentUpdate, moved_flag, segment_flag, update_field,
};
use crate::format::Payload;
use crate::write::CleanerSession;
use crate::{Lfs, MkfsConfig, check};

const SIZE: u64 = 24 * MIB;

/// So many seconds after the file systems were made.
pub(super) fn at(seconds: u64) -> Call {
    Call::at(Stamp((MADE + seconds) as i64 * 1_000_000_000))
}

pub(super) fn small(live_counters: bool) -> Rc<Media> {
    made(SIZE, MkfsConfig { live_counters, segment_bytes: Some(256 * KIB), ..config(4096) }).unwrap()
}

pub(super) async fn open(rt: &Rt, media: &Rc<Media>) -> Lfs {
    Lfs::open(rt, device(rt, media), at(1).now).await.unwrap()
}

pub(super) async fn create(fs: &Lfs, call: Call, name: &str) -> Ino {
    let new = New { what: NewKind::File, mode: 0o644, uid: 0, gid: 0 };
    fs.create(call, fs.root(), Some(Name::new(name.as_bytes()).unwrap()), new).await.unwrap().ino
}

/// Bytes of a block in a round.
pub(super) fn bytes(number: u64, round: u64) -> Vec<u8> {
    (0..512).flat_map(|at| (number << 40 ^ round << 10 ^ at).to_le_bytes()).collect()
}

pub(super) async fn write(fs: &Lfs, call: Call, ino: Ino, number: u64, round: u64) {
    let data = esker_block::Buf::from_bytes(&Default::default(), &bytes(number, round));
    fs.write(call, ino, esker_vfs::At::Offset(number * 4096), data, Default::default()).await.unwrap();
}

pub(super) async fn infos(control: &dyn LfsControl) -> Vec<SegmentInfo> {
    let mut all: Vec<SegmentInfo> = Vec::new();
    while (all.len() as u64) < control.totals().await.unwrap().segments {
        all.extend(control.segments(all.len() as u64).await.unwrap());
    }
    all
}

/// A file of 4 MiB, of which every second block was written again, and one segment to clean.
async fn half_dead(fs: &Lfs) -> (Ino, SegmentInfo) {
    let ino = create(fs, at(1), "file").await;
    for number in 0..1024 {
        write(fs, at(1), ino, number, 0).await;
    }
    fs.sync(at(2), Sync::All).await.unwrap();
    for number in (0..1024).filter(|number| number % 2 == 0) {
        write(fs, at(3), ino, number, 1).await;
    }
    fs.sync(at(4), Sync::All).await.unwrap();
    let control = fs.control();
    control.sync().await.unwrap();
    let totals = control.totals().await.unwrap();
    let may = |info: &SegmentInfo| {
        info.flags == segment_flag::DIRTY
            && info.sequence < totals.protected_sequence
            && info.live.is_none_or(|live| (20..50).contains(&live.live))
            && info.blocks > 50
    };
    let victim = infos(&control).await.into_iter().find(may).expect("a segment is half dead");
    (ino, victim)
}

/// The file as `half_dead` leaves it.
async fn assert_whole(fs: &Lfs, ino: Ino) {
    for number in 0..1024 {
        let read = fs.read(at(9), ino, number * 4096, 4096).await.unwrap().to_vec();
        assert!(read == bytes(number, u64::from(number % 2 == 0)), "block {number}");
    }
}

/// What a cleaner would order that keeps what `keep` says of a block's end.
async fn ordered(control: &dyn LfsControl, segment: u64, keep: impl Fn(u64) -> bool) -> CleaningOrder {
    let mut order = CleaningOrder { victims: vec![segment], ..CleaningOrder::default() };
    for block in control.logs(segment).await.unwrap().blocks {
        match block.what {
            Payload::Data { vblock, .. } | Payload::Node { vblock } => {
                let life = control.virtual_blocks(vec![vblock]).await.unwrap()[0];
                match () {
                    () if life.place != block.place => {}
                    () if keep(life.end) => {
                        order.moves.push(MovedVirtual { place: block.place, period_start: 0, flags: 0 });
                    }
                    () => order.freed.push(vblock),
                }
            }
            Payload::DatData { index } => order.dat.push(DatBlock { index, level: 0, place: block.place }),
            Payload::DatNode { index, level } => order.dat.push(DatBlock { index, level, place: block.place }),
        }
    }
    order
}

/// Runs on a half dead file system.
fn with(live_counters: bool, work: impl AsyncFnOnce(&Rt, &Lfs, &CleanerSession, Ino, SegmentInfo) + 'static) {
    let media = small(live_counters);
    run(move |rt| async move {
        let fs = open(&rt, &media).await;
        let (ino, victim) = half_dead(&fs).await;
        let control = fs.control();
        work(&rt, &fs, &control, ino, victim).await;
        assert_whole(&fs, ino).await;
        fs.forget(ino, 1);
        fs.close().await.unwrap();
        let found = check(&rt, device(&rt, &media)).await.unwrap();
        assert!(found.findings.is_empty(), "{:#?}", found.findings);
        assert_eq!(control.totals().await, Err(Errno::ENODEV), "it is closed");
    });
}

#[test]
fn what_a_cleaner_orders_is_cleaned_and_the_rest_lives_on() {
    with(true, async |_, _, control, _, victim| {
        let order = ordered(control, victim.segment, |end| end == u64::MAX).await;
        assert!(order.freed.len() > 10 && order.moves.len() > 10, "{order:?}");
        let cleaned = control.clean(order.clone()).await.unwrap();
        assert!(cleaned.copied >= order.moves.len() as u64 && cleaned.freed == order.freed.len() as u64);
        let after = control.segments(victim.segment).await.unwrap()[0];
        assert_eq!((after.flags, after.blocks, after.live.unwrap().live), (0, 0, 0));
        assert_eq!(control.clean(order).await, Err(Errno::EBUSY), "it is clean already");
    });
}

#[test]
fn a_block_that_lives_moves_though_a_cleaner_calls_it_dead() {
    with(true, async |_, _, control, _, victim| {
        let order = ordered(control, victim.segment, |_| false).await;
        let (freed, dead) = (order.freed.len() as u64, ordered(control, victim.segment, |end| end == u64::MAX).await);
        let cleaned = control.clean(order).await.unwrap();
        assert_eq!(cleaned.freed, dead.freed.len() as u64);
        assert!(cleaned.freed < freed && cleaned.copied >= freed - cleaned.freed);
    });
}

/// Item 23: what a snapshot took between the verdict and the order stays.
#[test]
fn a_snapshot_made_behind_the_verdict_keeps_its_blocks() {
    with(true, async |rt, fs, control, ino, victim| {
        let order = ordered(control, victim.segment, |end| end == u64::MAX).await;
        let first = control.checkpoints(1, Checkpoints::All).await.unwrap();
        let old = first.iter().rfind(|info| info.created < MADE + 3).unwrap().cno;
        control.set_mode(old, CheckpointMode::Snapshot).await.unwrap();
        let before = order.freed.len() as u64;
        assert!(control.clean(order).await.unwrap().freed < before);
        let _world = (rt, fs, ino);
    });
}

#[test]
fn a_malformed_order_is_refused_and_changes_nothing() {
    with(true, async |_, fs, control, _, victim| {
        let right = ordered(control, victim.segment, |end| end == u64::MAX).await;
        let (before, totals) = (infos(control).await, control.totals().await.unwrap());
        let active = before.iter().find(|info| info.flags & segment_flag::ACTIVE != 0).unwrap().segment;
        let clean = before.iter().find(|info| info.flags == 0).unwrap().segment;
        let change = |edit: &dyn Fn(&mut CleaningOrder)| {
            let mut order = right.clone();
            edit(&mut order);
            order
        };
        let wrong = [
            (change(&|order| order.victims.clear()), Errno::EINVAL),
            (change(&|order| order.victims.push(victim.segment)), Errno::EINVAL),
            (change(&|order| order.victims[0] = totals.segments), Errno::EINVAL),
            (change(&|order| order.victims.extend(100..140)), Errno::EINVAL),
            (change(&|order| order.moves.truncate(order.moves.len() - 1)), Errno::EINVAL),
            (change(&|order| order.freed.truncate(order.freed.len() - 1)), Errno::EINVAL),
            (change(&|order| order.moves.push(order.moves[0])), Errno::EINVAL),
            (change(&|order| order.freed.push(order.freed[0])), Errno::EINVAL),
            (change(&|order| order.freed.push(1 << 40)), Errno::EINVAL),
            (change(&|order| order.moves[0].place = 0), Errno::EINVAL),
            (change(&|order| order.moves[0].flags = 4), Errno::EINVAL),
            (change(&|order| order.periods.push((3, 3))), Errno::EINVAL),
            (change(&|order| order.periods.push((0, 1))), Errno::EINVAL),
            (change(&|order| order.periods.push((1, totals.cno + 1))), Errno::EINVAL),
            (CleaningOrder { victims: vec![active], ..Default::default() }, Errno::EBUSY),
            (CleaningOrder { victims: vec![clean], ..Default::default() }, Errno::EBUSY),
        ];
        for (order, errno) in wrong {
            assert_eq!(control.clean(order.clone()).await, Err(errno), "{:?}", order.periods);
        }
        assert_eq!((infos(control).await, control.totals().await.unwrap()), (before, totals));
        assert_eq!(fs.control().logs(totals.segments).await, Err(Errno::EINVAL));
    });
}

/// Item 27, whatever a cleaner orders.
#[test]
fn a_segment_that_recovery_needs_is_not_cleaned() {
    let media = small(true);
    run(move |rt| async move {
        let fs = open(&rt, &media).await;
        let (ino, _) = half_dead(&fs).await;
        for number in (0..1024).filter(|number| number % 2 == 0) {
            write(&fs, at(5), ino, number, 1).await;
        }
        fs.sync(at(6), Sync::All).await.unwrap();
        let control = fs.control();
        let totals = control.totals().await.unwrap();
        let needed = |info: &SegmentInfo| {
            info.flags == segment_flag::DIRTY && info.blocks > 0 && info.sequence >= totals.protected_sequence
        };
        let needed = infos(&control).await.into_iter().find(needed).expect("superblocks are not that new").segment;
        let order = ordered(&control, needed, |_| true).await;
        assert_eq!(control.clean(order.clone()).await, Err(Errno::EBUSY));
        control.sync().await.unwrap();
        assert!(control.clean(order).await.is_ok(), "superblocks name a later one now");
        assert_whole(&fs, ino).await;
    });
}

/// Item 29.
#[test]
fn a_malformed_usage_is_refused_and_no_entry_is_changed() {
    with(true, async |_, _, control, _, victim| {
        let before = infos(control).await;
        let live = LiveInfo { live: 1, snapshot: 0, changed: 7 };
        let fields = update_field::CHANGED | update_field::COUNTERS;
        let (blocks, flags) = (victim.blocks, victim.flags);
        let right = SegmentUpdate { segment: victim.segment, fields, changed: 5, blocks, flags, live };
        let with = |live: LiveInfo| SegmentUpdate { live, ..right };
        for wrong in [
            SegmentUpdate { segment: before.len() as u64, ..right },
            SegmentUpdate { fields: 64, ..right },
            with(LiveInfo { live: 65, ..live }),
            with(LiveInfo { snapshot: 65, ..live }),
            SegmentUpdate { fields: update_field::BLOCKS, blocks: blocks - 1, ..right },
            SegmentUpdate { fields: update_field::FLAGS, flags: 0, ..right },
        ] {
            // All or nothing: the right one is not done either.
            let other = SegmentUpdate { segment: (victim.segment + 1) % before.len() as u64, ..right };
            assert_eq!(control.set_segments(vec![other, wrong]).await, Err(Errno::EINVAL), "{wrong:?}");
        }
        assert_eq!(control.set_segments(vec![right, right]).await, Err(Errno::EINVAL), "one twice");
        assert_eq!(infos(control).await, before);
        let flags = segment_flag::DIRTY | segment_flag::ACTIVE;
        let all = SegmentUpdate { fields: update_field::ALL, flags, ..right };
        control.set_segments(vec![all]).await.unwrap();
        let after = control.segments(victim.segment).await.unwrap()[0];
        assert_eq!(
            (after.changed, after.flags, after.live),
            (5, segment_flag::DIRTY, Some(live)),
            "`ACTIVE` is no change"
        );
    });
}

#[test]
fn counters_that_are_not_there_cannot_be_set() {
    let media = small(false);
    run(move |rt| async move {
        let fs = open(&rt, &media).await;
        let control = fs.control();
        let live = LiveInfo { live: 0, snapshot: 0, changed: 0 };
        let update = SegmentUpdate { segment: 9, fields: update_field::LIVE, changed: 0, blocks: 0, flags: 0, live };
        assert_eq!(control.set_segments(vec![update]).await, Err(Errno::EINVAL));
        assert_eq!(control.set_segments(vec![SegmentUpdate { fields: update_field::CHANGED, ..update }]).await, Ok(()));
        fs.close().await.unwrap();
        judged(&rt, &media).await;
    });
}

/// Item 30.
#[test]
fn modes_of_checkpoints_that_are_not_there_are_refused() {
    with(true, async |_, _, control, _, _| {
        let all = control.checkpoints(1, Checkpoints::All).await.unwrap();
        let (cno, latest) = (all[0].cno, control.totals().await.unwrap().cno);
        assert!(all.windows(2).all(|pair| pair[0].cno < pair[1].cno) && all.last().unwrap().cno == latest);
        for missing in [0, latest + 1, u64::MAX] {
            assert_eq!(control.set_mode(missing, CheckpointMode::Snapshot).await, Err(Errno::ENOENT), "{missing}");
            assert_eq!(control.delete_checkpoint(missing).await, Err(Errno::ENOENT), "{missing}");
        }
        for _ in 0..2 {
            assert_eq!(control.set_mode(cno, CheckpointMode::Snapshot).await, Ok(()), "a repeated change is none");
        }
        let snapshots = control.checkpoints(1, Checkpoints::Snapshots).await.unwrap();
        assert_eq!(snapshots.iter().map(|info| info.cno).collect::<Vec<_>>(), [cno]);
        assert_eq!(control.delete_checkpoint(cno).await, Err(Errno::EBUSY));
        assert_eq!(control.set_mode(cno, CheckpointMode::Checkpoint).await, Ok(()));
        assert_eq!(control.delete_checkpoint(cno).await, Ok(()));
        assert_eq!(control.set_mode(cno, CheckpointMode::Snapshot).await, Err(Errno::ENOENT), "it was deleted");
    });
}

/// Item 31, and more: whatever flags say, with the hand-shake or without.
#[test]
fn flags_of_an_order_make_no_counter_wrong() {
    // All that died is kept too, with these flags. Answers how many blocks then count where they went, and in
    // snapshots.
    let counted = |period_start: u64, flags: u32| {
        let media = small(true);
        run(move |rt| async move {
            let fs = open(&rt, &media).await;
            let (ino, victim) = half_dead(&fs).await;
            let control = fs.control();
            let mut order = ordered(&control, victim.segment, |_| true).await;
            order.moves.iter_mut().for_each(|moved| (moved.period_start, moved.flags) = (period_start, flags));
            let cleaned = control.clean(order).await.unwrap();
            assert!(cleaned.freed == 0 && cleaned.copied > 50);
            assert_whole(&fs, ino).await;
            let live = infos(&control).await.into_iter().filter_map(|info| info.live);
            live.fold((0, 0), |(all, snapshot), live| (all + live.live, snapshot + live.snapshot))
        })
    };
    let without = counted(0, 0);
    assert_eq!(without.1, 0);
    for flags in [1, 2, 3, 0xdead_beef] {
        assert_eq!(counted(77, flags), without, "{flags:#x} is what an old program left there");
    }
    for flags in [moved_flag::PERIOD, moved_flag::SNAPSHOT] {
        assert_eq!(counted(0, flags), without, "{flags}: the file system knows that no snapshot has these blocks");
    }
}

/// Item 26, and the claim: it lapses when its cleaner is silent.
#[test]
fn two_cleaners_never_clean_together() {
    with(true, async |rt, fs, first, _, victim| {
        let second = fs.control();
        assert_eq!(first.claim().await, Ok(()));
        assert_eq!(second.claim().await, Err(Errno::EBUSY));
        let order = ordered(&second, victim.segment, |end| end == u64::MAX).await;
        assert_eq!(second.clean(order.clone()).await, Err(Errno::EBUSY));
        assert_eq!(second.set_segments(Vec::new()).await, Err(Errno::EBUSY));
        rt.sleep(Nanos(LEASE.0 - 1)).await;
        assert_eq!(second.claim().await, Err(Errno::EBUSY));
        assert_eq!(first.claim().await, Ok(()), "it is kept");
        rt.sleep(LEASE).await;
        assert_eq!(second.claim().await, Ok(()), "the first one was silent for too long");
        assert_eq!(first.clean(order.clone()).await, Err(Errno::EBUSY));
        second.clean(order.clone()).await.unwrap();
        second.release().await.unwrap();
        assert_eq!(first.clean(order).await, Err(Errno::EBUSY), "the segment is clean");
        assert_eq!(first.claim().await, Ok(()), "the second one gave it back");
    });
}

/// A cleaner in another process sees what one in this process sees.
#[test]
fn calls_as_text_give_the_same_answers() {
    with(true, async |_, fs, control, _, victim| {
        let number = fs.ask(&["control".to_string()]).await.unwrap();
        let far = {
            let (fs, number) = (fs.clone(), number.clone());
            RemoteControl::new(move |call: String| -> Answer<String> {
                fs.ask(&["control".to_string(), number.clone(), call])
            })
        };
        assert_eq!(far.totals().await, control.totals().await);
        assert_eq!(infos(&far).await, infos(control).await);
        assert_eq!(far.logs(victim.segment).await, control.logs(victim.segment).await);
        assert_eq!(far.checkpoints(1, Checkpoints::All).await, control.checkpoints(1, Checkpoints::All).await);
        assert_eq!(far.dat_blocks(vec![]).await, Ok(vec![]));
        assert_eq!(far.include(vec![1]).await, Ok(()));
        assert_eq!(far.include(vec![1; ENTRIES_MAX + 1]).await, Err(Errno::EINVAL));
        assert_eq!(far.set_mode(0, CheckpointMode::Snapshot).await, Err(Errno::ENOENT));
        assert_eq!(far.delete_checkpoint(0).await, Err(Errno::ENOENT));
        assert_eq!(far.set_segments(Vec::new()).await, Ok(()));
        assert_eq!(control.claim().await, Err(Errno::EBUSY), "the claim is the far one's");
        let order = ordered(&far, victim.segment, |end| end == u64::MAX).await;
        let long = CleaningOrder { freed: (0..200_000).collect(), ..order.clone() };
        assert_eq!(far.clean(long).await, Err(Errno::ENOMEM), "a call has bounds");
        assert!(far.clean(order).await.unwrap().copied > 10);
        assert!(far.sync().await.unwrap() > 0);
        far.release().await.unwrap();
        assert_eq!(control.claim().await, Ok(()));
        for wrong in [vec!["x", "\"totals\""], vec!["1", "2", "3"]] {
            let words = std::iter::once("control").chain(wrong).map(str::to_string).collect::<Vec<_>>();
            assert_eq!(fs.ask(&words).await, Err(Errno::EINVAL));
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// No text makes the parser of calls fall, and none changes a file system without meaning to.
    #[test]
    fn no_text_of_a_call_makes_a_file_system_fall(
        word in "totals|sync|claim|segments|logs|clean|virtual_blocks|dat_blocks|checkpoints|set_segments|[a-z]{0,8}",
        value in "[0-9]{0,20}|\\[\\]|\\[[0-9]{1,20}\\]|\\{\\}|\\[[0-9]{1,19},\"All\"\\]|\\PC{0,16}",
    ) {
        let media = small(true);
        let told = run(move |rt| async move {
            let fs = open(&rt, &media).await;
            let mut told = Vec::new();
            for text in [format!("\"{word}\""), format!("{{\"{word}\":{value}}}"), value] {
                told.push(answered(&fs.control(), &text).await);
            }
            fs.close().await.unwrap();
            judged(&rt, &media).await;
            told
        });
        prop_assert!(told.iter().all(|text| text.starts_with("{\"ok\":") || text.starts_with("{\"errno\":")), "{told:?}");
    }
}

/// A cleaner looks while a checkpoint is made: segments that it takes are in use before their logs are there.
#[test]
fn segments_whose_logs_are_being_written_are_in_use() {
    let media = small(true);
    run(move |rt| async move {
        let slow = Rc::new(MemoryDevice::over(&rt, media, SECTOR, Defer::Always(Nanos::millis(1))));
        let fs = Lfs::open(&rt, slow, at(1).now).await.unwrap();
        let ino = create(&fs, at(1), "file").await;
        for number in 0..1024 {
            write(&fs, at(1), ino, number, 0).await;
        }
        let has_ended = Rc::new(Cell::new(false));
        let (syncing, ended) = (fs.clone(), has_ended.clone());
        rt.spawn_detached("sync", async move {
            syncing.sync(at(2), Sync::All).await.unwrap();
            ended.set(true);
        });
        let (control, mut most_in_use) = (fs.control(), 0);
        while !has_ended.get() {
            rt.sleep(Nanos::micros(300)).await;
            let mut in_use = 0;
            for info in infos(&control).await.into_iter().filter(|info| info.flags & segment_flag::DIRTY != 0) {
                let is_in_use = info.flags & segment_flag::ACTIVE != 0;
                let logs = control.logs(info.segment).await;
                assert!(logs.is_ok() || is_in_use && logs == Err(Errno::EBUSY), "{info:?}: {logs:?}");
                in_use += u64::from(is_in_use);
            }
            most_in_use = most_in_use.max(in_use);
        }
        // The file takes 17 segments.
        assert!(most_in_use > 16, "{most_in_use}");
    });
}
