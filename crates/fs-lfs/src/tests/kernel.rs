//! What Debian's kernel wrote is read as the kernel reads it.

use esker_testkit::files::listing::columns;

use super::{Golden, device, kernel_1k, kernel_4k, media, rows, run, small};
use crate::dump::{Show, dump};
use crate::{Volume, check};

fn check_golden(golden: &Golden) {
    let media = media(&golden.image);
    let (latest, snapshot) = (golden.rows("latest"), golden.rows("snapshot"));
    let (segments, checkpoints) = (told(golden, "LSSU", "LSCP", 5), told(golden, "LSCP", "OVER", 7));
    run(|rt| async move {
        let found = check(&rt, device(&rt, &media)).await.unwrap();
        let findings: Vec<_> = found.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
        assert_eq!(found.counted.snapshots, 1);
        assert!(found.counted.logs > 1 && found.counted.inodes > 10 && found.counted.blocks > 40, "{found:?}");
        let volume = Volume::open(&rt, device(&rt, &media)).await.unwrap();
        let all = volume.checkpoints().await.unwrap();
        let pinned = all.iter().find(|entry| entry.is_snapshot()).unwrap().head.cno;
        assert_eq!(rows(&rt, &media, None).await.unwrap(), latest);
        assert_eq!(rows(&rt, &media, Some(pinned)).await.unwrap(), snapshot);
        assert_eq!(columns(&dump(&volume, Show::Segments).await.unwrap(), 5), segments);
        assert_eq!(columns(&dump(&volume, Show::Checkpoints).await.unwrap(), 7), checkpoints);
    });
}

/// The same of what a tool of the kernel told. It also lists clean segments, which have no flag.
fn told(golden: &Golden, from: &str, to: &str, count: usize) -> Vec<Vec<String>> {
    let rows = golden.told.table(from, to, count).into_iter();
    rows.filter(|row| !row[3].starts_with("---")).map(|row| row.into_iter().map(plain).collect()).collect()
}

/// That the writer uses a segment lies in the kernel's memory, and is not told.
fn plain(word: String) -> String {
    match word.as_bytes() {
        [b'a' | b'-', b'd' | b'-', b'e' | b'-'] => format!("-{}", &word[1..]),
        _ => word,
    }
}

#[test]
fn a_small_image_of_the_kernel() {
    check_golden(&small());
}

#[test]
fn an_image_with_blocks_of_1_kib_and_deep_trees() {
    check_golden(&kernel_1k());
}

#[test]
fn an_image_with_blocks_of_4_kib() {
    check_golden(&kernel_4k());
}

#[test]
fn every_block_of_every_log_is_told() {
    let media = media(&small().image);
    run(|rt| async move {
        let volume = Volume::open(&rt, device(&rt, &media)).await.unwrap();
        for segment in 0..volume.geometry().segments {
            let usage = volume.usage(segment).await.unwrap();
            let text = dump(&volume, Show::Logs(segment)).await.unwrap();
            let (mut expected, mut next) = (0, volume.geometry().segment(segment).start);
            for line in text.lines().filter(|line| line.starts_with("log at block ")) {
                let number = |word: usize| {
                    line.split([' ', ':']).filter(|word| !word.is_empty()).nth(word).unwrap().parse::<u64>().unwrap()
                };
                assert_eq!(number(3), next, "logs lie one behind the other: {line}");
                next += number(4);
                expected += number(4);
            }
            assert!(next <= volume.geometry().segment(segment).end, "no log crosses the end of segment {segment}");
            assert!(expected >= u64::from(usage.head.blocks), "segment {segment}: {text}");
        }
    });
}

#[test]
fn an_inode_is_shown_with_its_tree() {
    let media = media(&small().image);
    run(|rt| async move {
        let volume = Volume::open(&rt, device(&rt, &media)).await.unwrap();
        let root = dump(&volume, Show::Inode(None, 2)).await.unwrap();
        assert!(root.contains("mode 40755") && root.contains("level 0 block 0: virtual"), "{root}");
        let none = dump(&volume, Show::Inode(None, 999)).await.unwrap();
        assert!(none.contains("is not in use"), "{none}");
        let all = dump(&volume, Show::Superblocks).await.unwrap();
        assert!(all.contains("label \"small\"") && all.contains("latest checkpoint"), "{all}");
    });
}
