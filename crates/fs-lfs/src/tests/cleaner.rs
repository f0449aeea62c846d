//! The cleaner: thresholds, late abort, protection, snapshots, and what it does where a call is unknown.

mod bench;

use std::rc::Rc;

use esker_base::{Errno, Nanos};
use esker_dev::Media;
use esker_rt::{Rt, SimConfig};
use esker_vfs::{FileSystem, Name, Remove, Sync};

use super::control::{at, bytes, create, infos, open, small, write};
use super::writing::judged;
use super::{MADE, device, run};
use crate::cleaner::config::{LateAbort, Share, StepLimits};
use crate::cleaner::{CleanerConfig, CleanerTurn, LfsCleaner, StepEnd};
use crate::control::{Checkpoints, LfsControl, segment_flag, update_field};
use crate::{Lfs, LfsConfig, LfsReader, Volume};

use bench::{BLOCKS, Load, passed, picky};
pub(super) use bench::{Warped, eager};

/// Item 32: it begins below the lower threshold, ends above the upper one, and works by the second set below the lower.
#[test]
fn cleaning_begins_below_one_threshold_and_ends_above_the_other() {
    let media = small(true);
    run(move |rt| async move {
        let fs = open(&rt, &media).await;
        let mut load = Load::new(&fs).await;
        let limits = |segments| StepLimits { segments, interval: Nanos::ZERO, min_reclaimable: Share::Percent(1.0) };
        let config = CleanerConfig {
            min_clean: Share::Count(10),
            max_clean: Share::Count(30),
            relaxed: limits(1),
            pressed: limits(3),
            ..CleanerConfig::usual()
        };
        let control = Warped::new(&fs, false);
        let cleaner = LfsCleaner::new(&rt, control.clone(), config);
        let (mut begun, mut sizes) = (None, Vec::new());
        for _ in 0..400 {
            let totals = control.totals().await.unwrap();
            match cleaner.turn().await.unwrap() {
                CleanerTurn::Idle => {
                    let is_low = totals.clean < 10 + totals.reserved;
                    assert!(!is_low, "it works below the lower threshold");
                    if begun.take().is_some() {
                        assert!(totals.clean > 30 + totals.reserved, "it ended with {} clean", totals.clean);
                        break;
                    }
                    load.overwrite(&fs, 40, BLOCKS).await;
                }
                CleanerTurn::Made(step) => {
                    begun.get_or_insert(totals.clean);
                    assert_eq!(step.is_pressed, totals.clean < 10 + totals.reserved);
                    sizes.push((step.is_pressed, step.victims.len() + step.deferred.len()));
                }
            }
        }
        assert!(sizes.contains(&(true, 3)) && sizes.contains(&(false, 1)), "{sizes:?}");
        assert!(sizes.iter().all(|(is_pressed, count)| *count <= if *is_pressed { 3 } else { 1 }), "{sizes:?}");
        load.assert_whole(&fs).await;
        fs.forget(load.ino, 1);
        fs.close().await.unwrap();
        judged(&rt, &media).await;
    });
}

#[test]
fn every_policy_gives_room_back_and_loses_nothing() {
    for (policy, live_counters) in
        esker_cleaning::policy::NAMED.iter().map(|(name, _)| (*name, true)).chain([("greedy", false)])
    {
        let media = small(live_counters);
        run(move |rt| async move {
            let fs = open(&rt, &media).await;
            let mut load = Load::new(&fs).await;
            let cleaner = LfsCleaner::new(&rt, Rc::new(fs.control()), eager(policy));
            let mut cleaned = 0;
            for _ in 0..30 {
                load.overwrite(&fs, 200, BLOCKS / 2).await;
                if let CleanerTurn::Made(step) = cleaner.turn().await.unwrap() {
                    cleaned += step.victims.len();
                }
            }
            assert!(cleaned > 20, "{policy}: {cleaned} segments were cleaned");
            load.assert_whole(&fs).await;
            fs.forget(load.ino, 1);
            fs.close().await.unwrap();
            judged(&rt, &media).await;
        });
    }
}

/// Item 28: a segment that would give too little back is left, counts as young, and has right counters.
#[test]
fn a_late_abort_copies_nothing_and_the_victims_are_not_chosen_again() {
    for late_abort in [LateAbort::Segment, LateAbort::Batch] {
        let media = small(true);
        run(move |rt| async move {
            let fs = open(&rt, &media).await;
            let mut load = Load::new(&fs).await;
            load.overwrite(&fs, 64, 1).await;
            load.overwrite(&fs, 64, 1).await;
            let control = Warped::new(&fs, false);
            let cleaner = LfsCleaner::new(&rt, control.clone(), picky(late_abort));
            let before = control.totals().await.unwrap();
            let CleanerTurn::Made(step) = cleaner.turn().await.unwrap() else { panic!("it is due") };
            assert_eq!((step.end, step.copied), (StepEnd::Deferred, 0), "{step:?}");
            assert_eq!(control.totals().await.unwrap().cno, before.cno, "nothing was written");
            let set = control.set.borrow().clone();
            assert!(set.len() == step.deferred.len() && !set.is_empty());
            for update in &set {
                let info = control.segments(update.segment).await.unwrap()[0];
                assert_eq!((info.changed, info.live), (before.now, Some(update.live)), "{update:?}");
            }
            for _ in 0..10 {
                load.overwrite(&fs, 4, 1).await;
                match cleaner.turn().await.unwrap() {
                    CleanerTurn::Made(next) => {
                        let again = next.victims.iter().chain(&next.deferred).find(|s| step.deferred.contains(s));
                        assert_eq!(again, None, "{next:?}");
                    }
                    CleanerTurn::Idle => panic!("it is due"),
                }
            }
            fs.forget(load.ino, 1);
            fs.close().await.unwrap();
            judged(&rt, &media).await;
        });
    }
}

/// One good victim among bad ones: the batch test leaves it, that of each segment takes it.
#[test]
fn a_late_abort_per_segment_still_takes_the_good_victims() {
    let taken = |late_abort| {
        let media = small(true);
        run(move |rt| async move {
            let fs = open(&rt, &media).await;
            let mut load = Load::new(&fs).await;
            // The first segments are dead, the others live.
            for number in 0..100 {
                write(&fs, at(2), load.ino, number, 1).await;
                load.rounds[number as usize] = 1;
            }
            fs.sync(at(2), Sync::All).await.unwrap();
            load.overwrite(&fs, 300, 1).await;
            load.overwrite(&fs, 10, 1).await;
            let limits = StepLimits { segments: 16, interval: Nanos::ZERO, min_reclaimable: Share::Percent(60.0) };
            let config = CleanerConfig { late_abort, pressed: limits, relaxed: limits, ..eager("timestamp") };
            let cleaner = LfsCleaner::new(&rt, Rc::new(fs.control()), config);
            let CleanerTurn::Made(step) = cleaner.turn().await.unwrap() else { panic!("it is due") };
            load.assert_whole(&fs).await;
            (step.victims.len(), step.deferred.len())
        })
    };
    let (batch, segment, off) = (taken(LateAbort::Batch), taken(LateAbort::Segment), taken(LateAbort::Off));
    assert!(batch.0 == 0 && batch.1 > 10, "{batch:?}");
    assert!(segment.0 > 0 && segment.1 > 5 && segment.0 + segment.1 == batch.1, "{segment:?}");
    assert_eq!(off, (batch.1, 0));
}

/// Item 28, and section 4.1: what the file system does not know is given up, and the rest goes on.
#[test]
fn a_call_that_is_unknown_is_given_up_and_cleaning_goes_on() {
    for (errno, fields, becomes) in [
        (Errno::ENOTTY, update_field::ALL, StepEnd::Cleaned),
        (Errno::EINVAL, update_field::COUNTERS, StepEnd::Deferred),
    ] {
        let media = small(true);
        run(move |rt| async move {
            let fs = open(&rt, &media).await;
            let mut load = Load::new(&fs).await;
            load.overwrite(&fs, 64, 1).await;
            load.overwrite(&fs, 64, 1).await;
            let control = Warped::new(&fs, false);
            control.refused.set(Some((errno, fields)));
            let cleaner = LfsCleaner::new(&rt, control.clone(), picky(LateAbort::Segment));
            let CleanerTurn::Made(first) = cleaner.turn().await.unwrap() else { panic!("it is due") };
            assert_eq!(first.end, StepEnd::Deferred);
            load.overwrite(&fs, 4, 1).await;
            let CleanerTurn::Made(second) = cleaner.turn().await.unwrap() else { panic!("it is due") };
            assert_eq!(second.end, becomes, "{second:?}");
            let counters = control.set.borrow().iter().any(|update| update.fields & update_field::COUNTERS != 0);
            assert!(!counters, "counters are not set once they were refused");
            load.assert_whole(&fs).await;
            fs.forget(load.ino, 1);
            fs.close().await.unwrap();
        });
    }
}

/// Item 24: a checkpoint that is younger than the period stays, whatever the cleaner does; older ones go.
#[test]
fn the_protection_period_keeps_young_checkpoints_mountable() {
    let media = small(true);
    run(move |rt| async move {
        let fs = open(&rt, &media).await;
        let mut load = Load::new(&fs).await;
        for _ in 0..30 {
            load.overwrite(&fs, 40, BLOCKS / 4).await;
        }
        let protection_period = Nanos::secs(10);
        let config = CleanerConfig { protection_period, ..eager("greedy") };
        let cleaner = LfsCleaner::new(&rt, Rc::new(fs.control()), config);
        assert!(passed(&cleaner).await > 0, "something was cleaned");
        let control = fs.control();
        let totals = control.totals().await.unwrap();
        let left = control.checkpoints(1, Checkpoints::All).await.unwrap();
        let young = left.iter().filter(|info| info.created >= totals.now - 10).count();
        assert!(young >= 10, "{young} young checkpoints");
        let old = left.iter().filter(|info| info.created < MADE + 15).count();
        assert!(old < 14, "{old} old checkpoints are left");
        fs.sync(at(load.seconds), Sync::All).await.unwrap();
        for info in left.iter().filter(|info| info.created >= totals.now - 10) {
            let reader = LfsReader::open(&rt, device(&rt, &media), Some(info.cno)).await.unwrap();
            let entry = reader.lookup(at(9), reader.root(), Name::new(b"file").unwrap()).await.unwrap();
            for number in 0..BLOCKS {
                reader.read(at(9), entry.ino, number * 4096, 4096).await.unwrap();
            }
        }
        load.assert_whole(&fs).await;
        fs.forget(load.ino, 1);
        fs.close().await.unwrap();
        judged(&rt, &media).await;
    });
}

/// Item 24, when a change finds no room: it fails rather than that a protected checkpoint goes.
#[test]
fn the_protection_period_holds_when_room_is_short() {
    let media = small(true);
    run(move |rt| async move {
        let options = LfsConfig { protection_seconds: 1000, ..LfsConfig::usual() };
        let fs = Lfs::open_with(&rt, device(&rt, &media), at(1).now, options).await.unwrap();
        let load = Load::new(&fs).await;
        let kept = fs.control().totals().await.unwrap().cno;
        let overwrite = async |fs: &Lfs, seconds: u64, rounds: u64| {
            for number in (0..rounds).map(|round| round % BLOCKS) {
                let data = esker_block::Buf::from_bytes(&Default::default(), &bytes(number, seconds));
                fs.write(at(seconds), load.ino, esker_vfs::At::Offset(number * 4096), data, Default::default()).await?;
                if number % 64 == 0 {
                    fs.sync(at(seconds), Sync::All).await?;
                }
            }
            Ok::<(), Errno>(())
        };
        assert_eq!(overwrite(&fs, 500, 20 * BLOCKS).await, Err(Errno::ENOSPC));
        let reader = LfsReader::open(&rt, device(&rt, &media), Some(kept)).await.unwrap();
        let entry = reader.lookup(at(9), reader.root(), Name::new(b"file").unwrap()).await.unwrap();
        for number in 0..BLOCKS {
            let read = reader.read(at(9), entry.ino, number * 4096, 4096).await.unwrap().to_vec();
            assert!(read == bytes(number, 0), "block {number} of a protected checkpoint");
        }
        fs.forget(load.ino, 1);
        fs.close().await.unwrap();
        // Time goes by, and the checkpoint with it.
        let fs = Lfs::open_with(&rt, device(&rt, &media), at(2000).now, options).await.unwrap();
        let ino = fs.lookup(at(2000), fs.root(), Name::new(b"file").unwrap()).await.unwrap().ino;
        assert_eq!((ino, overwrite(&fs, 2000, 2 * BLOCKS).await), (load.ino, Ok(())));
        assert!(LfsReader::open(&rt, device(&rt, &media), Some(kept)).await.is_err());
        fs.forget(ino, 1);
        fs.close().await.unwrap();
        judged(&rt, &media).await;
    });
}

/// Items 5 and 25: a snapshot reads the same behind a hundred passes.
#[test]
fn a_snapshot_stays_bit_for_bit_through_many_passes() {
    let media = small(true);
    run(move |rt| async move {
        let fs = open(&rt, &media).await;
        let mut load = Load::new(&fs).await;
        load.overwrite(&fs, 100, BLOCKS).await;
        let kept = load.rounds.clone();
        let number: u64 = fs.ask(&["snapshot".to_string()]).await.unwrap().parse().unwrap();
        let cleaner = LfsCleaner::new(&rt, Rc::new(fs.control()), eager("cost-benefit"));
        let mut victims = 0;
        for _ in 0..100 {
            load.overwrite(&fs, 60, BLOCKS / 2).await;
            if let CleanerTurn::Made(step) = cleaner.turn().await.unwrap() {
                victims += step.victims.len();
            }
        }
        assert!(victims > 60, "{victims} victims");
        let reader = LfsReader::open(&rt, device(&rt, &media), Some(number)).await.unwrap();
        let entry = reader.lookup(at(9), reader.root(), Name::new(b"file").unwrap()).await.unwrap();
        for (number, round) in (0..).zip(&kept) {
            let read = reader.read(at(9), entry.ino, number * 4096, 4096).await.unwrap().to_vec();
            assert!(read == bytes(number, *round), "block {number} of the snapshot");
        }
        load.assert_whole(&fs).await;
        fs.forget(load.ino, 1);
        fs.close().await.unwrap();
    });
}

/// Item 27: no victim is one that recovery needs.
#[test]
fn segments_that_recovery_needs_are_no_victims() {
    let media = small(true);
    run(move |rt| async move {
        let fs = open(&rt, &media).await;
        let mut load = Load::new(&fs).await;
        let control = Warped::new(&fs, true);
        let cleaner = LfsCleaner::new(&rt, control.clone(), eager("greedy"));
        for _ in 0..20 {
            load.overwrite(&fs, 100, BLOCKS / 4).await;
            let totals = control.totals().await.unwrap();
            let all = infos(&*control).await;
            control.orders.borrow_mut().clear();
            let CleanerTurn::Made(_) = cleaner.turn().await.unwrap() else { continue };
            // The cleaner may have moved the limit before it chose.
            let limit = control.totals().await.unwrap().protected_sequence.max(totals.protected_sequence);
            for victim in control.orders.borrow().iter().flat_map(|order| &order.victims) {
                assert!(all[*victim as usize].sequence < limit);
            }
        }
        load.assert_whole(&fs).await;
    });
}

/// Superblocks are written if that lets a much better victim go: here dead segments, where others are full.
#[test]
fn recovery_lets_a_much_better_victim_go() {
    let media = small(true);
    run(move |rt| async move {
        let fs = open(&rt, &media).await;
        let cold = create(&fs, at(1), "cold").await;
        for number in 0..BLOCKS {
            write(&fs, at(1), cold, number, 0).await;
        }
        fs.sync(at(2), Sync::All).await.unwrap();
        fs.control().sync().await.unwrap();
        let hot = create(&fs, at(3), "hot").await;
        for number in 0..BLOCKS {
            write(&fs, at(3), hot, number, 0).await;
        }
        fs.sync(at(4), Sync::All).await.unwrap();
        fs.forget(hot, 1);
        fs.remove(at(5), fs.root(), Name::new(b"hot").unwrap(), Remove::File).await.unwrap();
        fs.sync(at(6), Sync::All).await.unwrap();
        let cleaner = LfsCleaner::new(&rt, Warped::new(&fs, true), eager("greedy"));
        let CleanerTurn::Made(step) = cleaner.turn().await.unwrap() else { panic!("segments are short") };
        assert!(step.end == StepEnd::Cleaned && step.copied < 10, "{step:?}");
    });
}

/// It runs as a task in virtual time, is given another configuration at once, and ends with the file system.
#[test]
fn a_cleaner_that_runs_heeds_a_new_configuration_and_ends_with_its_file_system() {
    let media = small(true);
    run(move |rt| async move {
        let fs = open(&rt, &media).await;
        let mut load = Load::new(&fs).await;
        for _ in 0..6 {
            load.overwrite(&fs, 300, BLOCKS / 4).await;
        }
        let before = fs.control().totals().await.unwrap().clean;
        let never = CleanerConfig { min_clean: Share::Count(0), ..CleanerConfig::usual() };
        let cleaner = Rc::new(LfsCleaner::new(&rt, Rc::new(fs.control()), never));
        let running = rt.spawn("cleaner", {
            let cleaner = cleaner.clone();
            async move { cleaner.run().await }
        });
        rt.sleep(Nanos::secs(100)).await;
        assert_eq!(fs.control().totals().await.unwrap().clean, before, "it has nothing to do");
        let second = LfsCleaner::new(&rt, Rc::new(fs.control()), eager("greedy"));
        assert_eq!(second.run().await, Err(Errno::EBUSY), "one cleaner at a time");
        cleaner.configure(eager("greedy"));
        rt.sleep(Nanos::secs(1)).await;
        assert!(fs.control().totals().await.unwrap().clean > before, "it works by the new configuration at once");
        load.assert_whole(&fs).await;
        fs.forget(load.ino, 1);
        fs.close().await.unwrap();
        assert_eq!(running.await, Ok(()));
        judged(&rt, &media).await;
    });
}

#[test]
fn one_seed_gives_one_digest() {
    esker_rt::sim::twice(SimConfig::seeded(5), |rt: Rt| {
        let media = small(true);
        async move {
            let fs = open(&rt, &media).await;
            let mut load = Load::new(&fs).await;
            let cleaner = Rc::new(LfsCleaner::new(&rt, Rc::new(fs.control()), eager("adaptive")));
            let running = cleaner.clone();
            rt.spawn_detached("cleaner", async move { running.run().await.unwrap() });
            for _ in 0..10 {
                load.overwrite(&fs, 100, BLOCKS / 2).await;
                rt.sleep(Nanos::millis(3)).await;
            }
            fs.forget(load.ino, 1);
            fs.close().await.unwrap();
            crate::check(&rt, device(&rt, &media)).await.unwrap().counted.logs
        }
    });
}

/// Moved blocks in segments of their own, in the order of their age; and counters that nothing keeps.
#[test]
fn every_way_of_writing_keeps_all_bytes() {
    for (moved_apart, age_sort, tracking) in
        [(true, false, true), (false, true, true), (true, true, true), (true, true, false)]
    {
        let media = small(true);
        run(move |rt| async move {
            let options = LfsConfig { moved_apart, age_sort, is_tracking: tracking, ..LfsConfig::usual() };
            let open = async || Lfs::open_with(&rt, device(&rt, &media), at(1).now, options).await.unwrap();
            let fs = open().await;
            let mut load = Load::new(&fs).await;
            let cleaner = LfsCleaner::new(&rt, Rc::new(fs.control()), eager("greedy"));
            for _ in 0..40 {
                load.overwrite(&fs, 100, BLOCKS / 2).await;
                cleaner.turn().await.unwrap();
            }
            load.assert_whole(&fs).await;
            let apart = logs_of_the_cleaner(&rt, &media).await;
            assert_eq!(apart > 0, moved_apart, "{apart} logs of the cleaner");
            // Without an unmount, as behind a crash.
            let again = open().await;
            load.ino = again.lookup(at(9), again.root(), Name::new(b"file").unwrap()).await.unwrap().ino;
            load.assert_whole(&again).await;
            for _ in 0..10 {
                load.overwrite(&again, 500, BLOCKS).await;
            }
            load.assert_whole(&again).await;
            again.forget(load.ino, 1);
            again.close().await.unwrap();
            let found = crate::check(&rt, device(&rt, &media)).await.unwrap();
            assert!(found.findings.is_empty(), "{:#?}", found.findings);
            assert!(!tracking || found.counted.counters_off == 0);
        });
    }
}

/// Logs that hold nothing but moved blocks.
async fn logs_of_the_cleaner(rt: &Rt, media: &Rc<Media>) -> usize {
    let volume = Volume::open(rt, device(rt, media)).await.unwrap();
    let (geometry, mut logs) = (*volume.geometry(), 0);
    for segment in 0..geometry.segments {
        let (mut place, end) = (geometry.segment(segment).start, geometry.segment(segment).end);
        while place < end {
            let Ok(Some(header)) = volume.medium().read_log_header(&geometry, place).await else { break };
            logs += usize::from(header.has(crate::format::summary::flag::CLEANER));
            place += u64::from(header.blocks);
        }
    }
    logs
}

/// What is moved in the order of age lies so in its logs.
#[test]
fn moved_blocks_lie_in_the_order_of_their_age() {
    let ordered = |age_sort| {
        let media = small(true);
        run(move |rt| async move {
            let options = LfsConfig { moved_apart: true, age_sort, ..LfsConfig::usual() };
            let fs = Lfs::open_with(&rt, device(&rt, &media), at(1).now, options).await.unwrap();
            let mut load = Load::new(&fs).await;
            let cleaner = LfsCleaner::new(&rt, Rc::new(fs.control()), eager("greedy"));
            for _ in 0..80 {
                load.overwrite(&fs, 150, BLOCKS).await;
                cleaner.turn().await.unwrap();
            }
            let control = fs.control();
            let mut out_of_order = 0;
            for info in infos(&control).await.iter().filter(|info| info.flags == segment_flag::DIRTY) {
                let header = {
                    let volume = Volume::open(&rt, device(&rt, &media)).await.unwrap();
                    let place = volume.geometry().segment(info.segment).start;
                    volume.medium().read_log_header(volume.geometry(), place).await.unwrap().unwrap()
                };
                if !header.has(crate::format::summary::flag::CLEANER) {
                    continue;
                }
                let blocks = control.logs(info.segment).await.unwrap().blocks;
                let first = blocks.iter().take_while(|block| block.place < u64::from(header.blocks) + blocks[0].place);
                let ages: Vec<u64> = first.map(|block| block.cno.wrapping_sub(1)).collect();
                out_of_order += ages.windows(2).filter(|pair| pair[0] > pair[1]).count();
            }
            out_of_order
        })
    };
    let (sorted, unsorted) = (ordered(true), ordered(false));
    assert!(sorted * 4 < unsorted, "{sorted} steps back in logs that are sorted, {unsorted} in others");
}

/// Options of a mount: what they do not take is refused, and a named cleaner begins.
#[test]
fn a_mount_begins_the_cleaner_that_its_options_name() {
    let media = small(true);
    run(move |rt| async move {
        let pool = esker_rt::mem::Pool::default();
        let opened = async |options: &[(&str, &str)]| {
            let options: Vec<_> = options.iter().map(|(word, value)| (word.to_string(), value.to_string())).collect();
            let (device, now) = (Some(device(&rt, &media) as Rc<dyn esker_block::Device>), at(1).now);
            let (rt, pool, options) = (&rt, &pool, &options[..]);
            let opening = esker_vfs::Opening { rt, pool, options, owner: (0, 0), now, memory: 0, device };
            crate::kind::open(&opening).await
        };
        for (word, value, wanted) in [
            ("cleaner", "best", "off or timestamp or greedy"),
            ("moved", "x", "apart or together"),
            ("age_sort", "", "on or off"),
            ("tracking", "1", "on or off"),
            ("protection", "long", "seconds"),
            ("protection", "1 2", "seconds"),
        ] {
            let error = opened(&[(word, value)]).await.err().expect("it is refused").to_string();
            assert!(error.starts_with(&format!("-o {word}={value}: write {wanted}")), "{error}");
        }
        for (options, claimed) in [
            (
                &[("cleaner", "greedy"), ("protection", "5"), ("moved", "apart"), ("age_sort", "on")][..],
                "{\"errno\":16}",
            ),
            (&[("cleaner", "off")], "{\"ok\":null}"),
            // A cleaner that looks at the clock would hide that a replay stands still.
            (&[], "{\"ok\":null}"),
        ] {
            let fs = opened(options).await.unwrap();
            rt.sleep(Nanos::secs(1)).await;
            let ask = async |words: &[&str]| fs.ask(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).await;
            let number = ask(&["control"]).await.unwrap();
            assert_eq!(ask(&["control", &number, "\"claim\""]).await.unwrap(), claimed, "{options:?}");
            fs.close().await.unwrap();
        }
        judged(&rt, &media).await;
    });
}
