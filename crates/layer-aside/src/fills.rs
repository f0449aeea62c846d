//! Copies that reads make. A fill looks whether a change of the unit came between, and is dropped then.

use std::rc::Rc;

use esker_base::{ByteRange, span};
use esker_block::{Bio, BioError, Buf, Done, WorkPermit};
use esker_caching::Slot;
use esker_layer_kit::Io;
use esker_layer_kit::gate::Watch;
use esker_layer_kit::slots::{LowerSet, SlotMarks};

use crate::counts::add;
use crate::director::{Access, Director, Fill};
use crate::engine::{Aside, BACKGROUND};
use crate::{FAST, HOME};

/// Units on their way to a copy at which no more reads begin a fill. Clients do not wait for fills, but a disk that is
/// busy with fills lets them wait.
const FILLS_MAX: usize = 8;
/// Units on their way to a copy at most.
const COPIES_MAX: usize = 64;

/// A unit that a read missed, and the watch over it from before the read.
pub(crate) struct Missed {
    pub unit: u64,
    watch: Watch,
}

impl<D: Director> Aside<D> {
    /// A read misses a unit: whether it is filled.
    pub(crate) fn begin_fill(&self, unit: u64, access: Access) -> Option<(Missed, Fill)> {
        let fill = self.director.borrow_mut().read_miss(unit, access);
        if fill == Fill::No {
            return None;
        }
        if self.filling.borrow().len() >= FILLS_MAX {
            add(&self.counts.fills_dropped, 1);
            return None;
        }
        self.begin_copy(unit).map(|missed| (missed, fill))
    }

    /// A copy of a unit from home begins: a watch over it, if it may.
    pub(crate) fn begin_copy(&self, unit: u64) -> Option<Missed> {
        let range = self.units.range(unit);
        if self.latch.is_set() || self.is_settled.get() || range.end() > self.config.size {
            return None;
        }
        let mut filling = self.filling.borrow_mut();
        if filling.len() >= COPIES_MAX || !filling.insert(unit) {
            add(&self.counts.fills_dropped, 1);
            return None;
        }
        Some(Missed { unit, watch: self.gate.watch(range, self.units.unit()) })
    }

    /// A fill has ended.
    pub(crate) fn fill_ended(&self, unit: u64, is_filled: bool) {
        self.filling.borrow_mut().remove(&unit);
        add(if is_filled { &self.counts.fills } else { &self.counts.fills_dropped }, 1);
    }

    /// What is below, for a piece of work that no request waits for.
    pub(crate) async fn enter(&self) -> Option<(WorkPermit, Io)> {
        let permit = self.handle.get()?.enter().await?;
        let io = self.io(&permit);
        Some((permit, io))
    }

    /// Fills a unit of which a read has brought a part.
    pub(crate) fn fill_behind(self: &Rc<Self>, missed: Missed, part: ByteRange, payload: Buf) {
        let aside = self.clone();
        let work = async move {
            let filled = match aside.enter().await {
                Some((_permit, io)) => aside.fill(&io, &missed, part, payload).await,
                None => false,
            };
            aside.fill_ended(missed.unit, filled);
        };
        self.rt.spawn("aside-fill", work).detach();
    }

    async fn fill(&self, io: &Io, missed: &Missed, part: ByteRange, payload: Buf) -> bool {
        if !self.may_publish(missed) {
            return false;
        }
        let Some(slot) = self.take_free() else { return false };
        self.fill_slot(io, missed, part, payload, slot).await
    }

    /// The same, to a slot that was taken.
    pub(crate) async fn fill_slot(&self, io: &Io, missed: &Missed, part: ByteRange, payload: Buf, slot: Slot) -> bool {
        let copied = async {
            let unit = self.with_rest(io, missed.unit, part, payload).await?;
            self.write_unit(io, slot, unit).await
        };
        let is_copied = copied.await.is_ok() && self.may_publish(missed);
        match is_copied {
            true => self.publish(missed.unit, slot, SlotMarks::default(), LowerSet::one(FAST)),
            false => self.units.map.give_back(slot),
        }
        is_copied
    }

    pub(crate) fn may_publish(&self, missed: &Missed) -> bool {
        let is_same = !missed.watch.is_changed() && !self.is_settled.get() && !self.units.map.is_full();
        is_same && self.units.find(missed.unit).is_none() && !self.arriving.borrow().contains(&missed.unit)
    }

    /// All bytes of a unit: those of a part, and the others from home.
    async fn with_rest(&self, io: &Io, unit: u64, part: ByteRange, payload: Buf) -> Result<Buf, BioError> {
        let range = self.units.range(unit);
        let before = span(range.start(), part.start() - range.start());
        let behind = span(part.end(), range.end() - part.end());
        let rest = match (before.is_empty(), behind.is_empty()) {
            (true, true) => return Ok(payload),
            // One request: a disk that reads around the part turns once more than one that reads all.
            (false, false) => return self.read_home(io, range, &payload).await,
            (false, true) => self.read_home(io, before, &payload).await?,
            (true, false) => self.read_home(io, behind, &payload).await?,
        };
        Ok(Buf::chain(if behind.is_empty() { vec![rest, payload] } else { vec![payload, rest] }))
    }

    pub(crate) async fn read_home(&self, io: &Io, range: ByteRange, like: &Buf) -> Result<Buf, BioError> {
        let mut bufs = Vec::new();
        for piece in self.pieces(range) {
            let buf = like.like(&self.pool, piece.len() as usize);
            let read = Bio::read(piece.start(), buf).to(io.lower(HOME)).tagged(BACKGROUND);
            let returned = io.send(read).await;
            returned.result?;
            bufs.push(returned.bio.buf);
        }
        Ok(Buf::chain(bufs))
    }

    /// Ranges that one request may have.
    pub(crate) fn pieces(&self, range: ByteRange) -> impl Iterator<Item = ByteRange> + use<D> {
        let most = self.config.transfer_max;
        (0..range.len().div_ceil(most)).map(move |number| {
            let from = range.start() + number * most;
            span(from, most.min(range.end() - from))
        })
    }

    async fn write_unit(&self, io: &Io, slot: Slot, mut unit: Buf) -> Result<(), BioError> {
        let to = span(self.units.map.data_at(slot), self.units.unit());
        for piece in self.pieces(to) {
            let buf = unit.slice((piece.start() - to.start()) as usize, piece.len() as usize);
            let written = io.send(Bio::write(piece.start(), buf).to(io.lower(FAST)).tagged(BACKGROUND)).await;
            self.wrote(FAST);
            written.result?;
        }
        Ok(())
    }

    /// Reads a unit from home, makes a copy of it, and answers a read with a part of it.
    pub(crate) async fn fill_before(&self, io: &Io, bio: Bio, missed: Missed) -> Done {
        let range = self.units.range(missed.unit);
        let mut unit = match self.read_home(io, range, &bio.buf).await {
            Ok(unit) => unit,
            Err(error) => {
                self.fill_ended(missed.unit, false);
                return bio.fail(error);
            }
        };
        let (at, len) = ((bio.offset() - range.start()) as usize, bio.buf.len());
        let buf = unit.slice(at, len);
        let is_filled = self.fill(io, &missed, range, unit).await;
        self.fill_ended(missed.unit, is_filled);
        Done { buf, ..bio.ok() }
    }
}
