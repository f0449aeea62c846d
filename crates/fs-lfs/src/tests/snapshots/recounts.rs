//! Counts of cleaners: what changed behind a cleaner's look makes no counter wrong.

use std::rc::Rc;

use esker_base::Errno;
use esker_base::units::MIB;
use esker_dev::Media;

use super::super::control::infos;
use super::super::run;
use super::{Mount, blank, by, counted};
use crate::SnapshotCounting;
use crate::control::{
    CleaningOrder, DatBlock, ENTRIES_MAX, LfsControl, LiveInfo, MovedVirtual, SegmentInfo, SegmentUpdate, moved_flag,
    segment_flag, update_field,
};
use crate::format::{CNO_MAX, Payload};

/// What a cleaner finds in a segment while a snapshot protects what died.
#[derive(Default)]
struct Look {
    update: Option<SegmentUpdate>,
    order: CleaningOrder,
    in_snapshots: Vec<u64>,
}

fn media() -> Rc<Media> {
    blank(12 * MIB, 4096, 128)
}

/// The segments that may be cleaned.
async fn dirty(control: &dyn LfsControl) -> Vec<SegmentInfo> {
    control.sync().await.unwrap();
    let protected = control.totals().await.unwrap().protected_sequence;
    let may = |info: &SegmentInfo| info.flags == segment_flag::DIRTY && info.sequence < protected && info.blocks > 0;
    infos(control).await.into_iter().filter(may).collect()
}

async fn look(control: &dyn LfsControl, info: &SegmentInfo) -> Look {
    let mut look =
        Look { order: CleaningOrder { victims: vec![info.segment], ..Default::default() }, ..Look::default() };
    let mut live = LiveInfo { live: 0, snapshot: 0, changed: info.changed };
    for block in control.logs(info.segment).await.unwrap().blocks {
        match block.what {
            Payload::Data { vblock, .. } | Payload::Node { vblock } => {
                let life = control.virtual_blocks(vec![vblock]).await.unwrap()[0];
                let is_live = life.end == CNO_MAX;
                match life.place == block.place {
                    false => continue,
                    true if !is_live && (block.cno == 0 || life.start == life.end) => {
                        look.order.freed.push(vblock);
                        continue;
                    }
                    true => live.live += 1,
                }
                let flags = if is_live { 0 } else { moved_flag::SNAPSHOT };
                if !is_live {
                    look.in_snapshots.push(vblock);
                }
                look.order.moves.push(MovedVirtual { place: block.place, period_start: 0, flags });
            }
            Payload::DatData { index } => look.dat(control, DatBlock { index, level: 0, place: block.place }).await,
            Payload::DatNode { index, level } => look.dat(control, DatBlock { index, level, place: block.place }).await,
        }
    }
    live.live += look.order.dat.len() as u32;
    live.snapshot = look.in_snapshots.len() as u32;
    let (fields, blocks, flags) = (update_field::COUNTERS, info.blocks, info.flags);
    look.update = Some(SegmentUpdate { segment: info.segment, fields, changed: info.changed, blocks, flags, live });
    look
}

impl Look {
    async fn dat(&mut self, control: &dyn LfsControl, block: DatBlock) {
        if control.dat_blocks(vec![block]).await.unwrap()[0].place == block.place {
            self.order.dat.push(block);
        }
    }
}

/// A file of which blocks of each segment die, and a snapshot that has them if they die behind it.
async fn in_a_snapshot(mount: &Mount) -> u64 {
    mount.write("file", 0, 2 * MIB, 1).await.unwrap();
    let number = mount.snapshot().await;
    mount.remove("file").await.unwrap();
    mount.sync().await;
    number
}

async fn look_at_all(control: &dyn LfsControl) -> Vec<SegmentUpdate> {
    let mut updates = Vec::new();
    for info in dirty(control).await {
        updates.push(look(control, &info).await.update.unwrap());
    }
    updates
}

/// A block dies, or a snapshot goes, between a cleaner's look and its count: the counters of then stay.
#[test]
fn a_count_that_is_old_is_not_taken() {
    let [all, starvation] = [SnapshotCounting::All, SnapshotCounting::Starvation];
    for (rule, goes) in [(all, "block"), (all, "snapshot"), (starvation, "snapshot")] {
        let media = media();
        run(move |rt| async move {
            let mount = Mount::of(&rt, &media, by(rule)).await;
            let number = in_a_snapshot(&mount).await;
            // No snapshot has them, and the segments behind them are not looked at.
            for name in ["other", "last"] {
                mount.write(name, 0, 2 * MIB, 1).await.unwrap();
                mount.sync().await;
            }
            let control = mount.fs.control();
            control.set_segments(look_at_all(&control).await).await.unwrap();
            let updates = look_at_all(&control).await;
            match goes {
                "block" => mount.remove("other").await.unwrap(),
                _ => mount.undo(number).await,
            }
            mount.sync().await;
            let before = infos(&control).await;
            control.set_segments(updates.clone()).await.unwrap();
            let after = infos(&control).await;
            let live = |infos: &[SegmentInfo], segment: u64| infos[segment as usize].live.unwrap().live;
            let changed = updates.iter().filter(|update| live(&before, update.segment) != update.live.live);
            let changed: Vec<u64> = changed.map(|update| update.segment).collect();
            assert!(changed.len() > 8, "{rule:?}: {changed:?} changed when a {goes} went");
            for segment in changed {
                assert_eq!(live(&after, segment), live(&before, segment), "{rule:?}: {segment}: a {goes} went");
            }
            mount.close().await;
        });
    }
}

/// A cleaner sees a block in a snapshot that goes before its order comes.
#[test]
fn a_block_of_which_the_snapshot_is_gone_moves_and_does_not_count() {
    let media = media();
    run(move |rt| async move {
        let mount = Mount::of(&rt, &media, by(SnapshotCounting::All)).await;
        let number = in_a_snapshot(&mount).await;
        let control = mount.fs.control();
        let victims = dirty(&control).await;
        let victim = victims.iter().max_by_key(|info| info.live.unwrap().live).unwrap();
        let order = look(&control, victim).await.order;
        assert!(order.moves.len() > 16, "{order:?}");
        mount.undo(number).await;
        control.clean(order).await.unwrap();
        mount.sync().await;
        mount.close().await;
        assert_eq!(counted(&rt, &media).await.miscounted_blocks, 0);
    });
}

/// Scan-Dead-Blocks misses what dies in a snapshot. A cleaner that counts it, and says so, makes it leave the counter
/// with the snapshot (section 3.17).
#[test]
fn what_a_cleaner_includes_leaves_the_counter_with_its_snapshot() {
    for includes in [true, false] {
        let media = media();
        run(move |rt| async move {
            let mount = Mount::of(&rt, &media, by(SnapshotCounting::Dead)).await;
            let number = in_a_snapshot(&mount).await;
            let control = mount.fs.control();
            let mut included = 0;
            for info in dirty(&control).await {
                let look = look(&control, &info).await;
                control.set_segments(vec![look.update.unwrap()]).await.unwrap();
                included += look.in_snapshots.len();
                if includes {
                    control.include(look.in_snapshots).await.unwrap();
                }
            }
            assert!(included > 400, "{included} blocks died in the snapshot");
            mount.undo(number).await;
            mount.sync().await;
            mount.close().await;
            let off = counted(&rt, &media).await.miscounted_blocks;
            assert_eq!(off < 16, includes, "{off} blocks are miscounted");
        });
    }
}

#[test]
fn blocks_are_included_only_where_marks_are_looked_at() {
    for (rule, answer) in [
        (SnapshotCounting::Stock, Err(Errno::ENOTTY)),
        (SnapshotCounting::Starvation, Err(Errno::ENOTTY)),
        (SnapshotCounting::Dead, Ok(())),
        (SnapshotCounting::All, Ok(())),
        (SnapshotCounting::Background, Ok(())),
    ] {
        let media = media();
        run(move |rt| async move {
            let mount = Mount::of(&rt, &media, by(rule)).await;
            in_a_snapshot(&mount).await;
            let control = mount.fs.control();
            assert_eq!(control.include((1..400).collect()).await, answer, "{rule:?}");
            assert_eq!(control.include(vec![1; ENTRIES_MAX + 1]).await, answer.and(Err(Errno::EINVAL)), "{rule:?}");
            mount.settle().await;
            mount.close().await;
            let off = counted(&rt, &media).await.miscounted_blocks;
            let is_exact = matches!(rule, SnapshotCounting::All | SnapshotCounting::Background);
            assert!(!is_exact || off == 0, "{rule:?}: a count that no cleaner set has no new blocks: {off}");
        });
    }
}
