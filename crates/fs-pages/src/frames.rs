//! The frames: their slots, the index, and which of them leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use esker_base::digest::mix;
use esker_block::Buf;
use esker_caching::{Lines, Policy, Slot};
use esker_vfs::Ino;

use crate::config::{Between, FrameClass, PageCacheConfig};

/// Where a frame lies: its file, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FrameId {
    pub(crate) ino: Ino,
    pub(crate) nr: u64,
}

/// Frames of a file.
pub(crate) fn ids(ino: Ino, nrs: &Range<u64>) -> Range<FrameId> {
    FrameId { ino, nr: nrs.start }..FrameId { ino, nr: nrs.end }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameState {
    /// As on the medium.
    Clean,
    /// Newer than the medium, and than what the owner is writing.
    Dirty,
    /// The owner writes it, by this ticket.
    Frozen(u64),
}

pub(crate) struct Frame {
    pub(crate) id: FrameId,
    pub(crate) class: FrameClass,
    pub(crate) bytes: Buf,
    pub(crate) state: FrameState,
    /// Writers that rely on its presence.
    pub(crate) holds: u32,
    /// A reader that comes here wants more.
    pub(crate) is_mark: bool,
}

/// All frames. `None` stands for a slot that is free.
struct Slots(Vec<Option<Frame>>);

impl Lines for Slots {
    fn key(&self, slot: Slot) -> u64 {
        self.0[slot as usize].as_ref().map_or(0, |frame| key(frame.id))
    }

    fn is_held(&self, slot: Slot) -> bool {
        self.0[slot as usize].as_ref().is_none_or(|frame| frame.holds > 0 || frame.state != FrameState::Clean)
    }
}

fn key(id: FrameId) -> u64 {
    mix(id.ino.0) ^ id.nr
}

pub(crate) struct Frames {
    slots: Slots,
    most: usize,
    free: Vec<Slot>,
    index: BTreeMap<FrameId, Slot>,
    dirty: BTreeSet<FrameId>,
    /// One policy for each class.
    orders: Vec<Box<dyn Policy>>,
    /// Frames of each class.
    counts: Vec<u32>,
    between: Between,
    pub(crate) evicted: u64,
}

impl Frames {
    pub(crate) fn new(config: &PageCacheConfig) -> Frames {
        let (most, classes) = (config.frames(), config.between.classes());
        Frames {
            slots: Slots(Vec::new()),
            most: most as usize,
            free: Vec::new(),
            index: BTreeMap::new(),
            dirty: BTreeSet::new(),
            orders: (0..classes).map(|_| (config.policy)(most as u32)).collect(),
            counts: vec![0; classes],
            between: config.between.clone(),
            evicted: 0,
        }
    }

    /// How many frames are there.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn has(&self, id: FrameId) -> bool {
        self.index.contains_key(&id)
    }

    /// The frame, without a use of it.
    pub(crate) fn get_mut(&mut self, id: FrameId) -> Option<&mut Frame> {
        let slot = *self.index.get(&id)?;
        self.slots.0[slot as usize].as_mut()
    }

    /// The frame, which a reader or writer uses.
    pub(crate) fn hit(&mut self, id: FrameId) -> Option<&mut Frame> {
        let slot = *self.index.get(&id)?;
        let frame = self.slots.0[slot as usize].as_mut()?;
        self.orders[usize::from(frame.class.0)].hit(slot);
        Some(frame)
    }

    /// Puts a clean frame in. `must` says that it may take the place of any other clean frame. `None` if no frame may
    /// leave.
    pub(crate) fn insert(&mut self, id: FrameId, class: FrameClass, bytes: Buf, must: bool) -> Option<&mut Frame> {
        let class = FrameClass(class.0.min((self.orders.len() - 1) as u8));
        let order = usize::from(class.0);
        let recall = self.orders[order].miss(key(id));
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.0.len() < self.most => {
                self.slots.0.push(None);
                (self.slots.0.len() - 1) as Slot
            }
            None => self.evict(class, must)?,
        };
        self.orders[order].insert(slot, key(id), recall);
        self.counts[order] += 1;
        self.index.insert(id, slot);
        let frame = Frame { id, class, bytes, state: FrameState::Clean, holds: 0, is_mark: false };
        Some(self.slots.0[slot as usize].insert(frame))
    }

    /// Frees the slot of a frame that leaves for one of `class`.
    fn evict(&mut self, class: FrameClass, must: bool) -> Option<Slot> {
        for victim in self.victims(class, must) {
            let Some(slot) = self.orders[victim].evict(Default::default(), &self.slots) else { continue };
            self.counts[victim] -= 1;
            self.evicted += 1;
            if let Some(frame) = self.slots.0[slot as usize].take() {
                self.index.remove(&frame.id);
            }
            return Some(slot);
        }
        None
    }

    /// Classes in the order in which they give frames up.
    fn victims(&self, class: FrameClass, must: bool) -> Vec<usize> {
        let mut all = (0..self.orders.len()).rev().collect::<Vec<_>>();
        match &self.between {
            Between::Strict(_) if must => {}
            Between::Strict(_) => all.retain(|other| *other >= usize::from(class.0)),
            Between::Caps(caps) => {
                let above = |order: &usize| i64::from(self.counts[*order]) - i64::from(caps[*order]);
                all.sort_by_key(|order| std::cmp::Reverse(above(order)));
            }
        }
        all
    }

    /// Takes a frame out, whatever its state.
    pub(crate) fn remove(&mut self, id: FrameId) -> Option<Frame> {
        let slot = self.index.remove(&id)?;
        let frame = self.slots.0[slot as usize].take()?;
        let order = usize::from(frame.class.0);
        self.orders[order].remove(slot);
        self.counts[order] -= 1;
        self.dirty.remove(&id);
        self.free.push(slot);
        Some(frame)
    }

    /// Sets the state of a frame. Answers the one before.
    pub(crate) fn set_state(&mut self, id: FrameId, state: FrameState) -> Option<FrameState> {
        let frame = self.get_mut(id)?;
        let before = std::mem::replace(&mut frame.state, state);
        match state {
            FrameState::Dirty => self.dirty.insert(id),
            FrameState::Clean | FrameState::Frozen(_) => self.dirty.remove(&id),
        };
        Some(before)
    }

    /// Frames of `nrs` that are there, in their order.
    pub(crate) fn present(&self, ino: Ino, nrs: &Range<u64>) -> Vec<FrameId> {
        self.index.range(ids(ino, nrs)).map(|(id, _)| *id).collect()
    }

    /// Dirty frames of `nrs`, in their order.
    pub(crate) fn dirty(&self, ino: Ino, nrs: &Range<u64>) -> impl Iterator<Item = u64> + '_ {
        self.dirty.range(ids(ino, nrs)).map(|id| id.nr)
    }

    /// Files with dirty frames, in the order of their numbers.
    pub(crate) fn dirty_inodes(&self) -> Vec<Ino> {
        let mut inodes = Vec::new();
        let mut from = FrameId { ino: Ino(0), nr: 0 };
        while let Some(id) = self.dirty.range(from..).next() {
            inodes.push(id.ino);
            from = match id.ino.0.checked_add(1) {
                Some(next) => FrameId { ino: Ino(next), nr: 0 },
                None => break,
            };
        }
        inodes
    }
}
