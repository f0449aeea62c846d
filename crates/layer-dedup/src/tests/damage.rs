//! What is damaged, refused or failing below.

use std::rc::Rc;

use esker_block::store::SparseStore;
use esker_dev::Media;
use esker_framing::SuperblockError;
use esker_framing::cell::{CELL, PAGE, seal};
use esker_framing::superblock::reseal;
use esker_testkit::{Faulty, Injector};

use super::*;
use crate::journal::JournalError;
use crate::layout::{SUPERBLOCKS, Spot};
use crate::superblock::{LEN, Superblock};

/// The bytes of a medium, changed.
fn spoiled(media: &Media, at: u64, change: impl FnOnce(&mut [u8])) -> Rc<Media> {
    let mut bytes = media.bytes(ByteRange::new(0, media.size()).unwrap());
    change(&mut bytes[at as usize..]);
    let mut store = SparseStore::default();
    store.write(0, &bytes);
    Media::of(media.size(), store)
}

fn try_open(media: &Rc<Media>, change: impl FnOnce(&mut Config)) -> Result<(), OpenError> {
    let sim = Sim::new(SimConfig::seeded(1));
    let (rt, device) = (sim.rt(), memory(&sim.rt(), media));
    let mut config = config(device.limits(), None);
    change(&mut config);
    sim.block_on(async move { open_on(&rt, device, config).await.map(drop) })
}

/// Twenty blocks, two of which are equal, all in the tables.
fn written() -> (Rc<Media>, Layout) {
    let media = Media::new(64 << 10);
    let layout = on(&media, plain, async |volume| {
        for block in 0..20 {
            write(&volume, block, &unique(block % 19)).await;
        }
        volume.dedup.store().quiesce(&volume.io).await.unwrap();
        *volume.dedup.store().layout()
    });
    (media, layout)
}

fn byte_of(layout: &Layout, spot: Spot) -> u64 {
    layout.page_at(spot.page) + (spot.cell * CELL + spot.at) as u64
}

/// Puts a right checksum on the cell around a byte.
fn resealed(media: &Media, layout: &Layout, spot: Spot, bytes: &[u8]) -> Rc<Media> {
    let superblock = Superblock::newest(&media.bytes(ByteRange::new(0, SUPERBLOCKS).unwrap())).unwrap();
    let at = layout.page_at(spot.page) + (spot.cell * CELL) as u64;
    spoiled(media, at, |cell| {
        cell[spot.at..spot.at + bytes.len()].copy_from_slice(bytes);
        seal(superblock.set, at, &mut cell[..CELL]);
    })
}

#[test]
fn what_holds_something_else_is_never_taken() {
    let foreign = spoiled(&Media::new(64 << 10), 100, |bytes| bytes[0] = 1);
    assert_eq!(
        try_open(&foreign, plain),
        Err(OpenError::Superblock(SuperblockError::Foreign("a deduplicated volume")))
    );
    let (media, _) = written();
    let other = try_open(&media, with_size(20)).unwrap_err();
    assert!(other.to_string().contains("made with block=512 size="), "{other}");
    let newer = spoiled(&media, 0, |bytes| {
        for at in [0, PAGE] {
            bytes[at + 8] = 3;
            reseal(&mut bytes[at..at + LEN]);
        }
    });
    assert_eq!(try_open(&newer, plain), Err(OpenError::Superblock(SuperblockError::Newer(3, 0))));
    let shrunk = try_open(&media, |config| config.device = 60 << 10).unwrap_err();
    assert!(matches!(shrunk, OpenError::Shrunk { is: 61_440, .. }), "{shrunk}");
    let blind = spoiled(&media, 0, |bytes| [20, PAGE + 20].into_iter().for_each(|at| bytes[at] ^= 1));
    assert_eq!(try_open(&blind, plain), Err(OpenError::Superblock(SuperblockError::Checksum)));
}

#[test]
fn a_damaged_map_fails_its_blocks_only_and_keeps_changes_away_from_them() {
    let (media, layout) = written();
    let bad = spoiled(&media, byte_of(&layout, layout.map(0)), |bytes| bytes[0] ^= 1);
    on(&bad, plain, async move |volume| {
        let done = volume.submit(Bio::read(0, Buf::unique(volume.io.pool(), BLOCK))).await;
        assert!(done.result.unwrap_err().to_string().contains("the table at byte"));
        assert!(try_write(&volume, 0, &unique(50)).await.is_err());
        assert!(!volume.dedup.store().latch.is_set());
    });
    let far = resealed(&media, &layout, layout.map(0), &5000u32.to_le_bytes());
    on(&far, plain, async move |volume| {
        let done = volume.submit(Bio::read(0, Buf::unique(volume.io.pool(), BLOCK))).await;
        assert!(done.result.unwrap_err().to_string().contains("data block 4999"));
        assert_eq!(read(&volume, 1, 1).await, unique(1));
    });
    let verdict = checked(&far);
    assert!(verdict.wrong > 1 && verdict.findings[0].to_string().contains("block 0 of the volume"), "{verdict:?}");
}

#[test]
fn a_damaged_index_costs_duplicates_and_no_data() {
    let (media, layout) = written();
    let bucket = layout.bucket(blake3::hash(&unique(3)).as_bytes());
    let bad = spoiled(&media, byte_of(&layout, bucket), |bytes| bytes[0] ^= 1);
    on(&bad, plain, async move |volume| {
        write(&volume, 30, &unique(3)).await;
        assert_eq!((stat(&volume, "hits"), stat(&volume, "index_buckets_lost")), (0.0, 1.0));
        write(&volume, 31, &unique(3)).await;
        assert_eq!(stat(&volume, "hits"), 1.0);
        assert_eq!((read(&volume, 3, 1).await, read(&volume, 30, 2).await), (unique(3), unique(3).repeat(2)));
        flush(&volume).await;
    });
    let verdict = checked(&bad);
    assert!(verdict.wrong == 0 && verdict.unindexed > 0, "{verdict:?}");
}

#[test]
fn tables_that_contradict_each_other_never_cost_a_block_in_use() {
    let (media, layout) = written();
    // The free map says that nothing is used: the superblock knows better.
    let emptied = resealed(&media, &layout, layout.bit(0).0, &[0; 8]);
    on(&emptied, plain, async |volume| {
        assert!(volume.dedup.store().latch.is_set());
        assert!(matches!(try_write(&volume, 30, &unique(99)).await, Err(BioError::Latched(_))));
        assert_eq!(read(&volume, 5, 1).await, unique(5));
    });
    // A block in use changes places with a free one: its entry knows better.
    let (from, bit) = layout.bit(19);
    let swapped = resealed(&media, &layout, from, &[0b1111]);
    assert_eq!(bit, 0b1000);
    let swapped = resealed(&swapped, &layout, Spot { at: from.at - 1, ..from }, &[0xfe]);
    on(&swapped, plain, async |volume| {
        let error = (try_write(&volume, 30, &unique(99)).await, try_write(&volume, 31, &unique(98)).await);
        assert!(volume.dedup.store().latch.is_set(), "{error:?}");
        assert_eq!(read(&volume, 0, 1).await, unique(0));
    });
}

#[test]
fn damaged_data_is_not_shared_when_bytes_are_compared() {
    let (media, layout) = written();
    let bad = spoiled(&media, layout.block_at(0), |bytes| bytes[10] ^= 1);
    on(
        &bad,
        |config| config.verify = true,
        async |volume| {
            write(&volume, 30, &unique(0)).await;
            assert_eq!((stat(&volume, "mismatches"), stat(&volume, "hits")), (1.0, 0.0));
            write(&volume, 31, &unique(4)).await;
            assert_eq!((stat(&volume, "mismatches"), stat(&volume, "hits")), (1.0, 1.0));
            assert_eq!(read(&volume, 30, 2).await, [unique(0), unique(4)].concat());
            flush(&volume).await;
        },
    );
    let verdict = checked(&bad);
    assert_eq!(verdict.findings, [check::Finding::Bytes(0)]);
}

#[test]
fn a_journal_that_was_durable_and_is_damaged_is_refused() {
    let media = Media::new(64 << 10);
    on(&media, plain, async |volume| {
        for block in 0..3 {
            write(&volume, block, &unique(block)).await;
            flush(&volume).await;
        }
    });
    let bad = spoiled(&media, SUPERBLOCKS + 512 + 80, |bytes| bytes[0] ^= 1);
    assert_eq!(try_open(&bad, plain), Err(OpenError::Journal(JournalError::Damaged(1))));
    // A superblock from a copy made before: the journal has gone on since.
    let superblock = Superblock::newest(&media.bytes(ByteRange::new(0, SUPERBLOCKS).unwrap())).unwrap();
    let old = spoiled(&media, 0, |bytes| {
        bytes[..SUPERBLOCKS as usize].fill(0);
        let old = Superblock { epoch: superblock.epoch - 1, ..superblock.clone() };
        bytes[old.at() as usize..][..LEN].copy_from_slice(&old.encode());
    });
    assert_eq!(try_open(&old, plain), Err(OpenError::Journal(JournalError::Newer(0))));
}

#[test]
fn a_failed_commit_ends_all_changes_and_reads_go_on() {
    let sim = Sim::new(SimConfig::seeded(1));
    let (rt, media) = (sim.rt(), Media::new(64 << 10));
    sim.block_on(async move {
        let injector = Injector::new("error flush 4".parse().unwrap());
        let device = Faulty::over(&rt, memory(&rt, &media), &injector);
        let volume =
            open_on(&rt, device.clone(), config(device.limits(), None)).await.unwrap_or_else(|e| panic!("{e}"));
        write(&volume, 0, &unique(0)).await;
        flush(&volume).await;
        write(&volume, 1, &unique(1)).await;
        assert!(matches!(volume.submit(Bio::flush()).await.result, Err(BioError::Io(_))));
        assert!(matches!(volume.submit(Bio::flush()).await.result, Err(BioError::Latched(_))));
        assert!(matches!(try_write(&volume, 2, &unique(2)).await, Err(BioError::Latched(_))));
        assert_eq!(read(&volume, 0, 2).await, [unique(0), unique(1)].concat());
    });
}

/// Each request below fails once: what was promised before stays, and a volume that goes on is sound.
#[test]
fn each_failing_request_costs_no_promise_and_leaves_sound_tables() {
    let faults = esker_testkit::for_each_fault(None, |injector| {
        let sim = Sim::new(SimConfig::seeded(1));
        let (rt, media) = (sim.rt(), Media::new(64 << 10));
        let on_it = media.clone();
        let promised = sim.block_on(async move {
            let device = Faulty::over(&rt, memory(&rt, &on_it), &injector);
            let Ok(volume) = open_on(&rt, device.clone(), config(device.limits(), None)).await else { return 0 };
            let mut promised = 0;
            for block in 0..30 {
                let is_written = try_write(&volume, block, &unique(block % 7)).await.is_ok();
                if !is_written || volume.submit(Bio::flush()).await.result.is_err() {
                    break;
                }
                promised = block + 1;
            }
            promised
        });
        on(&media, plain, async move |volume| {
            for block in 0..promised {
                assert_eq!(read(&volume, block, 1).await, unique(block % 7), "block {block} of {promised}");
            }
            write(&volume, 40, &unique(77)).await;
            flush(&volume).await;
        });
        let verdict = checked(&media);
        assert_eq!(verdict.wrong, 0, "{verdict:?}");
    });
    assert!(faults > 60, "{faults}");
}

/// A medium that version 2 wrote; it must stay readable.
#[test]
fn the_golden_image_is_read_and_written_as_it_always_was() {
    let golden = zstd::decode_all(&include_bytes!("../../golden/volume-v2.img.zst")[..]).unwrap();
    let mut store = SparseStore::default();
    store.write(0, &golden);
    let read_of = |media: &Rc<Media>| on(media, plain, async |volume| read(&volume, 0, 40).await);
    let fresh = Media::new(golden.len() as u64);
    on(&fresh, plain, async |volume| {
        for block in 0..30 {
            write(&volume, block, &unique(block / 3)).await;
        }
        volume.dedup.store().quiesce(&volume.io).await.unwrap();
        discard(&volume, 4, 3).await;
        write(&volume, 35, &unique(99)).await;
        flush(&volume).await;
    });
    let written = fresh.bytes(ByteRange::new(0, golden.len() as u64).unwrap());
    assert!(written == golden, "the format has changed: say so on its page and in the changelog");
    assert!(
        read_of(&Media::of(golden.len() as u64, store)) == read_of(&fresh),
        "the golden image reads as something else"
    );
}
