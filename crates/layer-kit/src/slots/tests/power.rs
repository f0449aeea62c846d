//! What power cuts leave: every change that was promised, no group in part, no slot with two owners, and doubt exactly
//! where something was written.

use std::cell::RefCell;

use esker_base::Stream;
use esker_block::{Bio, Buf};
use esker_rt::sync::join_all;
use esker_testkit::crash::{self, Bound, Count, Image};
use esker_testkit::recorder::{Journal, Recorder, bytes_of as store_bytes};

use super::*;

/// Bytes of home that stand for a unit: its number of versions.
const VERSION: u64 = 4096;

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) shape: SlotShape,
    pub(super) block: u32,
    pub(super) seed: u64,
    pub(super) batches: u64,
}

impl Case {
    /// Four slots in two zones, and a journal of eight sectors.
    pub(super) fn tiny(seed: u64) -> Case {
        Case { shape: shape(4, 2), block: BLOCK, seed, batches: 40 }
    }

    pub(super) fn size(&self) -> u64 {
        SlotMap::plan(&self.shape, &Limits::plain(1 << 40, BLOCK)).unwrap().end()
    }

    fn leaf(&self, rt: &Rt, media: Rc<Media>) -> Rc<dyn Device> {
        Rc::new(MemoryDevice::over(rt, media, self.block, Defer::Never))
    }

    /// Opens what a crash left.
    pub(super) fn opened<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        image: &SparseStore,
        body: impl FnOnce(Rig, Found) -> F + 'static,
    ) -> Result<T, MapError> {
        let sim = Sim::new(SimConfig::seeded(1));
        let (rt, shape) = (sim.rt(), self.shape.clone());
        let devices = [self.leaf(&rt, Media::new(HOME_SIZE)), self.leaf(&rt, Media::of(self.size(), image.clone()))];
        sim.block_on(async move {
            let (rig, found) = Rig::open_on(&rt, devices, &shape).await?;
            Ok(body(rig, found).await)
        })
    }
}

const HOME_SIZE: u64 = 1 << 20;

/// What a slot should hold.
type Held = Option<(SlotEntry, Mask)>;

/// A group of changes, as it was asked for.
struct Change {
    /// It is on no medium before this event.
    stamp: u64,
    slots: Vec<(u32, Held)>,
    /// The version of a unit that it relies on.
    version: Option<(u32, u64)>,
}

/// What was asked of a map, and when.
#[derive(Default)]
pub(super) struct Story {
    changes: Vec<Change>,
    /// From this event on, so many changes are there for good.
    promised: Vec<(u64, usize)>,
    /// From this event on, a zone may be touched, or must be, or neither.
    zones: Vec<(u64, u32, Touch)>,
    /// The change that gave a slot up.
    given_up: std::collections::BTreeMap<u32, usize>,
    versions: std::collections::BTreeMap<u32, u64>,
    next_key: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Touch {
    Not,
    May,
    Must,
}

/// A client of a map, which notes what it asks.
struct Client {
    rig: Rig,
    journal: Journal,
    story: RefCell<Story>,
}

impl Client {
    fn now(&self) -> u64 {
        self.journal.points()
    }

    fn change(&self, group: &[(u32, Option<SlotEntry>)], version: Option<(u32, u64)>) {
        let after = version.map_or(LowerSet::NONE, |_| LowerSet::one(HOME));
        self.rig.map.set(group, after);
        self.note(group.iter().map(|(slot, _)| *slot), version);
    }

    fn note(&self, slots: impl Iterator<Item = u32>, version: Option<(u32, u64)>) {
        let held = |slot| (slot, held_by(&self.rig.map, slot));
        let mut story = self.story.borrow_mut();
        let (stamp, slots) = (self.now(), slots.map(held).collect::<Vec<_>>());
        let number = story.changes.len() + 1;
        let gone = slots.iter().filter(|(_, held)| held.is_none()).map(|(slot, _)| (*slot, number));
        story.given_up.extend(gone);
        story.changes.push(Change { stamp, slots, version });
    }

    fn taken(&self) -> Option<u32> {
        let slot = self.rig.map.free(1).pop()?;
        let mut story = self.story.borrow_mut();
        if let Some(number) = story.given_up.remove(&slot) {
            let now = self.now();
            story.promised.push((now, number));
        }
        Some(slot)
    }

    async fn commit(&self) {
        let asked = self.story.borrow().changes.len();
        self.rig.commit().await;
        self.story.borrow_mut().promised.push((self.now(), asked));
    }

    async fn touch(&self, slot: u32) {
        let zone = self.rig.map.layout().zone_of(slot);
        let asked = self.story.borrow().changes.len();
        let is_needed = !self.rig.map.trusts(slot);
        self.story.borrow_mut().zones.push((self.now(), zone, Touch::May));
        self.rig.map.touch(&self.rig.io, &[slot]).await.unwrap();
        let mut story = self.story.borrow_mut();
        story.zones.push((self.now(), zone, Touch::Must));
        if is_needed {
            story.promised.push((self.now(), asked));
        }
    }

    /// Writes a new version of a unit to home.
    async fn version(&self, slot: u32) -> (u32, u64) {
        let version = *self.story.borrow_mut().versions.entry(slot).and_modify(|version| *version += 1).or_insert(1);
        let io = &self.rig.io;
        let mut bytes = vec![0; VERSION as usize];
        bytes[..8].copy_from_slice(&version.to_le_bytes());
        let bio = Bio::write(u64::from(slot) * VERSION, Buf::from_bytes(io.pool(), &bytes)).to(io.lower(HOME));
        assert_eq!(io.submit(bio).await.result.err(), None);
        (slot, version)
    }

    /// Some requests to a part of the slots that is the client's own.
    async fn work(&self, mut rng: Stream, part: u32, parts: u32) {
        for _ in 0..3 {
            let slots = self.rig.map.slots();
            let mine: Vec<u32> =
                (0..slots).filter(|slot| slot % parts == part && self.rig.map.get(*slot).is_some()).collect();
            let pick = (!mine.is_empty()).then(|| mine[rng.below(mine.len() as u64) as usize]);
            match (rng.below(9), pick) {
                (0..3, _) | (_, None) => {
                    let Some(slot) = self.taken() else { continue };
                    if slot % parts != part {
                        self.rig.map.give_back(slot);
                        continue;
                    }
                    let key = std::mem::replace(&mut self.story.borrow_mut().next_key, 0);
                    self.story.borrow_mut().next_key = key + 1;
                    let marks = SlotMarks::of(rng.below(16) as u8).unwrap();
                    self.change(&[(slot, Some(SlotEntry::of(key).with(marks)))], None);
                }
                (3, Some(slot)) => {
                    let version = self.version(slot).await;
                    let entry = self.rig.map.get(slot).unwrap();
                    let flipped = match entry.marks.has(SlotMarks::DIRTY) {
                        true => entry.without(SlotMarks::DIRTY),
                        false => entry.with(SlotMarks::DIRTY),
                    };
                    self.change(&[(slot, Some(flipped))], Some(version));
                }
                (4, Some(slot)) => self.change(&[(slot, None)], None),
                (5, Some(from)) => {
                    let entry = self.rig.map.get(from).unwrap().without(SlotMarks::PART);
                    let Some(to) = self.taken() else { continue };
                    match to % parts == part {
                        true => self.change(&[(from, None), (to, Some(entry))], None),
                        false => self.rig.map.give_back(to),
                    }
                }
                (6, Some(slot)) => {
                    self.rig.map.masked(slot, &Mask::first(rng.below(3)), LowerSet::NONE);
                    self.note([slot].into_iter(), None);
                }
                (7, Some(slot)) => self.touch(slot).await,
                _ => self.commit().await,
            }
        }
    }

    /// Lets zones go quiet.
    async fn quiet(&self) {
        let (map, io) = (&self.rig.map, &self.rig.io);
        map.quiet(io).await.unwrap();
        io.rt().sleep(Nanos::secs(31)).await;
        let start = self.now();
        map.quiet(io).await.unwrap();
        let mut story = self.story.borrow_mut();
        for zone in 0..map.layout().zones {
            story.zones.push((start, zone, Touch::May));
            story.zones.push((self.now(), zone, Touch::Not));
        }
    }

    /// Stops and begins again.
    async fn stop(&self) {
        let (start, asked) = (self.now(), self.story.borrow().changes.len());
        self.rig.settle().await;
        let end = self.now();
        self.rig.begin().await;
        let mut story = self.story.borrow_mut();
        story.promised.push((end, asked));
        for zone in 0..self.rig.map.layout().zones {
            story.zones.push((start, zone, Touch::May));
            story.zones.push((end, zone, Touch::Not));
        }
    }
}

fn held_by(map: &SlotMap, slot: u32) -> Held {
    Some((map.get(slot)?, map.mask(slot).unwrap_or_default()))
}

/// Lives through a story, and gives it with what the devices were asked.
pub(super) fn lived(case: &Case) -> (Journal, Story) {
    let (journal, sim) = (Journal::default(), Sim::new(SimConfig::seeded(case.seed)));
    let (rt, defer) = (sim.rt(), Defer::Always(Nanos::micros(3)));
    let home = Recorder::leaf(&journal, &rt, &Media::new(HOME_SIZE), case.block, defer);
    let fast = Recorder::leaf(&journal, &rt, &Media::new(case.size()), case.block, defer);
    let (case, recorded) = (case.clone(), journal.clone());
    let story = sim.block_on(async move {
        let (rig, _) = Rig::open_on(&rt, [home, fast], &case.shape).await.unwrap();
        rig.begin().await;
        let client = Rc::new(Client { rig, journal: recorded, story: RefCell::default() });
        let mut rng = Stream::named(case.seed, "story");
        for batch in 0..case.batches {
            let parts = (0..2).map(|part| {
                let (client, rng) =
                    (client.clone(), Stream::named(case.seed, &format!("client {part}, batch {batch}")));
                rt.spawn("client", async move { client.work(rng, part, 2).await })
            });
            join_all(parts.collect::<Vec<_>>()).await;
            match rng.below(8) {
                0 => client.quiet().await,
                1 => client.stop().await,
                _ => {}
            }
        }
        let counts = client.rig.map.counts();
        assert!(counts.checkpoints > case.batches / 8, "{counts:?}");
        client.story.take()
    });
    (journal, story)
}

/// What is damaged beside the crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Damage {
    None,
    /// An older head or image may serve, which knows of more touched zones.
    Tables,
    /// The last commit may look as if it had been cut short.
    Journal,
}

/// What holds of a story at one crash point.
pub(super) struct Judge<'a> {
    story: &'a Story,
    /// What the slots hold after each number of changes.
    states: Vec<Vec<Held>>,
    slots: u32,
}

impl Judge<'_> {
    pub(super) fn new<'a>(story: &'a Story, slots: u32) -> Judge<'a> {
        let mut states = vec![vec![None; slots as usize]];
        for change in &story.changes {
            let mut state = states.last().unwrap().clone();
            change.slots.iter().for_each(|(slot, held)| state[*slot as usize] = *held);
            states.push(state);
        }
        Judge { story, states, slots }
    }

    /// How a zone may be found.
    fn zone(&self, point: u64, zone: u32) -> Touch {
        let mut said = self.story.zones.iter().filter(|(stamp, of, _)| *of == zone && *stamp <= point);
        said.next_back().map_or(Touch::Not, |(_, _, touch)| *touch)
    }

    /// Compares what is found with what may be.
    pub(super) fn judge(
        &self,
        point: u64,
        rig: &Rig,
        home: &SparseStore,
        suspects: u64,
        damage: Damage,
    ) -> Result<(), String> {
        let touched: Vec<bool> =
            (0..self.slots).map(|slot| rig.map.zones.borrow().is_touched(rig.map.layout().zone_of(slot))).collect();
        for slot in 0..self.slots {
            let (may, is) = (self.zone(point, rig.map.layout().zone_of(slot)), touched[slot as usize]);
            let is_lost = may == Touch::Must && !is && damage != Damage::Journal;
            if is_lost || may == Touch::Not && is && damage == Damage::None {
                return Err(format!("the zone of slot {slot} is touched: {is}, and {may:?} be so"));
            }
        }
        let promised = self.story.promised.iter().filter(|(stamp, _)| *stamp <= point).map(|(_, count)| *count).max();
        let least = if damage == Damage::Journal { 0 } else { promised.unwrap_or(0) };
        let most = self.story.changes.iter().filter(|change| change.stamp < point).count();
        let found: Vec<Held> = (0..self.slots).map(|slot| held_by(&rig.map, slot)).collect();
        // A change that changes nothing needs no event.
        let most = most.max(least);
        let is_it = |count: &usize| {
            self.expected(*count, &touched) == (found.clone(), suspects) && self.versions_are(*count, home)
        };
        match (least..=most).any(|count| is_it(&count)) {
            true => Ok(()),
            false => {
                Err(format!("no number of changes from {least} to {most} gives {found:?} with {suspects} suspects"))
            }
        }
    }

    /// The slots after so many changes, with the doubt of an unclean stop.
    fn expected(&self, count: usize, touched: &[bool]) -> (Vec<Held>, u64) {
        let (mut state, mut suspects) = (self.states[count].clone(), 0);
        for (held, is_touched) in state.iter_mut().zip(touched) {
            if let Some((entry, _)) =
                held.as_mut().filter(|(entry, _)| *is_touched && !entry.marks.has(SlotMarks::DIRTY))
            {
                *entry = entry.with(SlotMarks::DIRTY);
                suspects += 1;
            }
        }
        (state, suspects)
    }

    /// Whether home has what the changes rely on.
    fn versions_are(&self, count: usize, home: &SparseStore) -> bool {
        let relied = self.story.changes[..count].iter().filter_map(|change| change.version);
        relied.into_iter().all(|(slot, version)| {
            let bytes = store_bytes(home, ByteRange::new(u64::from(slot) * VERSION, 8).unwrap());
            u64::from_le_bytes(bytes.try_into().unwrap()) >= version
        })
    }
}

/// Lives through a story, then opens and judges every state that a power cut could have left.
fn check_all(case: &Case) -> Count {
    let (journal, story) = lived(case);
    let judge = Rc::new((story, case.shape.slots.unwrap() as u32));
    let count = crash::for_each_state(&journal, Bound { states_max: 13, seed: case.seed }, |point, images| {
        let [home, fast] = [0, 1].map(|leaf| images[leaf].over(&SparseStore::default()));
        let judge = judge.clone();
        let media = Media::of(case.size(), fast.clone());
        let judged = case.opened(&fast, async move |rig, found| {
            let suspects = if let Found::Unclean { suspects, .. } = found { suspects } else { 0 };
            Judge::new(&judge.0, judge.1).judge(point, &rig, &home, suspects, Damage::None)?;
            used_again(&rig).await
        });
        let verdict = match checked(&media) {
            Err(MapError::Superblock(esker_framing::SuperblockError::Blank)) => Ok(()),
            Ok(verdict) if verdict.wrong == 0 => Ok(()),
            found => Err(format!("the checker says {found:?}")),
        };
        let judged = judged.map_err(|error| format!("the device {error}")).and_then(|judged| judged).and(verdict);
        judged.map_err(|what| format!("crash before event {point}: {what}; {case:?}"))
    });
    let count = count.unwrap_or_else(|broken| panic!("{broken}"));
    println!("{} crash states: {case:?}", count.states);
    count
}

/// Goes on with a map that a crash left.
async fn used_again(rig: &Rig) -> Result<(), String> {
    rig.begin().await;
    let before = rig.entries();
    for slot in (0..rig.map.slots()).filter(|slot| rig.map.get(*slot).is_some()) {
        rig.give_up(slot);
        rig.commit().await;
    }
    rig.settle().await;
    match before.len() == rig.map.free(usize::MAX).len() {
        true => Ok(()),
        false => Err("not all slots are free".to_string()),
    }
}

#[test]
fn every_crash_state_keeps_what_was_promised_and_doubts_what_was_written() {
    let states: u64 = (1..=4).map(|seed| check_all(&Case::tiny(seed)).states).sum();
    assert!(states > 3000, "only {states} states");
}

#[test]
fn every_crash_state_of_more_slots_keeps_what_was_promised() {
    let wide = |seed| Case { shape: shape(150, 3), batches: 60, ..Case::tiny(seed) };
    let states: u64 = (5..=6).map(|seed| check_all(&wide(seed)).states).sum();
    assert!(states > 2000, "only {states} states");
}

#[test]
fn every_crash_state_over_large_blocks_keeps_what_was_promised() {
    let large = Case { shape: SlotShape { journal: 32 << 10, ..shape(90, 2) }, block: 4096, ..Case::tiny(7) };
    let states = check_all(&large).states;
    assert!(states > 400, "only {states} states");
}

#[test]
fn every_crash_state_of_single_commits_keeps_what_was_promised() {
    let single = Case { shape: SlotShape { commit: CommitRule::Each, ..shape(4, 2) }, ..Case::tiny(8) };
    let states = check_all(&single).states;
    assert!(states > 400, "only {states} states");
}

/// What a second power cut finds while a map is begun after the first one.
#[test]
fn a_power_cut_while_a_map_is_begun_again_changes_nothing() {
    let zones = shape(130, 3);
    let drops = SlotShape { suspects: Suspects::Drop, ..zones.clone() };
    let all = SlotShape { doubt: Doubt::All, ..zones.clone() };
    for (before, after) in [(&zones, &zones), (&all, &zones), (&zones, &drops)] {
        let lived_with = Case { shape: before.clone(), ..Case::tiny(9) };
        check_twice(&lived_with, &Case { shape: after.clone(), ..lived_with.clone() });
    }
}

fn check_twice(lived_with: &Case, case: &Case) {
    let (journal, _) = lived(lived_with);
    let (mut states, mut runs) = (0, 0);
    let outcome = crash::for_each_state(&journal, Bound { states_max: 2, seed: 9 }, |point, images: &[Image]| {
        let image = images[1].over(&SparseStore::default());
        if point % 13 != 0 {
            return Ok(());
        }
        runs += 1;
        let expected = case.opened(&image, async |rig, _| rig.entries()).unwrap();
        let second = begun_again(case, &image);
        let count = crash::for_each_state(&second, Bound { states_max: 9, seed: point }, |at, images| {
            let found = case.opened(&images[1].over(&image), async |rig, _| rig.entries());
            let mut found = found.map_err(|error| format!("event {point}, then {at}: the device {error}"))?;
            // The second run puts one unit into a slot, which may be there.
            let more = found.iter().position(|entry| entry.is_some_and(|entry| entry.key == 999));
            more.into_iter().for_each(|slot| found[slot] = None);
            match found == expected {
                true => Ok(()),
                false => Err(format!("event {point}, then {at}: {found:?} instead of {expected:?}")),
            }
        })?;
        states += count.states;
        Ok(())
    });
    outcome.unwrap_or_else(|what: String| panic!("{what}"));
    println!("{states} crash states of {runs} runs");
    assert!(runs > 10 && states > 500, "{states} states of {runs} runs");
}

/// The journal of opening and beginning a map, and of one change.
pub(super) fn begun_again(case: &Case, image: &SparseStore) -> Journal {
    let (journal, sim) = (Journal::default(), Sim::new(SimConfig::seeded(2)));
    let (rt, shape, defer) = (sim.rt(), case.shape.clone(), Defer::Always(Nanos(1000)));
    let home = Recorder::leaf(&journal, &rt, &Media::new(HOME_SIZE), case.block, defer);
    let fast = Recorder::leaf(&journal, &rt, &Media::of(case.size(), image.clone()), case.block, defer);
    sim.block_on(async move {
        let (rig, _) = Rig::open_on(&rt, [home, fast], &shape).await.unwrap();
        rig.begin().await;
        if let Some(slot) = rig.map.free(1).pop() {
            rig.map.set(&[(slot, Some(SlotEntry::of(999).with(SlotMarks::DIRTY)))], LowerSet::NONE);
            rig.commit().await;
        }
    });
    journal
}
