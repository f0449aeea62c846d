//! What is damaged, refused or failing below.

use esker_framing::SuperblockError;
use esker_framing::cell::{CELL, seal};
use esker_framing::superblock::reseal;
use esker_testkit::crash::{self, Bound};
use esker_testkit::{Faulty, Injector};

use super::*;

/// A map of three cells in use, with masks and a touched zone: checkpoints, then some commits, then no stop.
fn used(stops: bool) -> (Rc<Media>, SlotShape, SlotLayout) {
    let shape = shape(150, 3);
    let media = medium(&shape);
    let layout = begun(&media, &shape, async move |rig| {
        for key in 0..45 {
            let slot = rig.fill(key, SlotMarks::of(key as u8 % 16).unwrap());
            if key % 3 == 2 {
                rig.give_up(slot);
            }
            if key % 4 == 0 {
                rig.commit().await;
            }
        }
        rig.map.touch(&rig.io, &[120]).await.unwrap();
        if stops {
            rig.settle().await;
        }
        *rig.map.layout()
    });
    (media, shape, layout)
}

type State = (Vec<Option<SlotEntry>>, Vec<Option<Mask>>, Vec<bool>);

fn state(media: &Rc<Media>, shape: &SlotShape) -> Result<State, MapError> {
    try_on(media, shape, async |rig, _| {
        let (slots, map) = (0..rig.map.slots(), &rig.map);
        (
            rig.entries(),
            slots.clone().map(|slot| map.mask(slot)).collect(),
            slots.map(|slot| map.trusts(slot)).collect(),
        )
    })
}

/// Whether two maps have the same units, of which the first calls more dirty.
fn is_doubted(found: &[Option<SlotEntry>], whole: &[Option<SlotEntry>]) -> bool {
    let dirty = |entry: &Option<SlotEntry>| entry.map(|entry| entry.with(SlotMarks::DIRTY));
    found.iter().zip(whole).all(|(found, whole)| found == whole || *found == dirty(whole))
}

fn head_of(media: &Media) -> head::SlotHead {
    recover::head_of(&bytes_of(media)[..8192]).unwrap()
}

#[test]
fn no_damaged_byte_gives_another_map() {
    for stops in [false, true] {
        let (media, shape, layout) = used(stops);
        let whole = state(&media, &shape).unwrap();
        let (mut refused, mut lost) = (0, 0);
        for at in (0..layout.data() as usize).step_by(5) {
            let damaged = spoiled(&media, |bytes| bytes[at] ^= 1 << (at % 8));
            match state(&damaged, &shape) {
                Ok(found) if found == whole => {}
                // The head before that of the stop knows of a touched zone.
                Ok(found) if stops => {
                    assert!(at < 8192 && found.1 == whole.1 && is_doubted(&found.0, &whole.0), "byte {at}");
                }
                // The last commit looks as if it had been cut short.
                Ok(_) => {
                    let half = layout.half_at(head_of(&media).epoch);
                    assert!((half..half + layout.journal).contains(&(at as u64)), "byte {at}");
                    lost += 1;
                }
                Err(_) => refused += 1,
            }
        }
        // One sector is that of the last commit; those before it are known to be durable.
        assert!(lost <= 512 / 5 + 1, "{lost}");
        assert!(refused > 0 || stops, "{refused}");
    }
}

#[test]
fn the_older_image_serves_and_the_damaged_cell_is_mended() {
    for (stops, block) in [(false, 512), (true, 512), (false, 4096)] {
        let (media, shape, layout) = used(stops);
        let whole = state(&media, &shape).unwrap();
        let epoch = head_of(&media).epoch;
        let at = layout.cell_at(epoch, 1);
        let damaged = spoiled(&media, |bytes| bytes[at as usize + 3] ^= 1);
        assert_eq!(state(&damaged, &shape), Ok(whole.clone()));
        let verdict = checked(&damaged).unwrap();
        assert_eq!((verdict.wrong, &verdict.findings[..]), (1, &[check::SlotFinding::Cell(at)][..]));
        assert!(block == 512 || state(&damaged, &shape).is_ok());
        begun(&damaged, &shape, async |rig| rig.settle().await);
        assert_eq!(checked(&damaged).unwrap().wrong, 0);
        assert_eq!(state(&damaged, &shape).unwrap().0, whole.0);
        // A cell of the image that does not count is found too.
        let other = layout.cell_at(epoch + 1, 1);
        let damaged = spoiled(&media, |bytes| bytes[other as usize + 3] ^= 1);
        assert_eq!(checked(&damaged).unwrap().findings, [check::SlotFinding::Cell(other)]);
        assert_eq!(state(&damaged, &shape), Ok(whole.clone()));
        begun(&damaged, &shape, async |rig| rig.settle().await);
        assert_eq!(checked(&damaged).unwrap().wrong, 0);
        // So is one that the device lost.
        let lost = spoiled(&media, |bytes| bytes[other as usize..other as usize + CELL].fill(0));
        for _ in 0..2 {
            begun(&lost, &shape, async |rig| rig.settle().await);
            assert_eq!(state(&lost, &shape).unwrap().0, whole.0);
        }
    }
}

#[test]
fn a_damaged_head_brings_no_older_note_back() {
    let (media, shape, _) = used(true);
    let newer = [9; NOTE_BYTES];
    on(&media, &shape, async move |rig, _| rig.map.begin(&rig.io, &newer).await.unwrap());
    for slot in [0, 4096] {
        let damaged = spoiled(&media, |bytes| bytes[slot + 200] ^= 1);
        let note = on(&damaged, &shape, async |_, found| match found {
            Found::Unclean { note, suspects: 0, .. } => Some(note),
            Found::Fresh | Found::Clean { .. } | Found::Unclean { .. } => None,
        });
        assert_eq!(note, Some(newer), "the head at byte {slot} is damaged");
    }
}

/// A torn commit leaves sectors behind its tear. What is written before them later must not make them count.
#[test]
fn what_a_torn_commit_left_behind_its_tear_never_counts() {
    let (media, shape, layout) = used(false);
    let whole = state(&media, &shape).unwrap();
    assert!(whole.1.iter().flatten().count() > 3, "masks are the first records of the next half");
    let (head, next) = (head_of(&media), next_sector(&media));
    // The second of two sectors got there and the first did not.
    let free = whole.0.iter().position(Option::is_none).unwrap() as u32;
    let at = layout.half_at(head.epoch + 1);
    let mut waiting = Waiting::default();
    (0..PER_SECTOR).for_each(|_| waiting.push(&[Record::Quiet { zone: 0 }]));
    waiting.push(&[Record::Set { slot: free, entry: Some(SlotEntry::of(777)) }]);
    let to = journal::Location { set: head.set, epoch: head.epoch + 1, number: next, at };
    let torn = journal::encode(&to, 1, &waiting.take(2, 100));
    let media = spoiled(&media, |bytes| bytes[at as usize + 512..][..512].copy_from_slice(&torn[512..]));
    assert_eq!(state(&media, &shape).unwrap(), whole);
    let image = media.image();
    let case = power::Case { shape, ..power::Case::tiny(1) };
    let again = power::begun_again(&case, &image);
    let count = crash::for_each_state(&again, Bound { states_max: 9, seed: 3 }, |point, images| {
        let found =
            case.opened(&images[1].over(&image), async |rig, _| rig.entries()).map_err(|error| error.to_string())?;
        match found[free as usize].is_some_and(|entry| entry.key == 777) {
            true => Err(format!("it counts before event {point}")),
            false => Ok(()),
        }
    });
    assert!(count.unwrap_or_else(|what: String| panic!("{what}")).states > 30);
}

/// Number of the sector that comes next in the journal of a medium.
fn next_sector(media: &Rc<Media>) -> u64 {
    on(media, &shape(150, 3), async |rig, _| rig.map.log.borrow().next)
}

/// A power cut during a checkpoint leaves cells in the older image that are newer than the journal's records for it.
#[test]
fn an_older_image_that_is_partly_newer_serves_and_both_images_are_mended() {
    let (media, shape, layout) = used(false);
    begun(&media, &shape, async |rig| {
        assert!(rig.map.take(130));
        rig.map.set(&[(130, Some(SlotEntry::of(500).with(SlotMarks::DIRTY)))], LowerSet::NONE);
        rig.commit().await;
    });
    let (whole, head) = (state(&media, &shape).unwrap(), head_of(&media));
    let (set, epoch) = (head.set, head.epoch);
    let cells = on(&media, &shape, async move |rig, _| {
        let table = rig.map.table.borrow();
        (0..layout.cells()).flat_map(|cell| table.sealed(set, epoch + 1, cell, None)).collect::<Vec<u8>>()
    });
    let damaged = spoiled(&media, |bytes| {
        bytes[layout.image_at(epoch + 1) as usize..][..cells.len()].copy_from_slice(&cells);
        bytes[layout.cell_at(epoch, 1) as usize] ^= 1;
    });
    let kept = |media: &Rc<Media>| state(media, &shape).map(|(entries, masks, _)| (entries, masks));
    for _ in 0..3 {
        assert_eq!(kept(&damaged), Ok((whole.0.clone(), whole.1.clone())));
        on(&damaged, &shape, async |rig, _| rig.begin().await);
    }
    // Each image alone holds all of it.
    for epoch in [0, 1] {
        let single = spoiled(&damaged, |bytes| bytes[layout.cell_at(epoch, 1) as usize] ^= 1);
        assert_eq!(kept(&single), Ok((whole.0.clone(), whole.1.clone())));
    }
}

#[test]
fn two_damaged_images_are_refused_with_the_byte() {
    let (media, shape, layout) = used(false);
    let epoch = head_of(&media).epoch;
    let (at, other) = (layout.cell_at(epoch, 1), layout.cell_at(epoch + 1, 2));
    let damaged = spoiled(&media, |bytes| [at, other].into_iter().for_each(|at| bytes[at as usize] ^= 1));
    let lost = MapError::Damaged { what: "cell", at };
    assert_eq!(state(&damaged, &shape), Err(lost.clone()));
    assert!(lost.to_string().contains(&format!("at byte {at}")));
    assert_eq!(checked(&damaged), Err(lost.clone()));
    // The half of the older image is damaged where it was durable.
    let before = layout.half_at(epoch + 1);
    let damaged = spoiled(&media, |bytes| [at, before + 20].into_iter().for_each(|at| bytes[at as usize] ^= 1));
    assert_eq!(state(&damaged, &shape), Err(lost));
}

#[test]
fn a_damaged_sector_before_later_ones_is_refused_with_the_byte() {
    let (media, shape, layout) = used(false);
    let at = layout.half_at(head_of(&media).epoch);
    let damaged = spoiled(&media, |bytes| bytes[at as usize + 100] ^= 1);
    let lost = MapError::Damaged { what: "sector of the journal", at };
    assert_eq!(state(&damaged, &shape), Err(lost.clone()));
    assert_eq!(checked(&damaged), Err(lost));
    // A head from a copy: the journal has gone on since.
    let old = bytes_of(&media)[..8192].to_vec();
    begun(&media, &shape, async |rig| {
        for key in 100..120 {
            rig.fill(key, SlotMarks::PART);
            rig.commit().await;
        }
    });
    let stale = spoiled(&media, |bytes| bytes[..8192].copy_from_slice(&old));
    let error = state(&stale, &shape).unwrap_err();
    assert!(matches!(error, MapError::Stale { .. } | MapError::Damaged { .. }), "{error}");
}

#[test]
fn what_holds_something_else_is_never_taken() {
    let (media, shape, _) = used(false);
    let open = |change: &dyn Fn(&mut [u8])| state(&spoiled(&media, change), &shape).unwrap_err();
    let foreign = open(&|bytes| bytes[..8192].fill(1));
    assert_eq!(foreign, MapError::Superblock(SuperblockError::Foreign("a map of slots")));
    let other = open(&|bytes| {
        bytes[..8192].fill(0);
        bytes[..8].copy_from_slice(&crate::media::DEDUP);
    });
    assert_eq!(other, MapError::Medium("a deduplicated volume"));
    let newer = open(&|bytes| {
        bytes[8] = 2;
        reseal(&mut bytes[..4096]);
    });
    assert_eq!(newer, MapError::Superblock(SuperblockError::Newer(2, 0)));
    let blind = open(&|bytes| [20, 4096 + 20].into_iter().for_each(|at| bytes[at] ^= 1));
    assert_eq!(blind, MapError::Superblock(SuperblockError::Checksum));
    let shrunk = Media::new(media.size() - 8192);
    let bytes = bytes_of(&media);
    let mut store = SparseStore::default();
    store.write(0, &bytes[..bytes.len() - 8192]);
    let error = state(&Media::of(shrunk.size(), store), &shape).unwrap_err();
    assert_eq!(error, MapError::Shrunk { is: media.size() - 8192, needed: media.size() });
}

#[test]
fn what_no_esker_writes_is_damage_under_a_right_checksum() {
    let (media, shape, layout) = used(true);
    let head = head_of(&media);
    let whole = state(&media, &shape).unwrap();
    let at = layout.cell_at(head.epoch, 0);
    let far = spoiled(&media, |bytes| {
        let cell = &mut bytes[at as usize..at as usize + CELL];
        cell[4] = 1;
        seal(head.set, at, cell);
    });
    assert_eq!(state(&far, &shape), Ok(whole), "the older image serves");
    // A unit in two slots is found, and costs nothing here.
    let twice = spoiled(&media, |bytes| {
        for epoch in [0, 1] {
            let at = layout.cell_at(epoch, 0);
            let cell = &mut bytes[at as usize..at as usize + CELL];
            cell[..8].copy_from_slice(&SlotEntry::encode(Some(SlotEntry::of(44))).to_le_bytes());
            cell[8..16].copy_from_slice(&SlotEntry::encode(Some(SlotEntry::of(44))).to_le_bytes());
            seal(head.set, at, cell);
        }
    });
    assert_eq!(checked(&twice).unwrap().findings, [check::SlotFinding::Twice(44, 0, 1)]);
}

#[test]
fn the_word_of_a_checker_is_that_of_the_kind() {
    let (media, _, layout) = used(true);
    let tell =
        |media: &Rc<Media>| check::media_verdict(&[Rc::new(Read(media.clone())) as Rc<dyn esker_block::ReadMedium>]);
    let sound = tell(&media).unwrap();
    assert!(
        sound.is_sound
            && sound.text.contains("map of a cache: ")
            && sound.text.ends_with("15 of them dirty; stopped, 14 records in the journal; sound"),
        "{sound:?}"
    );
    let at = layout.cell_at(0, 0) as usize;
    let wrong = tell(&spoiled(&media, |bytes| bytes[at] ^= 1)).unwrap();
    assert!(!wrong.is_sound && wrong.text.contains("1 things WRONG"), "{wrong:?}");
    let is_marked = |media: &Rc<Media>, kind| check::is_marked(&Read(media.clone()), kind).unwrap();
    assert!(is_marked(&media, SlotKind::Cache) && !is_marked(&media, SlotKind::Tier));
    assert!(!is_marked(&Media::new(8192), SlotKind::Cache));
}

struct Read(Rc<Media>);

impl esker_block::ReadMedium for Read {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> std::io::Result<()> {
        out.copy_from_slice(&self.0.bytes(ByteRange::new(at, out.len() as u64).unwrap()));
        Ok(())
    }
}

/// A crash and a damaged byte at once: the map is refused, or is one that was there.
#[test]
fn damage_of_what_a_crash_left_never_mixes_changes() {
    let case = power::Case::tiny(12);
    let (journal, story) = power::lived(&case);
    let story = Rc::new(story);
    let (mut served, mut refused) = (0, 0);
    let outcome = crash::for_each_state(&journal, Bound { states_max: 3, seed: 12 }, |point, images| {
        let [home, fast] = [0, 1].map(|leaf| images[leaf].over(&SparseStore::default()));
        let media = Media::of(case.size(), fast);
        let layout = SlotMap::plan(&case.shape, &Limits::plain(case.size(), BLOCK)).unwrap();
        // Heads, cells of both images, and the journal.
        let heads = [30, 4096 + 30];
        let cells = [layout.cell_at(0, 0) + 9, layout.cell_at(1, 0) + 9];
        let sectors = (0..16).map(|sector| 8192 + sector * 512 + 60);
        for at in heads.into_iter().chain(cells).chain(sectors) {
            let damaged = spoiled(&media, |bytes| bytes[at as usize] ^= 1);
            let (story, home) = (story.clone(), home.clone());
            let damage = match (8192..layout.image_at(0)).contains(&at) {
                true => power::Damage::Journal,
                false => power::Damage::Tables,
            };
            let judged = try_on(&damaged, &case.shape, async move |rig, found| {
                let suspects = if let Found::Unclean { suspects, .. } = found { suspects } else { 0 };
                let judged = power::Judge::new(&story, 4).judge(point, &rig, &home, suspects, damage);
                rig.begin().await;
                rig.settle().await;
                judged.map(|()| rig.entries())
            });
            match judged {
                Ok(judged) => {
                    let entries = judged.map_err(|what| format!("event {point}, byte {at}: {what}"))?;
                    // Both images hold it from now on.
                    let again = on(&damaged, &case.shape, async |rig, _| {
                        rig.begin().await;
                        rig.settle().await;
                        rig.entries()
                    });
                    let third = on(&damaged, &case.shape, async |rig, _| rig.entries());
                    if entries != again || entries != third {
                        return Err(format!("event {point}, byte {at}: {entries:?}, then {again:?}, then {third:?}"));
                    }
                }
                Err(_) => refused += 1,
            }
            served += 1;
        }
        Ok(())
    });
    outcome.unwrap_or_else(|what: String| panic!("{what}"));
    println!("{refused} of {served} damaged crash states refused");
    assert!(refused > served / 20 && refused < served / 2, "{refused} of {served}");
}

/// A journal that ends inside a block cannot be gone on with.
#[test]
fn a_map_that_was_not_stopped_stays_on_blocks_that_its_journal_fills() {
    let case = power::Case::tiny(1);
    let (journal, _) = power::lived(&case);
    let mut refused = 0;
    let count = crash::for_each_state(&journal, Bound { states_max: 1, seed: 1 }, |_, images| {
        let image = images[1].over(&SparseStore::default());
        let ends_inside = case.opened(&image, async |rig, _| {
            let log = rig.map.log.borrow();
            log.half != log.epoch && !(log.next - log.first).is_multiple_of(8)
        });
        let large = power::Case { block: 4096, ..case.clone() };
        let opened = large.opened(&image, async |_, found| found);
        let is_refused = matches!(opened, Err(MapError::Blocks(4096)));
        refused += u64::from(is_refused);
        if is_refused == ends_inside.unwrap() { Ok(()) } else { Err(format!("{opened:?}")) }
    });
    assert!(count.is_ok() && refused > 3, "{count:?}, {refused} refused");
}

#[test]
fn a_failed_commit_ends_all_changes() {
    let sim = Sim::new(SimConfig::seeded(1));
    let (rt, shape) = (sim.rt(), shape(40, 4));
    sim.block_on(async move {
        let injector = Injector::new("error write 8".parse().unwrap());
        let fast: Rc<dyn Device> = Faulty::over(&rt, device(&rt, &medium(&shape)), &injector);
        let (rig, _) = Rig::open_on(&rt, [device(&rt, &Media::new(1 << 20)), fast], &shape).await.unwrap();
        rig.begin().await;
        let mut failed = 0;
        for key in 0..10 {
            let slot = rig.map.free(1)[0];
            rig.map.set(&[(slot, Some(SlotEntry::of(key)))], LowerSet::NONE);
            match rig.map.commit(&rig.io).await {
                Ok(()) => assert_eq!(failed, 0),
                Err(MapError::Io(error)) => {
                    let is_latched = matches!(error, BioError::Latched(_));
                    assert_eq!(is_latched, failed > 0, "{error}");
                    failed += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(failed > 2 && rig.map.latch().is_set());
        assert_eq!(rig.map.get(0), Some(SlotEntry::of(0)));
    });
}

/// Each request below fails once: what was promised before stays, and the map can be used.
#[test]
fn each_failing_request_costs_no_promise() {
    let faults = esker_testkit::for_each_fault(None, |injector| {
        let (sim, shape) = (Sim::new(SimConfig::seeded(1)), shape(40, 4));
        let (rt, media, asked) = (sim.rt(), medium(&shape), shape.clone());
        let on_it = media.clone();
        let promised = sim.block_on(async move {
            let fast: Rc<dyn Device> = Faulty::over(&rt, device(&rt, &on_it), &injector);
            let home = device(&rt, &Media::new(1 << 20));
            let Ok((rig, _)) = Rig::open_on(&rt, [home, fast], &asked).await else { return 0 };
            if rig.map.begin(&rig.io, &NOTE).await.is_err() {
                return 0;
            }
            for key in 0..20 {
                let slot = rig.map.free(1)[0];
                rig.map.set(&[(slot, Some(SlotEntry::of(key).with(SlotMarks::DIRTY)))], LowerSet::one(FAST));
                if rig.map.commit(&rig.io).await.is_err() {
                    return key;
                }
            }
            20
        });
        let Ok(entries) = try_on(&media, &shape, async |rig, _| {
            rig.begin().await;
            let entries = rig.entries();
            rig.settle().await;
            entries
        }) else {
            panic!("the map cannot be opened after {promised} changes")
        };
        for key in 0..promised {
            let entry = SlotEntry::of(key).with(SlotMarks::DIRTY);
            assert_eq!(entries[key as usize], Some(entry), "slot {key} of {promised}");
        }
        assert_eq!(checked(&media).unwrap().wrong, 0);
    });
    assert!(faults > 60, "{faults}");
}

/// A medium that version 1 wrote; it must stay readable.
#[test]
fn the_golden_image_is_read_and_written_as_it_always_was() {
    let (media, shape, _) = used(false);
    let golden = zstd::decode_all(&include_bytes!("../golden/map-1.img.zst")[..]).unwrap();
    assert!(bytes_of(&media) == golden, "the format has changed: say so on its page and in the changelog");
    let mut store = SparseStore::default();
    store.write(0, &golden);
    assert_eq!(state(&Media::of(media.size(), store), &shape), state(&media, &shape));
}
