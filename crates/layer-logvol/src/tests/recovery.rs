//! OpenContext what was closed, killed or damaged.

use super::*;
use crate::check::check;
use crate::format::{SLOT, Slot, slots_of};
use crate::number::SegmentNo;
use crate::open::segment_for;

const MEDIUM: u64 = 1 << 20;
const SEGMENT: u64 = 32 << 10;

async fn open(rt: &Rt, media: &Rc<Media>) -> Bench {
    Bench::open(rt, device(rt, media), SEGMENT, 1 << 40).await
}

/// Fills a volume and gives its medium as a power cut leaves it: everything was written.
fn filled(checkpoint_at: u64, writes: u64) -> Rc<Media> {
    let media = media(MEDIUM);
    let kept = media.clone();
    run(async move |rt| {
        let bench = open(&rt, &kept).await;
        for i in 0..writes {
            bench.write(i * 3 % 200, 2, (i % 250) as u8 + 1).await;
            if i == checkpoint_at {
                bench.checkpoint().await;
            }
        }
    });
    media
}

fn expected(writes: u64) -> Vec<u8> {
    let mut values = vec![0; 202];
    (0..writes).for_each(|i| values[(i * 3 % 200) as usize..][..2].fill((i % 250) as u8 + 1));
    values
}

/// What became of opening: the values, and how many records were replayed.
fn reopened(media: &Rc<Media>) -> Result<(Vec<u8>, f64), String> {
    let (sim, media) = (Sim::new(SimConfig::seeded(4)), media.clone());
    let rt = sim.rt();
    sim.block_on(async move {
        let bench = Bench::try_open(&rt, device(&rt, &media), SEGMENT, 1 << 40).await?;
        Ok((bench.values(0, 202).await, bench.stat("records_replayed")))
    })
}

fn checked(media: &Rc<Media>) -> Result<crate::check::Verdict, String> {
    let (sim, media) = (Sim::new(SimConfig::seeded(4)), media.clone());
    let rt = sim.rt();
    sim.block_on(async move {
        let device = device(&rt, &media);
        let io = Io::over(&rt, &Pool::default(), vec![device.clone()]);
        check(&rt, io.pool(), io.below(), device.limits()).await.map_err(|e| e.to_string())
    })
}

fn damage(media: &Rc<Media>, at: u64, len: usize) {
    let mut bytes = media.bytes(esker_base::ByteRange::new(at, len as u64).unwrap());
    bytes.iter_mut().for_each(|byte| *byte ^= 0x5a);
    media.write(at, &Buf::from_bytes(&Pool::default(), &bytes));
}

#[test]
fn only_the_log_behind_the_last_checkpoint_is_replayed() {
    let media = filled(59, 100);
    assert_eq!(reopened(&media).unwrap(), (expected(100), 40.0));
    assert_eq!(reopened(&media).unwrap(), (expected(100), 0.0), "opening it made a checkpoint");
}

#[test]
fn a_stack_that_was_closed_replays_nothing() {
    let media = media(MEDIUM);
    let kept = media.clone();
    run(async move |rt| {
        let bench = open(&rt, &kept).await;
        bench.write(7, 1, 7).await;
        bench.checkpoint().await;
    });
    assert_eq!(reopened(&media).unwrap().1, 0.0);
    run(async |rt| {
        let vol = build(&rt, "a = memory size=1MiB; vol = logvol block=512 segment=32KiB page=512 on a");
        let buf = Buf::from_bytes(vol.stack().pool(), &[5; 512]);
        assert_eq!(vol.submit(Bio::write(0, buf)).await.result.err(), None);
        let checkpoints = |vol: &Export| {
            let parts = vol.stack().stats();
            let part = parts.iter().find(|part| part.kind == "logvol").unwrap();
            part.stats.iter().find(|stat| stat.name == "checkpoints").unwrap().value
        };
        let before = checkpoints(&vol);
        vol.stack().close().await;
        assert_eq!(checkpoints(&vol), before + 1.0);
    });
}

#[test]
fn the_head_of_the_log_goes_on_where_it_was() {
    let media = filled(1000, 10);
    let free = || checked(&media).unwrap().segments[0];
    let before = free();
    for _ in 0..5 {
        assert_eq!(reopened(&media).unwrap().0, expected(10));
    }
    assert!(before - free() <= 1, "{before} segments were free, now {}", free());
}

#[test]
fn a_blank_medium_becomes_a_volume_and_a_foreign_one_does_not() {
    assert_eq!(checked(&media(MEDIUM)).unwrap_err(), "it is blank: there is no volume yet");
    let media = media(MEDIUM);
    media.write(0, &Buf::from_bytes(&Pool::default(), &[1; 4096]));
    let error = reopened(&media).unwrap_err();
    assert!(error.contains("it holds no superblock of a log-structured volume"), "{error}");
    let all = media.bytes(esker_base::ByteRange::new(4096, MEDIUM - 4096).unwrap());
    assert!(all.iter().all(|byte| *byte == 0), "not even then");
}

#[test]
fn a_member_of_a_mirror_is_named_and_a_volume_seen_4096_bytes_off_is_refused() {
    let member = media(MEDIUM);
    member.write(0, &Buf::from_bytes(&Pool::default(), &esker_layer_kit::media::MIRROR.repeat(64)));
    assert!(reopened(&member).unwrap_err().contains("it holds a member of a mirror, and no volume"));
    let (sound, shifted) = (filled(50, 60), media(MEDIUM));
    let bytes = sound.bytes(esker_base::ByteRange::new(0, MEDIUM - 4096).unwrap());
    shifted.write(4096, &Buf::from_bytes(&Pool::default(), &bytes));
    assert!(reopened(&shifted).unwrap_err().contains("4096 bytes from where it was written"));
}

#[test]
fn any_slot_may_be_damaged_and_all_may_not() {
    let slots = || (0..2).flat_map(|generation| slots_of(generation, MEDIUM)).collect::<Vec<u64>>();
    assert_eq!(slots(), [0, MEDIUM - 8192, 4096, MEDIUM - 4096]);
    for slot in slots() {
        let media = filled(50, 60);
        damage(&media, slot, SLOT);
        assert_eq!(reopened(&media).unwrap().0, expected(60), "slot at {slot}");
    }
    for half in [[0, 4096], [MEDIUM - 8192, MEDIUM - 4096]] {
        let media = filled(50, 60);
        half.iter().for_each(|slot| damage(&media, *slot, SLOT));
        assert_eq!(reopened(&media).unwrap().0, expected(60), "both slots of one end");
    }
    let media = filled(50, 60);
    slots().iter().for_each(|slot| damage(&media, *slot, SLOT));
    assert!(reopened(&media).unwrap_err().contains("it holds no superblock of a log-structured volume"));
    let media = filled(50, 60);
    slots().iter().for_each(|slot| damage(&media, *slot + 100, 1));
    assert!(reopened(&media).unwrap_err().contains("it holds a superblock whose checksum is wrong"));
    // A volume that was closed later knows of the newest checkpoint when both of its copies are gone.
    let media = filled(50, 400);
    let newest = checked(&media).unwrap().generation;
    slots_of(newest, MEDIUM).iter().for_each(|slot| damage(&media, *slot, SLOT));
    assert!(reopened(&media).unwrap_err().contains("knows of checkpoint"));
}

#[test]
fn damage_to_what_was_durable_is_never_taken_for_the_end_of_the_log() {
    let media = filled(50, 100);
    // The first batch behind the checkpoint: its block of records is found by its number.
    let g = crate::format::Geometry::fit(MEDIUM, 512, 512, SEGMENT).unwrap();
    let is_batch = |at: u64| {
        let bytes = media.bytes(esker_base::ByteRange::new(at, 512).unwrap());
        bytes[..2] == *b"Eb" && u64::from_le_bytes(bytes[8..16].try_into().unwrap()) == 55
    };
    let all = (0..g.blocks()).map(|block| g.byte_of(block));
    let at = all.into_iter().find(|at| is_batch(*at)).expect("record 55 was logged");
    damage(&media, at + 40, 4);
    let error = reopened(&media).unwrap_err();
    assert!(error.contains("the log is damaged: record 55"), "{error}");
    assert_eq!(checked(&media).unwrap_err(), error);
}

#[test]
fn damage_to_the_map_is_found_and_told() {
    let media = filled(1000, 100);
    assert_eq!(reopened(&media).unwrap().0, expected(100));
    let g = crate::format::Geometry::fit(MEDIUM, 512, 512, SEGMENT).unwrap();
    let pages =
        SegmentNo::all(g.segments).map(|segment| g.pages_of(segment)).flat_map(|pages| pages.start.0..pages.end.0);
    let is_page = |page: &u64| media.bytes(esker_base::ByteRange::new(page * 512, 4).unwrap()) == *b"EsMp";
    let pages: Vec<u64> = pages.filter(is_page).collect();
    assert!(pages.len() > 3);
    let mut found = 0;
    for page in pages {
        damage(&media, page * 512 + 100, 1);
        if let Err(error) = checked(&media) {
            assert!(error.contains(&format!("page {page} of the map")), "{error}");
            found += 1;
        }
        damage(&media, page * 512 + 100, 1);
    }
    assert!(found > 2, "{found} pages of the map are in use");
    checked(&media).unwrap();
}

#[test]
fn a_smaller_device_or_larger_blocks_are_refused() {
    let media = filled(50, 60);
    let all = media.image();
    let shrunk = Media::of(MEDIUM / 2, all.clone());
    assert!(reopened(&shrunk).unwrap_err().contains("it needs"));
    run(async move |rt| {
        let media = Media::of(MEDIUM, all);
        let coarse = Rc::new(MemoryDevice::over(&rt, media, 4096, Defer::Never));
        let error = Bench::try_open(&rt, coarse, SEGMENT, 1 << 40).await.err().expect("refused");
        assert!(error.contains("blocks of 512 bytes, the device below of 4096"), "{error}");
    });
    for text in [
        "a = memory size=1MiB; vol = logvol segment=100KiB on a",
        "a = memory size=1MiB; vol = logvol block=1KiB on a",
        "a = memory size=1MiB; vol = logvol on a",
        "a = memory size=1MiB block=4096; vol = logvol block=512 segment=32KiB on a",
        "a = memory size=1MiB; vol = logvol block=512 segment=32KiB size=1000 on a",
    ] {
        run(async move |rt| assert!(try_build(&rt, text).err().is_some_and(|error| error.contains("vol")), "{text}"));
    }
}

/// A damaged slot hides the log from recovery: it must stay hidden from the next one too, which draws from the same
/// seed at the same instant.
#[test]
fn an_opening_never_takes_the_log_of_another_one_for_its_own() {
    let media = media(MEDIUM);
    for _ in 0..2 {
        reopened(&media).unwrap();
    }
    let kept = media.clone();
    let (sim, mut epochs) = (Sim::new(SimConfig::seeded(4)), Vec::new());
    let rt = sim.rt();
    epochs.push(sim.block_on(async move {
        let bench = open(&rt, &kept).await;
        for i in 0..20 {
            bench.write(i, 1, 7).await;
        }
        bench.volume.epoch
    }));
    let slots = (0..2).flat_map(|generation| slots_of(generation, MEDIUM));
    for at in slots {
        let bytes = media.bytes(esker_base::ByteRange::new(at, SLOT as u64).unwrap());
        let mut slot = Slot::decode(&bytes).unwrap();
        slot.epoch ^= 1;
        media.write(at, &Buf::from_bytes(&Pool::default(), &slot.encode()));
    }
    for _ in 0..3 {
        assert_eq!(reopened(&media).unwrap(), (vec![0; 202], 0.0), "what the first opening did not believe came back");
    }
    for _ in 0..4 {
        let (sim, media) = (Sim::new(SimConfig::seeded(4)), media.clone());
        let rt = sim.rt();
        epochs.push(sim.block_on(async move { open(&rt, &media).await.volume.epoch }));
    }
    epochs.sort_unstable();
    epochs.dedup();
    assert_eq!(epochs.len(), 5, "each opening has an epoch of its own");
}

/// Requests are bounded when a stack is built, before the medium is read.
#[test]
fn a_geometry_that_requests_would_not_fit_is_refused_and_a_roomier_one_is_not() {
    let media = filled(5, 30);
    let open_as = |block: u32, segment: u64, segment_least: u64| {
        let (sim, media) = (Sim::new(SimConfig::seeded(4)), media.clone());
        let rt = sim.rt();
        sim.block_on(async move {
            let device = device(&rt, &media);
            let config = Config::over("vol", device.limits(), block, block, segment, 1 << 40);
            let config = Config { segment_least, ..config };
            let io = Io::over(&rt, &Pool::default(), vec![device]);
            Volume::open(config, &rt, io.pool(), io.below().clone()).await.map(drop).map_err(|e| e.to_string())
        })
    };
    let error = open_as(512, 2 * SEGMENT, 2 * SEGMENT).unwrap_err();
    assert!(error.contains("segments of 32768 bytes; write block=512 segment=32768"), "{error}");
    assert_eq!(open_as(512, SEGMENT / 2, SEGMENT / 2), Ok(()));
    assert_eq!(open_as(512, 2 * SEGMENT, SEGMENT), Ok(()), "the default of a device that was grown");
    assert_eq!(reopened(&media).unwrap().0, expected(30), "nothing was changed");
}

#[test]
fn segments_are_about_a_thousandth_of_the_device_by_default() {
    let defaults =
        [(1 << 20, 4), (4 << 30, 4), (6 << 30, 4), (8 << 30, 8), (100 << 30, 64), (1 << 40, 128), (1 << 49, 128)];
    for (bytes, mib) in defaults {
        assert_eq!(segment_for(bytes), mib << 20, "on {bytes} bytes");
    }
}
