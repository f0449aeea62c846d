//! Damaged images: noticed, or harmless.

use std::rc::Rc;

use esker_base::Stream;
use esker_base::units::MIB;
use esker_dev::Media;
use esker_rt::Rt;

use super::{config, device, made, media, rows, run, small};
use crate::format::superblock::{FIRST_OFFSET, second_offset};
use crate::format::{LfsSuperblock, SuperblockFault};
use crate::medium::SuperblockCopy;
use crate::sums::Summed;
use crate::{LfsError, Volume, check};

/// Opens and looks at everything. Whether damage was noticed, and all that could be read.
async fn judge(rt: &Rt, media: &Rc<Media>) -> (bool, Vec<String>) {
    let mut seen = Vec::new();
    let clean = match check(rt, device(rt, media)).await {
        Ok(found) => found.is_clean(),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return (true, seen);
        }
    };
    let volume = Volume::open(rt, device(rt, media)).await.expect("it was just opened");
    let snapshots = volume.checkpoints().await.unwrap_or_default();
    let numbers = snapshots.iter().filter(|entry| entry.is_snapshot()).map(|entry| Some(entry.head.cno));
    for cno in [None].into_iter().chain(numbers) {
        seen.extend(rows(rt, media, cno).await.unwrap_or_else(|why| vec![why]));
    }
    (!clean, seen)
}

fn superblock(bytes: &[u8]) -> LfsSuperblock {
    LfsSuperblock::parse(&bytes[FIRST_OFFSET as usize..][..1024]).unwrap()
}

#[test]
fn changed_bits_are_noticed_or_harmless() {
    let image = small().image;
    let mut rng = Stream::named(7, "lfs damage");
    let summed = Summed::of(&image).unwrap();
    let places = [summed.superblocks(), summed.logs()].concat();
    run(|rt| async move {
        let (noticed, whole) = judge(&rt, &media(&image)).await;
        assert!(!noticed, "it is clean as it is");
        for _ in 0..150 {
            let place = &places[rng.below(places.len() as u64) as usize];
            let (byte, bit) = (place.start + rng.below(place.len() as u64) as usize, rng.below(8));
            let mut wrong = image.clone();
            wrong[byte] ^= 1 << bit;
            let (noticed, seen) = judge(&rt, &media(&wrong)).await;
            assert!(noticed || seen == whole, "byte {byte}, bit {bit}: not noticed, and the tree differs");
        }
    });
}

#[test]
fn wrong_fields_under_right_sums_bring_nothing_down() {
    let image = small().image;
    let mut rng = Stream::named(8, "lfs fields");
    let summed = Summed::of(&image).unwrap();
    assert!(summed.logs().len() > 3, "the image has logs");
    run(|rt| async move {
        for _ in 0..200 {
            let mut wrong = image.clone();
            let log = summed.logs()[rng.below(summed.logs().len() as u64) as usize].clone();
            for _ in 0..=rng.below(3) {
                let byte = log.start + rng.below(log.len() as u64) as usize;
                wrong[byte] = rng.below(256) as u8;
            }
            summed.reseal_log(&mut wrong, log);
            judge(&rt, &media(&wrong)).await;
        }
    });
}

#[test]
fn either_superblock_is_enough() {
    let image = small().image;
    let second = second_offset(image.len() as u64).unwrap() as usize;
    let expected = small().rows("latest");
    run(|rt| async move {
        for (at, copy) in [(FIRST_OFFSET as usize, SuperblockCopy::First), (second, SuperblockCopy::Second)] {
            let mut wrong = image.clone();
            wrong[at..at + 1024].fill(0);
            let media = media(&wrong);
            let volume = Volume::open(&rt, device(&rt, &media)).await.unwrap();
            assert_eq!(volume.chosen().repair, Some((copy, SuperblockFault::Magic)));
            assert_ne!(volume.chosen().from, copy);
            assert_eq!(rows(&rt, &media, None).await.unwrap(), expected);
            let found = check(&rt, device(&rt, &media)).await.unwrap();
            assert!(!found.is_clean() && found.findings[0].to_string().contains("Mount it for writing"));
        }
        let mut wrong = image.clone();
        wrong[FIRST_OFFSET as usize] ^= 1;
        wrong[second + 6] ^= 1;
        let opened = Volume::open(&rt, device(&rt, &media(&wrong))).await.map(|_| ());
        assert_eq!(opened, Err(LfsError::Superblocks(SuperblockFault::Sum, SuperblockFault::Magic)));
    });
}

/// What opening says of a file system whose superblocks were changed, under right sums.
fn refused(change: impl Fn(&mut LfsSuperblock)) -> String {
    let media = made(64 * MIB, config(4096)).unwrap();
    let bytes = media.bytes(esker_base::ByteRange::new(0, 64 * MIB).unwrap());
    let mut superblock = superblock(&bytes);
    change(&mut superblock);
    let mut wrong = bytes;
    for at in [FIRST_OFFSET, second_offset(64 * MIB).unwrap()] {
        wrong[at as usize..][..1024].copy_from_slice(&superblock.sealed());
    }
    run(|rt| async move {
        let opened = Volume::open(&rt, device(&rt, &super::media(&wrong))).await;
        opened.map(|_| ()).unwrap_err().to_string()
    })
}

#[test]
fn superblocks_that_make_no_sense_are_refused() {
    assert!(refused(|superblock| superblock.incompat = 0x20).contains("incompat bits 0x20"));
    assert!(refused(|superblock| superblock.revision = 3).contains("revision 3"));
    assert!(refused(|superblock| superblock.block_log = 7).contains("2^17"));
    assert!(refused(|superblock| superblock.inode_bytes = 127).contains("an inode has 127"));
    assert!(refused(|superblock| superblock.usage_bytes = 8).contains("usage of a segment has 8"));
    assert!(refused(|superblock| superblock.dat_bytes = u16::MAX).contains("entry of the DAT"));
    assert!(refused(|superblock| superblock.segments = u64::MAX).contains("do not fit"));
    assert!(refused(|superblock| superblock.segment_blocks = 3).contains("segments of 3 blocks"));
    assert!(refused(|superblock| superblock.first_block = 1 << 40).contains("the first from"));
    assert!(refused(|superblock| superblock.device_bytes *= 2).contains("it was cut"));
    assert!(refused(|superblock| superblock.last_log = u64::MAX).contains("lies in no segment"));
    assert!(refused(|superblock| superblock.last_log = 9).contains("there is no log"));
    assert!(refused(|superblock| superblock.last_sequence = 9).contains("sequence number"));
}

#[test]
fn a_foreign_device_and_a_small_one_are_refused() {
    run(|rt| async move {
        for bytes in [vec![0; 512], vec![0; 4096], vec![0xff; 1 << 20]] {
            let opened = Volume::open(&rt, device(&rt, &media(&bytes))).await.map(|_| ());
            assert!(matches!(opened, Err(LfsError::Superblocks(..))), "{opened:?}");
        }
    });
}
