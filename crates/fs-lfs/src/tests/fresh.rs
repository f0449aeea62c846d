//! File systems that are empty: ours, and that of `mkfs.nilfs2`.

use esker_base::ByteRange;
use esker_base::units::{KIB, MIB};

use super::{MADE, config, device, made, media, rows, run};
use crate::format::superblock::COMPAT_LIVE_COUNTERS;
use crate::{MkfsConfig, Volume, check};

fn check_empty(size: u64, config: MkfsConfig) {
    let media = made(size, config.clone()).unwrap();
    run(|rt| async move {
        let found = check(&rt, device(&rt, &media)).await.unwrap();
        assert!(found.findings.is_empty(), "{:?}", found.findings);
        assert_eq!((found.counted.checkpoints, found.counted.logs, found.counted.inodes), (1, 1, 1));
        let (uid, gid) = config.owner;
        let root = format!(".|41ed|{uid}|{gid}|2|{}|0:0|{MADE}|-", config.block_bytes);
        assert_eq!(rows(&rt, &media, None).await.unwrap(), [root]);
        let volume = Volume::open(&rt, device(&rt, &media)).await.unwrap();
        let usage = volume.usage(0).await.unwrap();
        assert_eq!(usage.live.map(|live| live.live + 2), config.live_counters.then_some(usage.head.blocks));
        let superblock = volume.superblock();
        assert_eq!(superblock.usage_bytes, if config.live_counters { 32 } else { 16 });
        assert_eq!(superblock.compat & COMPAT_LIVE_COUNTERS != 0, config.live_counters);
    });
}

#[test]
fn an_empty_file_system_is_clean() {
    for block_bytes in [1024, 2048, 4096] {
        for size in [3 * MIB, 40 * MIB + 512, 300 * MIB, 40_000 * MIB] {
            check_empty(size, config(block_bytes));
        }
    }
}

#[test]
fn segments_may_have_counters_of_live_blocks() {
    check_empty(64 * MIB, MkfsConfig { live_counters: true, ..config(4096) });
    check_empty(64 * MIB, MkfsConfig { live_counters: true, ..config(1024) });
}

#[test]
fn the_root_belongs_to_the_owner() {
    check_empty(64 * MIB, MkfsConfig { owner: (1000, 100), ..config(4096) });
}

#[test]
fn the_same_words_make_the_same_bytes() {
    let bytes = |media: std::rc::Rc<esker_dev::Media>| media.bytes(ByteRange::new(0, 64 * KIB).unwrap());
    let [one, two] = [(); 2].map(|()| bytes(made(64 * MIB, config(4096)).unwrap()));
    assert_eq!(one, two);
    let other = bytes(made(64 * MIB, MkfsConfig { uuid: Some(7), ..config(4096) }).unwrap());
    assert_ne!(one, other);
}

#[test]
fn a_new_file_system_hides_an_old_one() {
    let media = made(64 * MIB, config(4096)).unwrap();
    run(|rt| async move {
        let again = MkfsConfig { uuid: Some(7), segment_bytes: Some(MIB), ..config(1024) };
        crate::mkfs(&rt, device(&rt, &media), &again).await.unwrap();
        let found = check(&rt, device(&rt, &media)).await.unwrap();
        assert!(found.findings.is_empty(), "{:?}", found.findings);
    });
}

#[test]
fn what_cannot_be_made_is_told() {
    let refused = |size, config| made(size, config).map(drop).unwrap_err().to_string();
    assert!(refused(64 * MIB, config(8192)).contains("1024, 2048 or 4096"));
    assert!(refused(MIB, config(4096)).contains("room for"));
    assert!(refused(4 * KIB, config(1024)).contains("room for 0 segments"));
    let words = |change: &dyn Fn(&mut MkfsConfig)| {
        let mut config = config(4096);
        change(&mut config);
        refused(64 * MIB, config)
    };
    assert!(words(&|config| config.label = "x".repeat(80)).contains("label"));
    assert!(words(&|config| config.segment_bytes = Some(5000)).contains("segments of 5000"));
    assert!(words(&|config| config.segment_bytes = Some(8 * MIB)).contains("16 are needed"));
    assert!(words(&|config| config.reserved_percent = 51).contains("51 %"));
}

#[test]
fn what_mkfs_nilfs2_makes_is_clean() {
    let image = zstd::decode_all(&include_bytes!("../../golden/mkfs-1k.img.zst")[..]).unwrap();
    let media = media(&image);
    run(|rt| async move {
        let found = check(&rt, device(&rt, &media)).await.unwrap();
        assert!(found.findings.is_empty(), "{:?}", found.findings);
        let rows = rows(&rt, &media, None).await.unwrap();
        assert!(rows.len() == 2 && rows[0].starts_with("./.nilfs|81a4|0|0|1|0|"), "{rows:?}");
    });
}
