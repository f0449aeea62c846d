//! Random histories against a plain model, with stops and crashes between requests.

use std::cell::RefCell;
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const SLOTS: u32 = 12;
const ZONES_OF_IT: u32 = 3;
/// Pages of a slot.
const PAGES: u64 = 128;

#[derive(Clone, Debug)]
enum Act {
    /// Put a new unit into a free slot, with these marks.
    Fill(u8),
    /// Change the marks of a slot.
    Mark(u32, u8),
    /// Say which pages are there.
    Mask(u32, u64, u64),
    Move(u32),
    GiveUp(u32),
    Commit,
    Touch(u32),
    Stop,
    Crash,
}

fn act() -> impl Strategy<Value = Act> {
    let slot = 0..SLOTS;
    prop_oneof![
        4 => (0u8..16).prop_map(Act::Fill),
        3 => (slot.clone(), 0u8..16).prop_map(|(slot, marks)| Act::Mark(slot, marks)),
        2 => (slot.clone(), 0..=PAGES, 0..PAGES).prop_map(|(slot, pages, more)| Act::Mask(slot, pages, more)),
        2 => slot.clone().prop_map(Act::Move),
        3 => slot.clone().prop_map(Act::GiveUp),
        6 => Just(Act::Commit),
        1 => slot.prop_map(Act::Touch),
        1 => Just(Act::Stop),
        1 => Just(Act::Crash),
    ]
}

/// What a slot should hold.
type Held = Option<(SlotEntry, Mask)>;

/// What should be there.
#[derive(Clone)]
struct Model {
    now: Vec<Held>,
    durable: Vec<Held>,
    /// Slots that were given up since the last commit, or are taken.
    busy: BTreeSet<u32>,
    touched: BTreeSet<u32>,
    next_key: u64,
}

impl Model {
    fn put(&mut self, slot: u32, entry: SlotEntry) {
        let is_part = entry.marks.has(SlotMarks::PART);
        let mask = match self.now[slot as usize] {
            None => Mask::NONE,
            Some((old, mask)) if old.marks.has(SlotMarks::PART) => mask,
            Some(_) => Mask::first(PAGES),
        };
        self.now[slot as usize] = Some((entry, if is_part { mask } else { Mask::NONE }));
    }

    fn commit(&mut self) {
        self.durable = self.now.clone();
        self.busy.clear();
    }

    fn crash(&mut self) {
        for (slot, held) in self.durable.iter_mut().enumerate() {
            if let Some((entry, _)) =
                held.as_mut().filter(|_| self.touched.contains(&(slot as u32 * ZONES_OF_IT / SLOTS)))
            {
                *entry = entry.with(SlotMarks::DIRTY);
            }
        }
        self.now = self.durable.clone();
        self.busy.clear();
    }
}

fn held(map: &SlotMap) -> Vec<Held> {
    (0..SLOTS).map(|slot| Some((map.get(slot)?, map.mask(slot).unwrap_or_default()))).collect()
}

/// Does one act to a map in use and to its model.
async fn act_on(rig: &Rig, model: &mut Model, act: &Act) {
    let marks = |bits: u8| SlotMarks::of(bits).unwrap();
    let entry_of = |model: &Model, slot: u32| model.now[slot as usize].map(|(entry, _)| entry);
    match *act {
        Act::Fill(bits) => {
            let Some(slot) = rig.map.free(1).pop() else { return };
            assert!(model.now[slot as usize].is_none() && !model.busy.contains(&slot), "slot {slot} is not free");
            model.next_key += 1;
            let entry = SlotEntry { cursor: u16::from(bits) * 100, ..SlotEntry::of(model.next_key).with(marks(bits)) };
            rig.map.set(&[(slot, Some(entry))], LowerSet::NONE);
            model.put(slot, entry);
        }
        Act::Mark(slot, bits) => {
            let Some(entry) = entry_of(model, slot) else { return };
            let entry = SlotEntry { marks: marks(bits), cursor: u16::from(bits), ..entry };
            rig.map.set(&[(slot, Some(entry))], LowerSet::one(HOME));
            model.put(slot, entry);
        }
        Act::Mask(slot, pages, more) => {
            let Some(entry) = entry_of(model, slot) else { return };
            let mut mask = Mask::first(pages);
            mask.set(more);
            rig.map.masked(slot, &mask, LowerSet::NONE);
            let is_whole = mask == Mask::first(PAGES);
            let entry = if is_whole { entry.without(SlotMarks::PART) } else { entry.with(SlotMarks::PART) };
            model.now[slot as usize] = Some((entry, if is_whole { Mask::NONE } else { mask }));
        }
        Act::Move(from) => {
            let Some(entry) = entry_of(model, from).filter(|entry| !entry.marks.has(SlotMarks::PART)) else { return };
            let Some(to) = rig.map.free(1).pop() else { return };
            rig.map.set(&[(from, None), (to, Some(entry))], LowerSet::NONE);
            model.now[from as usize] = None;
            model.busy.insert(from);
            model.put(to, entry);
        }
        Act::GiveUp(slot) => {
            rig.give_up(slot);
            if model.now[slot as usize].take().is_some() {
                model.busy.insert(slot);
            }
        }
        Act::Commit => {
            rig.commit().await;
            model.commit();
        }
        Act::Touch(slot) => {
            if !rig.map.trusts(slot) {
                rig.map.touch(&rig.io, &[slot]).await.unwrap();
                model.commit();
            }
            model.touched.insert(slot * ZONES_OF_IT / SLOTS);
        }
        Act::Stop | Act::Crash => unreachable!("they end a run"),
    }
}

/// One run of a map, up to a stop or a crash.
fn run(media: &Rc<Media>, shape: &SlotShape, model: Model, acts: Vec<Act>, is_clean: bool) -> Model {
    on(media, shape, async move |rig, found| {
        assert!(held(&rig.map) == model.now, "{found:?}: {:?} instead of {:?}", held(&rig.map), model.now);
        rig.begin().await;
        let mut model = model;
        for act in &acts {
            act_on(&rig, &mut model, act).await;
            assert!(held(&rig.map) == model.now, "after {act:?}");
        }
        match is_clean {
            true => {
                rig.settle().await;
                model.commit();
                model.touched.clear();
            }
            false => model.crash(),
        }
        model
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn a_map_is_its_model(acts in prop::collection::vec(act(), 1..120), each in prop::bool::weighted(0.2)) {
        let commit = if each { CommitRule::Each } else { CommitRule::Group };
        let shape = SlotShape { unit: 4096 * PAGES, commit, ..shape(u64::from(SLOTS), ZONES_OF_IT) };
        let media = medium(&shape);
        let empty = vec![None; SLOTS as usize];
        let (busy, touched) = (BTreeSet::new(), BTreeSet::new());
        let mut model = Model { now: empty.clone(), durable: empty, busy, touched, next_key: 0 };
        for part in acts.split_inclusive(|act| matches!(act, Act::Stop | Act::Crash)) {
            let (ends, acts): (Vec<Act>, Vec<Act>) = part.iter().cloned().partition(|act| matches!(act, Act::Stop | Act::Crash));
            model = run(&media, &shape, model, acts, matches!(ends[..], [Act::Stop]));
            let verdict = checked(&media).unwrap();
            assert_eq!(verdict.wrong, 0, "{verdict:?}");
        }
    }
}

/// A map whose changes overtake each other during a checkpoint loses none of them.
#[test]
fn changes_go_on_while_a_checkpoint_is_written() {
    let shape = shape(400, 4);
    let media = medium(&shape);
    let left: Vec<Option<SlotEntry>> = begun(&media, &shape, async |rig| {
        let order = Rc::new(RefCell::new(0u64));
        let tasks = (0..20).map(|_| {
            let (rig, order) = (rig.clone(), order.clone());
            rig.io.rt().clone().spawn("client", async move {
                for _ in 0..15 {
                    let key = order.replace_with(|key| *key + 1);
                    let slot = rig.fill(key, SlotMarks::DIRTY);
                    rig.commit().await;
                    if key % 3 == 0 {
                        rig.give_up(slot);
                    }
                }
            })
        });
        esker_rt::sync::join_all(tasks.collect::<Vec<_>>()).await;
        rig.commit().await;
        let counts = rig.map.counts();
        assert!(counts.checkpoints > 4, "{counts:?}");
        rig.entries()
    });
    assert_eq!(left.iter().flatten().count(), 200);
    on(&media, &shape, async move |rig, _| assert!(rig.entries() == left));
}
