//! Copies that a kind places by itself: it says which units get one and in which slots, moves copies from slot to slot,
//! and writes them home. All of it is optimistic, as fills and write-back are.
//!
//! Each call does many units at once, so that the requests below can be sorted and joined. It sends few at a time, and
//! lets clients go first in between. Its payloads are in memory meanwhile: calls are for at most [`PLACED_MAX`] units.

use std::rc::Rc;

use esker_base::{Nanos, span};
use esker_block::flight::WIDTH;
use esker_block::{Bio, BioError, Buf};
use esker_caching::Slot;
use esker_layer_kit::Io;
use esker_layer_kit::gate::{Changed, Watch};
use esker_layer_kit::io::Returned;
use esker_layer_kit::slots::{LowerSet, SlotEntry, SlotMap, SlotMarks};

use crate::counts::add;
use crate::director::Director;
use crate::engine::{Aside, BACKGROUND};
use crate::{FAST, HOME};

/// Units of one call at most.
pub const PLACED_MAX: usize = 1024;
/// How long no client asks for anything before a call goes on.
const QUIET: Nanos = Nanos::millis(5);
/// How long a call waits for that at most, so that it comes to its end on a disk that is never quiet.
const PATIENCE: Nanos = Nanos::secs(1);

/// The free slots of a map, for a kind that chooses them.
pub struct Free<'a>(pub(crate) &'a SlotMap);

impl Free<'_> {
    /// Takes up to so many free slots, whichever.
    pub fn any(&self, want: usize) -> Vec<Slot> {
        self.0.free(want)
    }

    /// Takes this one, if it is free.
    pub fn one(&self, slot: Slot) -> bool {
        self.0.take(slot)
    }
}

/// A unit that is on its way to a slot, which is held for it.
struct Placed {
    unit: u64,
    from: Option<Slot>,
    to: Slot,
    buf: Option<Buf>,
}

/// Changes of the units of a call, from its begin on: one watch over all that lies between the first and the last.
struct Watched {
    watch: Option<Watch>,
    first: u64,
    changed: Vec<Changed>,
}

impl Watched {
    /// Whether a unit has changed up to now.
    fn is_changed(&mut self, unit: u64) -> bool {
        let Some(watch) = &self.watch else { return true };
        if watch.is_changed() {
            self.changed.push(watch.take());
        }
        self.changed.iter().any(|changed| changed.has(unit - self.first))
    }
}

impl<D: Director> Aside<D> {
    /// All copies: their units, their slots, and whether each is newer than home.
    pub fn copies(&self) -> Vec<(u64, Slot, bool)> {
        let entry = |slot| self.units.map.get(slot).map(|entry| (entry.key, slot, entry.marks.has(SlotMarks::DIRTY)));
        (0..self.units.map.slots()).filter_map(entry).collect()
    }

    /// How long it takes at least until no client has asked for anything for a while.
    pub fn until_quiet(&self) -> Nanos {
        match self.gate.is_empty() {
            true => QUIET.saturating_sub(self.rt.now().since(self.asked_last.get())),
            false => QUIET,
        }
    }

    /// Sends requests, few at a time, whenever no client asks for anything.
    async fn send_quietly(&self, io: &Io, bios: Vec<Bio>) -> Vec<Returned> {
        let mut returned = Vec::with_capacity(bios.len());
        let mut bios = bios.into_iter();
        loop {
            let some: Vec<Bio> = bios.by_ref().take(WIDTH).collect();
            if some.is_empty() {
                return returned;
            }
            let begun = self.rt.now();
            while self.until_quiet() > Nanos::ZERO && self.rt.now().since(begun) < PATIENCE && !self.drains.get() {
                self.rt.sleep(self.until_quiet()).await;
            }
            returned.extend(io.all(some, WIDTH).await);
        }
    }

    fn watch_over(&self, units: impl Iterator<Item = u64> + Clone) -> Watched {
        let (first, last) = (units.clone().min(), units.max());
        let watch = first.zip(last).map(|(first, last)| {
            let range = self.units.range(first).start()..self.units.range(last).end();
            self.gate.watch(span(range.start, range.end - range.start), self.units.unit())
        });
        Watched { watch, first: first.unwrap_or(0), changed: Vec::new() }
    }

    /// Makes all changes of the map durable, so that slots which were given up can be used.
    ///
    /// # Errors
    /// The devices'; the layer is latched then.
    pub async fn settle_slots(&self, io: &Io) -> Result<(), BioError> {
        self.commit(io).await
    }

    /// Gives units a copy in a slot each. A unit that has one, that changes meanwhile, or whose slot is not free, is
    /// left out. Answers how many have it.
    ///
    /// # Errors
    /// The devices'. What was copied before counts.
    pub async fn fetch_all(self: &Rc<Self>, io: &Io, wanted: &[(u64, Slot)]) -> Result<u64, BioError> {
        let mut placed = Vec::with_capacity(wanted.len());
        for (unit, to) in wanted.iter().copied() {
            let is_there = self.units.find(unit).is_some() || self.units.range(unit).end() > self.config.size;
            if !is_there && !self.is_settled.get() && !self.latch.is_set() && self.units.map.take(to) {
                placed.push(Placed { unit, from: None, to, buf: None });
            }
        }
        let mut watched = self.watch_over(placed.iter().map(|one| one.unit));
        let result = self.copy(io, &mut placed).await;
        let mut count = 0;
        for one in placed {
            if result.is_ok() && self.may_place(io, &one, &mut watched).await? {
                self.publish(one.unit, one.to, SlotMarks::default(), LowerSet::one(FAST));
                add(&self.counts.fills, 1);
                count += 1;
            } else {
                self.units.map.give_back(one.to);
            }
        }
        result.map(|()| count)
    }

    /// Moves copies from slot to slot: units, where they are, where they go. A unit that changes meanwhile stays.
    /// Answers how many moved.
    ///
    /// # Errors
    /// As [`Aside::fetch_all`].
    pub async fn relocate(self: &Rc<Self>, io: &Io, moves: &[(u64, Slot, Slot)]) -> Result<u64, BioError> {
        let mut placed = Vec::with_capacity(moves.len());
        for (unit, from, to) in moves.iter().copied() {
            let is_there = self.units.find(unit) == Some(from) && !self.units.marks(from).has(SlotMarks::PART);
            if is_there && !self.is_settled.get() && !self.latch.is_set() && self.units.map.take(to) {
                placed.push(Placed { unit, from: Some(from), to, buf: None });
            }
        }
        let mut watched = self.watch_over(placed.iter().map(|one| one.unit));
        let result = self.copy(io, &mut placed).await;
        let mut count = 0;
        for one in placed {
            if result.is_ok() && self.may_place(io, &one, &mut watched).await? {
                self.switch(&one);
                count += 1;
            } else {
                self.units.map.give_back(one.to);
            }
        }
        result.map(|()| count)
    }

    /// Writes copies of units home. Those that are newer than home are clean behind it, unless they change meanwhile.
    /// Answers how many.
    ///
    /// # Errors
    /// As [`Aside::fetch_all`].
    pub async fn clean(&self, io: &Io, units: &[u64]) -> Result<u64, BioError> {
        let (mut bounds, mut placed, mut sent) = (Vec::new(), Vec::new(), Vec::new());
        for unit in units.iter().copied() {
            let Some(slot) = self.units.find(unit).filter(|slot| self.units.is_dirty(*slot)) else { continue };
            if self.units.marks(slot).has(SlotMarks::PART) || self.units.unit() > self.config.transfer_max {
                sent.extend(self.send_copy_home(io, unit, slot).await?);
            } else if !self.is_settled.get() {
                bounds.push(self.gate.home_bound(self.units.range(unit)));
                placed.push(Placed { unit, from: Some(slot), to: slot, buf: None });
            }
        }
        let mut watched = self.watch_over(placed.iter().map(|one| one.unit));
        self.read_all(io, &mut placed).await.inspect_err(|error| {
            self.failed("a copy that home does not have cannot be read", error);
        })?;
        let runs = runs(&mut placed, |one| one.unit, self.config.transfer_max / self.units.unit());
        let bios =
            runs.into_iter().map(|(unit, buf)| Bio::write(self.units.range(unit).start(), buf).to(io.lower(HOME)));
        let written = self.send_quietly(io, bios.map(|bio| bio.tagged(BACKGROUND)).collect()).await;
        drop(bounds);
        written.into_iter().try_for_each(|returned| returned.result.map(drop))?;
        if !placed.is_empty() {
            self.flush_home(io).await?;
        }
        let mut count = 0;
        for one in placed {
            count += u64::from(self.is_home(io, one.unit, one.to, || watched.is_changed(one.unit)).await?);
        }
        Ok(count + self.are_home(io, sent).await?)
    }

    /// Gives up the copies of units that are not newer than home. Answers how many.
    ///
    /// # Errors
    /// As [`Aside::fetch_all`].
    pub async fn drop_clean(self: &Rc<Self>, io: &Io, units: &[u64]) -> Result<u64, BioError> {
        let mut count = 0;
        for unit in units.iter().copied() {
            if self.units.map.is_full() {
                self.commit(io).await?;
            }
            let slot = self.units.find(unit).filter(|slot| !self.units.is_dirty(*slot));
            if let Some(slot) = slot.filter(|_| !self.is_settled.get() && !self.latch.is_set()) {
                self.give_up(unit, slot);
                count += 1;
            }
        }
        Ok(count)
    }

    /// Whether a unit that was copied is as it was. Makes room in the map first.
    async fn may_place(&self, io: &Io, one: &Placed, watched: &mut Watched) -> Result<bool, BioError> {
        if self.units.map.is_full()
            && let Err(error) = self.commit(io).await
        {
            self.units.map.give_back(one.to);
            return Err(error);
        }
        let is_same = !watched.is_changed(one.unit) && self.units.find(one.unit) == one.from && !self.is_settled.get();
        Ok(is_same && !self.arriving.borrow().contains(&one.unit))
    }

    /// The medium says in one sector that a copy is in another slot: behind a crash it is in one of both.
    fn switch(self: &Rc<Self>, one: &Placed) {
        let Some(from) = one.from else { return };
        let Some(entry) = self.units.map.get(from) else { return };
        let is_dirty = entry.marks.has(SlotMarks::DIRTY);
        self.units.map.rest(from);
        let group = [(from, None), (one.to, Some(SlotEntry { key: one.unit, ..entry }))];
        self.units.map.set(&group, LowerSet::one(FAST));
        self.units.unindex(one.unit, from);
        self.units.index(one.unit, one.to);
        let mut director = self.director.borrow_mut();
        director.removed(from);
        director.placed(one.unit, one.to);
        drop(director);
        self.note_dirty(from, false);
        self.note_dirty(one.to, is_dirty);
        self.drain(from, self.units.range(one.unit));
    }

    /// Reads units from where they are and writes them to their slots.
    async fn copy(&self, io: &Io, placed: &mut [Placed]) -> Result<(), BioError> {
        self.read_all(io, placed).await?;
        placed.sort_by_key(|one| one.to);
        let runs = runs(placed, |one| u64::from(one.to), self.config.transfer_max / self.units.unit());
        let to = |slot: u64| self.units.map.data_at(slot as Slot);
        let bios = runs.into_iter().map(|(slot, buf)| Bio::write(to(slot), buf).to(io.lower(FAST)).tagged(BACKGROUND));
        let sent = self.send_quietly(io, bios.collect()).await;
        self.wrote(FAST);
        sent.into_iter().try_for_each(|returned| returned.result.map(drop))
    }

    /// Reads units from their slots, or from home where they have none, in the order in which they lie there.
    async fn read_all(&self, io: &Io, placed: &mut [Placed]) -> Result<(), BioError> {
        let unit = self.units.unit();
        let most = self.config.transfer_max / unit;
        placed.sort_by_key(|one| one.from.map_or(one.unit, u64::from));
        let mut bios = Vec::new();
        let mut lens = Vec::new();
        for run in placed.chunk_by(|a, b| match (a.from, b.from) {
            (None, None) => a.unit + 1 == b.unit,
            (Some(a), Some(b)) => a + 1 == b,
            _ => false,
        }) {
            for some in run.chunks(most.max(1) as usize) {
                let (lower, at) = match some[0].from {
                    None => (HOME, self.units.range(some[0].unit).start()),
                    Some(slot) => (FAST, self.units.map.data_at(slot)),
                };
                let buf = self.read_buf(some.len() * unit as usize);
                bios.push(Bio::read(at, buf).to(io.lower(lower)).tagged(BACKGROUND));
                lens.push(some.len());
            }
        }
        let returned = self.send_quietly(io, bios).await;
        let mut units = placed.iter_mut();
        for (returned, len) in returned.into_iter().zip(lens) {
            returned.result?;
            let mut buf = returned.bio.buf;
            for (at, one) in units.by_ref().take(len).enumerate() {
                one.buf = Some(buf.slice(at * unit as usize, unit as usize));
            }
        }
        Ok(())
    }
}

/// Takes the buffers of units whose places follow each other, joined: the first place and the bytes of each run.
fn runs(placed: &mut [Placed], place: impl Fn(&Placed) -> u64, most: u64) -> Vec<(u64, Buf)> {
    placed.sort_by_key(&place);
    let mut runs = Vec::new();
    for run in placed.chunk_by_mut(|a, b| place(a) + 1 == place(b)) {
        for some in run.chunks_mut(most.max(1) as usize) {
            let first = place(&some[0]);
            let bufs: Vec<Buf> = some.iter_mut().filter_map(|one| one.buf.take()).collect();
            runs.push((first, Buf::chain(bufs)));
        }
    }
    runs
}
