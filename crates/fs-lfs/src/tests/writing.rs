//! The writer: what it writes is read back, by itself, by the reader and by the checker.

use std::ops::Range;
use std::rc::Rc;

use esker_base::units::{KIB, MIB};
use esker_base::{ByteRange, Stream};
use esker_dev::Media;
use esker_fs_posix::bytes::Whence;
use esker_fs_posix::script::{Player, Random, ScriptOp};
use esker_testkit::files::breach::{actor, differences, tree};
use esker_testkit::files::listing;
use esker_vfs::{Call, FileSystem, Ram, RamConfig, Stamp, tree_digest};

use super::{MADE, config, device, made, run};
use crate::format::LogHeader;
use crate::sums::Summed;
use crate::{Lfs, LfsReader, MkfsConfig, check};

pub(super) fn now() -> Stamp {
    Stamp(MADE as i64 * 1_000_000_000)
}

/// A file system of ours on a medium.
pub(super) async fn opened(rt: &esker_rt::Rt, media: &Rc<Media>) -> Lfs {
    Lfs::open(rt, device(rt, media), now()).await.unwrap_or_else(|error| panic!("{error}"))
}

/// What the checker says of a medium, and the tree that the reader shows.
pub(super) async fn judged(rt: &esker_rt::Rt, media: &Rc<Media>) -> Vec<String> {
    let found = check(rt, device(rt, media)).await.unwrap();
    assert!(found.findings.is_empty(), "{:#?}", found.findings);
    assert_eq!(found.counted.counters_off, 0, "counters of live blocks are what a count gives");
    let reader = LfsReader::open(rt, device(rt, media), None).await.unwrap();
    listing::rows(&reader, Call::at(now())).await.unwrap()
}

const STORY: &str = "mkdir A 0755\nopen #0 A/foo rdwr,creat 0644\nwrite #0 100000 x1\nsymlink A/foo link\n\
                     mknod pipe fifo 0600 0\nlink A/foo B\nopen #1 bar rdwr,creat 0600\nwrite #1 10 x2 @5000000\n\
                     close #0\nclose #1\nsync all\nrename A/foo A/other replace\ntruncate bar 4999999\nunlink B\n";

#[test]
fn a_small_tree_is_read_back() {
    for (block_bytes, live_counters) in [(4096, false), (1024, false), (2048, true), (4096, true)] {
        let media = made(16 * MIB, MkfsConfig { live_counters, ..config(block_bytes) }).unwrap();
        run(move |rt| async move {
            let fs: Rc<dyn FileSystem> = Rc::new(opened(&rt, &media).await);
            let mut player = actor(fs.clone());
            for op in ScriptOp::script(STORY).unwrap() {
                let outcome = player.call(&op).await.to_string();
                assert!(outcome == "ok" || outcome.parse::<u64>().is_ok(), "{op}: {outcome}");
            }
            let rows = listing::rows(&*fs, Call::at(now())).await.unwrap();
            fs.close().await.unwrap();
            assert_eq!(judged(&rt, &media).await, rows, "blocks of {block_bytes} bytes");
            let again = opened(&rt, &media).await;
            assert_eq!(listing::rows(&again, Call::at(now())).await.unwrap(), rows);
        });
    }
}

#[test]
fn an_inode_without_a_name_is_deleted_behind_a_crash() {
    let media = made(16 * MIB, config(4096)).unwrap();
    run(move |rt| async move {
        let fs: Rc<dyn FileSystem> = Rc::new(opened(&rt, &media).await);
        let mut player = actor(fs);
        let script =
            "open #0 gone rdwr,creat 0644\nwrite #0 100000 x1\nunlink gone\nopen #1 stays rdwr,creat 0644\nsync all\n";
        for op in ScriptOp::script(script).unwrap() {
            player.call(&op).await;
        }
        // The first one is not closed: a crash.
        let again = opened(&rt, &media).await;
        let inodes = again.space(Call::at(now())).await.unwrap();
        assert_eq!(inodes.inodes - inodes.inodes_free, 2, "the root and the file with a name");
        again.close().await.unwrap();
        judged(&rt, &media).await;
        drop(player);
    });
}

#[test]
fn synced_bytes_take_a_log_of_data_and_no_checkpoint() {
    let size = 16 * MIB;
    let media = made(size, MkfsConfig { live_counters: true, ..config(4096) }).unwrap();
    run(move |rt| async move {
        let fs: Rc<dyn FileSystem> = Rc::new(opened(&rt, &media).await);
        let mut player = actor(fs.clone());
        let checkpoint = |fs: &dyn FileSystem| fs.stats().iter().find(|stat| stat.name == "checkpoint").unwrap().value;
        let mut play = async |script: &str| {
            for op in ScriptOp::script(script).unwrap() {
                player.call(&op).await;
            }
        };
        play("open #0 a rdwr,creat 0644\nwrite #0 2000000 x1\nopen #1 b rdwr,creat 0644\nsync data #0\n").await;
        let first = checkpoint(&*fs);
        play("write #0 100000 x2 @5000\nsync data #0\nsync data #0\nwrite #0 900000 x3 @800000\nsync data #0\n").await;
        assert_eq!(checkpoint(&*fs), first, "nothing but bytes of one file changed");
        let whole = media.bytes(ByteRange::new(0, size).unwrap());
        let rows = listing::rows(&*fs, Call::at(now())).await.unwrap();
        let behind_a_crash = async |image: &[u8]| {
            let media = super::media(image);
            opened(&rt, &media).await.close().await.unwrap();
            judged(&rt, &media).await
        };
        assert_eq!(behind_a_crash(&whole).await, rows);
        play("write #0 10 x4 @0\nwrite #1 10 x5 @0\nsync data #1\n").await;
        assert_eq!(checkpoint(&*fs), first + 1.0, "bytes of two files changed, and one grew");
        play("write #0 10 x6 @0\nchmod b 0600\nsync data #0\n").await;
        assert_eq!(checkpoint(&*fs), first + 2.0, "more than bytes changed before");
        play("write #0 10 x7 @0\nsync file #0\n").await;
        assert_eq!(checkpoint(&*fs), first + 3.0, "times are durable too");
        fs.close().await.unwrap();
        judged(&rt, &media).await;
    });
}

#[test]
fn a_checkpoint_of_several_logs_counts_only_if_all_are_there() {
    let size = 3 * MIB;
    let media = made(size, MkfsConfig { segment_bytes: Some(32 * KIB), ..config(1024) }).unwrap();
    run(move |rt| async move {
        let fs: Rc<dyn FileSystem> = Rc::new(opened(&rt, &media).await);
        let mut player = actor(fs.clone());
        let mut states = Vec::new();
        for script in ["open #0 a rdwr,creat 0644\nwrite #0 5000 x1\nsync all\n", "write #0 100000 x2\nsync all\n"] {
            for op in ScriptOp::script(script).unwrap() {
                player.call(&op).await;
            }
            states.push(listing::rows(&*fs, Call::at(now())).await.unwrap());
        }
        let image = media.bytes(ByteRange::new(0, size).unwrap());
        let shown = async |image: &[u8]| {
            let reader = LfsReader::open(&rt, device(&rt, &super::media(image)), None).await.unwrap();
            listing::rows(&reader, Call::at(now())).await.unwrap()
        };
        assert_eq!(shown(&image).await, states[1]);
        let header = |log: &Range<usize>| LogHeader::read(&image[log.start..]).unwrap();
        let logs = Summed::of(&image).unwrap().logs().to_vec();
        let last = logs.iter().map(|log| header(log).cno).max().unwrap();
        let last: Vec<_> = logs.iter().filter(|log| header(log).cno == last).collect();
        assert!(last.len() > 2, "the checkpoint has several logs");
        for log in last {
            let mut cut = image.clone();
            cut[log.start..log.start + 512].fill(0);
            assert_eq!(shown(&cut).await, states[0], "without the log at byte {}", log.start);
        }
    });
}

/// Random calls on the file system and on the oracle, with checkpoints, restarts and checks in between.
fn conforms(seed: u64, calls: usize, block_bytes: u32) {
    let media = made(
        24 * MIB,
        MkfsConfig { live_counters: seed.is_multiple_of(2), segment_bytes: Some(512 * KIB), ..config(block_bytes) },
    );
    let media = media.unwrap();
    run(move |rt| async move {
        let ram =
            Ram::new(RamConfig { links_max: crate::read::LINKS_MAX, ..RamConfig::sized(64 << 20) }, Default::default());
        let (mut script, mut rng) = (Random::new(seed), Stream::named(seed, "restarts"));
        let mut rest = calls;
        while rest > 0 {
            let fs: Rc<dyn FileSystem> = Rc::new(opened(&rt, &media).await);
            let (mut ours, mut theirs) = (actor(fs.clone()), actor(Rc::new(ram.clone())));
            let part = (1 + rng.below(300) as usize).min(rest);
            rest -= part;
            let can = fs.about().can;
            for op in (&mut script).filter(|op| op.is_possible(&can) && !is_about_holes(op)).take(part) {
                let (found, wanted) = (ours.call(&op).await.to_string(), theirs.call(&op).await.to_string());
                // Directories have other sizes.
                let is_size = matches!(op, ScriptOp::Seek(_, Whence::End, _));
                assert!(
                    is_size || told(&found) == told(&wanted),
                    "seed {seed}, {rest} calls before the end: {op} answers {found}, and should {wanted}"
                );
            }
            drop((ours, theirs));
            let call = Call::at(now());
            let (found, wanted) = (tree_digest(&*fs, call).await, ram.digest());
            if found != wanted {
                let [found, mut wanted] = [tree(fs.clone()).await, tree(Rc::new(ram.fork())).await];
                wanted.values_mut().for_each(|facts| *facts = facts.replace(" 0 names;", " EOPNOTSUPP;"));
                panic!("seed {seed}, {rest} calls before the end: {:#?}", differences(&found, &wanted));
            }
            fs.close().await.unwrap();
            judged(&rt, &media).await;
        }
    });
}

/// A copy of a hole is a hole for the oracle, and zeroes here.
fn is_about_holes(op: &ScriptOp) -> bool {
    matches!(op, ScriptOp::Seek(_, Whence::Data | Whence::Hole, _))
}

/// Without the time of the last access, which the format does not hold.
fn told(outcome: &str) -> String {
    let words = outcome.split(' ').filter(|word| !word.starts_with("accessed="));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn random_calls_are_answered_as_by_the_oracle() {
    for seed in 0..12 {
        conforms(seed, 1500, [4096, 1024, 2048][seed as usize % 3]);
    }
}
