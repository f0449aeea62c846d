//! Crashes: each state that a power cut can leave shows a state behind some prefix of the calls.

use std::rc::Rc;

use esker_base::Stream;
use esker_base::units::{KIB, MIB};
use esker_block::step::LocalFuture;
use esker_block::{Device, OpKind};
use esker_fs_posix::script::{Bounded, Durable, Held, ScriptOp};
use esker_rt::Rt;
use esker_testkit::SoakLength;
use esker_testkit::files::subject::Opened;
use esker_testkit::files::suite::CASES;
use esker_testkit::files::{Reach, Searched, Stage, Subject};
use esker_vfs::{Abilities, FileSystem, Promise, RamConfig, Stamp};

use super::cleaner::{Warped, eager};
use super::{MADE, config};
use crate::cleaner::LfsCleaner;
use crate::read::{LINKS_MAX, abilities};
use crate::{Lfs, LfsConfig, MkfsConfig};

/// The file system on small devices.
struct LfsSubject {
    block_bytes: u32,
    size: u64,
    segment_bytes: u64,
    /// How a cleaner that always works has its blocks written, if there is one.
    cleaning: Option<LfsConfig>,
}

const NOW: Stamp = Stamp(MADE as i64 * 1_000_000_000);

impl Subject for LfsSubject {
    fn name(&self) -> String {
        format!("lfs with blocks of {} bytes", self.block_bytes)
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn limits(&self) -> RamConfig {
        RamConfig { links_max: LINKS_MAX, ..RamConfig::sized(64 * MIB) }
    }

    fn promise(&self) -> Promise {
        Promise::Prefix
    }

    /// Data have no sums of their own: those of logs are read in recovery alone.
    fn has_sums(&self) -> bool {
        false
    }

    fn can(&self) -> Abilities {
        abilities()
    }

    fn make(&self, rt: Rt, device: Rc<dyn Device>) -> LocalFuture<Result<(), String>> {
        let config =
            MkfsConfig { live_counters: true, segment_bytes: Some(self.segment_bytes), ..config(self.block_bytes) };
        Box::pin(async move { crate::mkfs(&rt, device, &config).await.map(drop).map_err(|error| error.to_string()) })
    }

    fn open(&self, rt: Rt, device: Rc<dyn Device>) -> Opened {
        let cleaning = self.cleaning;
        Box::pin(async move {
            let opened = Lfs::open_with(&rt, device, NOW, cleaning.unwrap_or(LfsConfig::usual())).await;
            if let (Ok(fs), Some(_)) = (&opened, cleaning) {
                let cleaner = LfsCleaner::new(&rt, Warped::new(fs, true), eager("greedy"));
                rt.clone().spawn_detached("cleaner", clean_for_a_while(rt, cleaner));
            }
            opened.map(|fs| Rc::new(fs) as Rc<dyn FileSystem>).map_err(|error| error.to_string())
        })
    }
}

/// Makes some steps between the calls of a script.
async fn clean_for_a_while(rt: Rt, cleaner: LfsCleaner) {
    for _ in 0..60 {
        if cleaner.turn().await.is_err() {
            return;
        }
        rt.yield_now().await;
    }
}

fn stage(block_bytes: u32) -> Stage {
    stage_with(block_bytes, None)
}

fn stage_with(block_bytes: u32, cleaning: Option<LfsConfig>) -> Stage {
    let subject = LfsSubject { block_bytes, size: 8 * MIB, segment_bytes: 128 * KIB, cleaning };
    Stage::new(Rc::new(subject), &Bounded::before()).unwrap_or_else(|breach| panic!("{breach}"))
}

#[test]
fn a_crash_leaves_the_state_behind_some_prefix_of_the_calls() {
    for (block_bytes, scripts_max) in [(4096, 120), (1024, 40)] {
        let (stage, reach) = (stage(block_bytes), Reach::quick(3));
        let mut searched = Searched::default();
        for (name, text) in CASES {
            let script = ScriptOp::script(text).unwrap();
            searched.add(stage.search(&script, reach).unwrap_or_else(|breach| panic!("{name}: {breach}")));
        }
        searched.add(stage.search_bounded(1, scripts_max, reach).unwrap_or_else(|breach| panic!("{breach}")));
        println!("{searched:?}");
        assert!(searched.states > 2000 && searched.used > 50, "{searched:?}");
    }
}

/// Half of the states with blocks of 4 KiB, a quarter with blocks of 1 KiB, and a quarter beside a cleaner.
#[test]
#[ignore = "a million states: cargo xtask soak lfs-crash"]
fn no_crash_loses_anything_for_a_long_time() {
    let SoakLength { times: states, seed } = SoakLength::told(1_000_000);
    let apart = LfsConfig { moved_apart: true, age_sort: true, ..LfsConfig::usual() };
    for (block_bytes, cleaning, part) in [(4096, None, 2), (1024, None, 4), (4096, Some(apart), 4)] {
        let (stage, reach) = (stage_with(block_bytes, cleaning), Reach { used_every: 16, ..Reach::long(seed) });
        let say = |searched: &Searched| println!("{block_bytes}, cleaner: {}: {searched:?}", cleaning.is_some());
        let searched = stage.search_long(states / part, reach, say).unwrap_or_else(|breach| panic!("{breach}"));
        assert!(searched.states >= states / part);
    }
}

/// A small device with a file of 1.5 MiB, and a script that overwrites it and syncs.
fn overwriting(cleaning: Option<LfsConfig>, rounds: u64) -> (Stage, Vec<ScriptOp>) {
    let subject = LfsSubject { block_bytes: 1024, size: 3 * MIB, segment_bytes: 32 * KIB, cleaning };
    let mut before = ScriptOp::script("open #0 full rdwr,creat 0644\n").unwrap();
    before.extend((0..24).map(|part| ScriptOp::Write(Held(0), 65_536, part, None)));
    before.extend(ScriptOp::script("close #0\nsync all\n").unwrap());
    let stage = Stage::new(Rc::new(subject), &before).unwrap_or_else(|breach| panic!("{breach}"));
    let mut script = ScriptOp::script("open #0 full rdwr 0\n").unwrap();
    let mut rng = Stream::named(1, "overwrites");
    for round in 0..rounds {
        script.push(ScriptOp::Write(Held(0), 40_000, 100 + round, Some(rng.below(1_500_000) as i64)));
        script.push(ScriptOp::Sync(Durable::All));
    }
    (stage, script)
}

/// Overwrites most of a file on a small device. Answers the states that were tried.
fn overwritten(cleaning: Option<LfsConfig>, rounds: u64) -> Searched {
    let (stage, script) = overwriting(cleaning, rounds);
    let reach = Reach { states_max: 3, used_every: 24, seed: 4 };
    let searched = stage.search(&script, reach).unwrap_or_else(|breach| panic!("{breach}"));
    println!("{searched:?}");
    searched
}

#[test]
fn a_power_cut_behind_a_killed_process_loses_nothing() {
    let reach = Reach { states_max: 6, used_every: 1, seed: 8 };
    let (stage, script) = overwriting(None, 12);
    let mut searched = stage.search_killed(&script, 24, reach).unwrap_or_else(|breach| panic!("{breach}"));
    let (stage, reach) = (self::stage(4096), Reach { seed: 9, ..reach });
    for (name, text) in CASES {
        let script = ScriptOp::script(text).unwrap();
        searched.add(stage.search_killed(&script, 2, reach).unwrap_or_else(|breach| panic!("{name}: {breach}")));
    }
    println!("{searched:?}");
    assert!(searched.states > 1000, "{searched:?}");
}

#[test]
fn a_crash_while_segments_are_cleaned_loses_nothing() {
    assert!(overwritten(None, 24).states > 500);
}

/// Item 11: a cleaner in the background, which dies with the file system at any write.
#[test]
fn a_crash_while_a_cleaner_works_loses_nothing() {
    for (moved_apart, age_sort) in [(false, false), (true, true)] {
        let options = LfsConfig { moved_apart, age_sort, ..LfsConfig::usual() };
        let (alone, cleaned) = (overwritten(None, 12).states, overwritten(Some(options), 12).states);
        assert!(cleaned > alone + 100, "{cleaned} states with a cleaner, {alone} without");
    }
}

#[test]
fn a_crash_behind_logs_of_data_alone_loses_no_synced_byte() {
    let mut rng = Stream::named(7, "synced bytes");
    let mut searched = Searched::default();
    for block_bytes in [4096, 1024] {
        let subject: Rc<dyn Subject> =
            Rc::new(LfsSubject { block_bytes, size: 8 * MIB, segment_bytes: 128 * KIB, cleaning: None });
        let mut before = ScriptOp::script("open #0 a rdwr,creat 0644\nopen #1 b rdwr,creat 0644\n").unwrap();
        before.extend([0, 1].map(|file| ScriptOp::Write(Held(file), 150_000, 1, None)));
        before.extend(ScriptOp::script("close #0\nclose #1\nsync all\n").unwrap());
        let stage = Stage::new(subject, &before).unwrap_or_else(|breach| panic!("{breach}"));
        let mut script = ScriptOp::script("open #0 a rdwr 0\nopen #1 b rdwr 0\n").unwrap();
        for round in 0..40 {
            let (file, bytes) = (Held(rng.below(2) as u8), 1 + rng.below(50_000));
            let at = if rng.chance(0.9) { rng.below(100_000) } else { 150_000 + rng.below(50_000) };
            script.push(ScriptOp::Write(file, bytes as u32, 10 + round, Some(at as i64)));
            match rng.below(5) {
                0..3 => script.push(ScriptOp::Sync(Durable::Data(file))),
                3 => script.push(ScriptOp::Sync(Durable::File(file))),
                _ => {}
            }
        }
        let reach = Reach { states_max: 8, used_every: 16, seed: 5 };
        searched.add(stage.search(&script, reach).unwrap_or_else(|breach| panic!("{breach}")));
    }
    println!("{searched:?}");
    assert!(searched.states > 300, "{searched:?}");
}

#[test]
fn a_failed_request_is_told_and_no_sync_seems_to_succeed_behind_it() {
    let stage = stage(4096);
    let script = ScriptOp::script(CASES[0].1).unwrap();
    // A failed read fails one call, and what is in memory stays whole.
    // The last write of a checkpoint is its flush too.
    for (kind, least) in [(OpKind::Write, 4), (OpKind::Flush, 2)] {
        let runs = stage.strike(&script, Some(kind)).unwrap_or_else(|breach| panic!("{breach}"));
        assert!(runs >= least, "{runs} runs had a fault of {kind:?}");
    }
}

#[test]
fn a_listing_gives_what_stays_exactly_once() {
    stage(1024).list_under_change(5).unwrap_or_else(|breach| panic!("{breach}"));
}

#[test]
fn what_is_closed_is_whole() {
    stage(4096).close().unwrap_or_else(|breach| panic!("{breach}"));
}
