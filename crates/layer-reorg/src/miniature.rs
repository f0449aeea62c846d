//! A reorganised disk in miniature: what a setting would cost, by the model of a disk and without any stack.
//!
//! It decides as the layer does, and asks the disk's pure function for the time of each access, one after the other. So
//! it needs no world of its own, and runs wherever a worker does. The area is taken to lie behind home.

use std::collections::{BTreeMap, BTreeSet};

use esker_base::{ByteRange, Nanos, Time};
use esker_dev_sim::Access;
use esker_dev_sim::disk_model::DiskModel;
use esker_dev_sim::disk_model::model::ArmState;

use crate::PAGE;
use crate::layout::{Slot, Steps, assign, steps};
use crate::planner::Plan;
use crate::profile::AccessRecord;

/// Pages that go from one place to another at once.
const BATCH: usize = 1024;
/// Bytes a second at which a write goes on where the last one ended, while it waited for it.
const RATE: u64 = 100_000_000;

/// A disk that serves one access after the other.
struct Arm<'a> {
    model: &'a DiskModel,
    head: ArmState,
    free: Time,
    written_to: u64,
    busy: Nanos,
}

impl Arm<'_> {
    fn serve(&mut self, at: Time, range: ByteRange, write: bool) {
        let start = at.max(self.free);
        let goes_on = write && self.written_to == range.start() && at <= self.free;
        let took = if goes_on {
            Nanos::transfer(range.len(), RATE)
        } else {
            let placed = self.model.locate(Access { range, write });
            let plan = self.model.serve(&mut self.head, &placed, start, start);
            self.head.note(write);
            plan.free.since(start)
        };
        self.free = start + took;
        self.busy += took;
        self.written_to = if write { range.end() } else { u64::MAX };
    }
}

/// The disk, the area and what lies in it.
pub(crate) struct Miniature<'a> {
    arm: Arm<'a>,
    /// Where the area begins on the disk.
    area: u64,
    slots: Slot,
    reads: Slot,
    hand: Slot,
    /// Copies by page: their slots, and whether they are newer than home.
    copies: BTreeMap<u64, (Slot, bool)>,
    used: Vec<bool>,
    filled: Slot,
    /// Slots of the ring that were taken since the last plan.
    taken: Slot,
}

impl<'a> Miniature<'a> {
    /// With a plan in force, whose making is not counted.
    pub(crate) fn new(model: &'a DiskModel, area: u64, slots: Slot, reads: Slot, plan: &Plan) -> Miniature<'a> {
        let arm = Arm { model, head: ArmState::default(), free: Time::ZERO, written_to: u64::MAX, busy: Nanos::ZERO };
        let mut mini = Miniature {
            arm,
            area,
            slots,
            reads,
            hand: reads,
            copies: BTreeMap::new(),
            used: vec![false; slots as usize],
            filled: 0,
            taken: 0,
        };
        for (page, slot) in assign(plan, &BTreeMap::new(), reads) {
            mini.put(page, slot, false);
        }
        mini
    }

    /// Time in which the disk was busy.
    pub(crate) fn busy(&self) -> Nanos {
        self.arm.busy
    }

    fn put(&mut self, page: u64, slot: Slot, is_dirty: bool) {
        self.used[slot as usize] = true;
        self.filled += Slot::from(slot >= self.reads);
        self.copies.insert(page, (slot, is_dirty));
    }

    fn take(&mut self, page: u64) -> Option<(Slot, bool)> {
        let (slot, is_dirty) = self.copies.remove(&page)?;
        self.used[slot as usize] = false;
        self.filled -= Slot::from(slot >= self.reads);
        Some((slot, is_dirty))
    }

    /// A request of a client.
    pub(crate) fn serve(&mut self, record: &AccessRecord) {
        let pages = record.page..record.end();
        let slot_of = |copies: &BTreeMap<u64, (Slot, bool)>, page: u64| copies.get(&page).copied();
        if !record.changes {
            let found: Vec<_> = pages.clone().map(|page| slot_of(&self.copies, page)).collect();
            let all = found.iter().all(Option::is_some);
            let any_dirty = found.iter().flatten().any(|(_, is_dirty)| *is_dirty);
            let places = pages.zip(found).map(|(page, copy)| match copy.filter(|_| all || any_dirty) {
                Some((slot, _)) => self.slot_at(slot),
                None => page * PAGE,
            });
            let places: Vec<u64> = places.collect();
            return self.access(record.at, &places, false);
        }
        let mut places = Vec::new();
        for page in pages {
            let slot = match slot_of(&self.copies, page) {
                Some((slot, _)) => Some(slot),
                None => self.next_of_ring(),
            };
            match slot {
                Some(slot) => {
                    self.take(page);
                    self.put(page, slot, true);
                    places.push(self.slot_at(slot));
                }
                None => places.push(page * PAGE),
            }
        }
        self.access(record.at, &places, true);
    }

    fn next_of_ring(&mut self) -> Option<Slot> {
        if self.filled >= self.slots - self.reads {
            return None;
        }
        loop {
            let slot = self.hand;
            self.hand = if slot + 1 < self.slots { slot + 1 } else { self.reads };
            if !self.used[slot as usize] {
                self.taken += 1;
                return Some(slot);
            }
        }
    }

    fn slot_at(&self, slot: Slot) -> u64 {
        self.area + u64::from(slot) * PAGE
    }

    /// Pages at these places, those that follow each other at once.
    fn access(&mut self, at: Time, places: &[u64], write: bool) {
        for run in places.chunk_by(|a, b| a + PAGE == *b) {
            if let Some(range) = ByteRange::new(run[0], run.len() as u64 * PAGE) {
                self.arm.serve(at, range, write);
            }
        }
    }

    /// A new plan is carried out.
    pub(crate) fn reorganise(&mut self, at: Time, plan: &Plan) {
        let now: BTreeMap<u64, Slot> = self.copies.iter().map(|(page, (slot, _))| (*page, *slot)).collect();
        let then = assign(plan, &now, self.reads);
        let ring = self.slots - self.reads;
        let want = (std::mem::take(&mut self.taken) / 4 * 5).min(ring).saturating_sub(ring - self.filled);
        let behind_hand = (self.hand..self.slots).chain(self.reads..self.hand);
        let goes: BTreeSet<Slot> = behind_hand.filter(|slot| self.used[*slot as usize]).take(want as usize).collect();
        let Steps { out, moves, fetched } =
            steps(&now, &then, self.reads.saturating_sub(1), |slot| goes.contains(&slot));
        for some in out.chunks(BATCH) {
            let gone: Vec<(u64, Slot, bool)> = some
                .iter()
                .filter_map(|page| self.take(*page).map(|(slot, is_dirty)| (*page, slot, is_dirty)))
                .collect();
            let dirty = || gone.iter().filter(|(_, _, is_dirty)| *is_dirty);
            let slots = dirty().map(|(_, slot, _)| self.slot_at(*slot)).collect();
            let homes = dirty().map(|(page, ..)| page * PAGE).collect();
            self.copy(at, slots, homes);
        }
        for some in moves.iter().flat_map(|round| round.chunks(BATCH)) {
            let places = |of: fn(&crate::SlotMove) -> Slot| some.iter().map(|one| self.slot_at(of(one))).collect();
            let (from, to) = (places(|one| one.from), places(|one| one.to));
            self.copy(at, from, to);
        }
        let dirty: BTreeMap<u64, bool> = self.copies.iter().map(|(page, (_, is_dirty))| (*page, *is_dirty)).collect();
        for some in fetched.chunks(BATCH) {
            let homes = some.iter().map(|(page, _)| page * PAGE).collect();
            let slots = some.iter().map(|(_, slot)| self.slot_at(*slot)).collect();
            self.copy(at, homes, slots);
        }
        let moved: Vec<u64> = then.keys().copied().collect();
        for page in moved {
            self.take(page);
        }
        for (page, slot) in then {
            self.put(page, slot, dirty.get(&page).copied().unwrap_or(false));
        }
    }

    fn copy(&mut self, at: Time, mut from: Vec<u64>, mut to: Vec<u64>) {
        from.sort_unstable();
        to.sort_unstable();
        self.access(at, &from, false);
        self.access(at, &to, true);
    }
}
