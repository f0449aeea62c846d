//! An image that was never unmounted: its superblock is old, and two logs of synced data lie behind the latest
//! checkpoint.

use super::{device, kernel_cut, media, rows, run};
use crate::check::Gravity;
use crate::format::summary::flag;
use crate::format::{LogHeader, superblock};
use crate::sums::Summed;
use crate::{Volume, check};

#[test]
fn the_walk_finds_the_latest_checkpoint_and_the_data_behind_it() {
    let golden = kernel_cut();
    let expected = golden.rows("latest");
    run(|rt| async move {
        let media = media(&golden.image);
        let volume = Volume::open(&rt, device(&rt, &media)).await.unwrap();
        let latest = volume.latest();
        assert_eq!(volume.superblock().state & superblock::state::VALID, 0);
        let known = volume.chosen().copies.map(|copy| copy.unwrap().last_cno);
        assert_eq!((known, volume.superblock().last_cno, latest.cno), ([10, 12], 12, 13), "both superblocks are older");
        let synced: Vec<_> = latest.synced.iter().map(|synced| (synced.place, synced.logs)).collect();
        assert_eq!(synced, [(371, 1), (377, 1)]);
        assert_eq!(rows(&rt, &media, None).await.unwrap(), expected);
        let found = check(&rt, device(&rt, &media)).await.unwrap();
        let told: Vec<_> = found.findings.iter().map(|finding| (finding.gravity, finding.at.as_str())).collect();
        assert_eq!(told, [(Gravity::Note, "block 371"), (Gravity::Note, "block 377")]);
    });
}

#[test]
fn a_torn_log_ends_the_walk_before_it() {
    let mut image = kernel_cut().image;
    let summed = Summed::of(&image).unwrap();
    // Both superblocks know the older checkpoint.
    let [first, second] = [0, 1].map(|copy| summed.superblocks()[copy].clone());
    image.copy_within(first, second.start);
    let mut logs: Vec<_> =
        summed.logs().iter().map(|log| (LogHeader::read(&image[log.start..]).unwrap(), log)).collect();
    logs.sort_by_key(|(header, log)| (header.sequence, log.start));
    let first = logs.iter().position(|(header, _)| header.cno == 10 && header.has(flag::SUPER_ROOT)).unwrap();
    assert!(logs.len() - first > 5);
    for torn in first + 1..=logs.len() {
        let before = logs[..torn].iter().rev().find(|(header, _)| header.has(flag::SUPER_ROOT)).unwrap();
        let (expected, mut wrong) = (before.0.cno, image.clone());
        // Of the first log that was not written whole a block is missing, and nothing is there of those behind it.
        for (number, (_, log)) in logs[torn..].iter().enumerate() {
            let keep = if number == 0 { log.end - 1024 } else { log.start };
            wrong[keep..log.end].fill(0);
        }
        run(move |rt| async move {
            let media = media(&wrong);
            let volume = Volume::open(&rt, device(&rt, &media)).await.unwrap();
            assert_eq!(volume.latest().cno, expected);
            let found = check(&rt, device(&rt, &media)).await.unwrap();
            assert!(found.is_clean(), "{:?}", found.findings);
        });
    }
}
