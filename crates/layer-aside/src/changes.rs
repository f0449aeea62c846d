//! Changes that do more than go to a slot as it is.
//!
//! A change first waits until nothing is in its way, and holds nothing meanwhile. Then it decides at once where all of
//! its parts go, and sends them.

use std::rc::Rc;

use esker_base::{ByteRange, span};
use esker_block::flight::WIDTH;
use esker_block::locks::{Mode, Ticket as Claim};
use esker_block::{Bio, BioError, Buf, Done, Op};
use esker_caching::Slot;
use esker_layer_kit::Io;
use esker_layer_kit::gate::Ticket;
use esker_layer_kit::slots::{LowerSet, Mask, SlotMarks};

use crate::config::WriteMode;
use crate::counts::add;
use crate::director::{Access, Director, Put};
use crate::engine::Aside;
use crate::units::{Part, with, without};
use crate::{FAST, HOME, PAGE};

/// How often a write has copies given up for it.
const ROOM_TRIES: u32 = 2;

/// What is in the way of a part of a change.
enum Obstacle {
    /// Another change brings the unit its copy.
    Arriving(u64),
    /// The medium must say first that copy and home may differ.
    Untouched(Slot),
    /// A write-back of these bytes is under way.
    WriteBack,
    /// The medium still names a copy that was given up.
    Named,
    /// The medium says that the last stop was clean.
    Settled,
    /// Too many changes of the map wait for a commit.
    Full,
}

/// Where a part goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Home,
    /// A copy.
    Slot(Slot),
    /// A slot that no unit has.
    Fresh(Slot),
    /// A hint that has no effect on a copy.
    Nowhere,
}

impl<D: Director> Aside<D> {
    /// Does a change that has entered the gate. It leaves the gate with its answer, or behind a copy that is written
    /// through.
    pub(crate) async fn change(self: &Rc<Self>, io: &Io, bio: Bio, ticket: Ticket) -> Done {
        if let Err(error) = self.latch.check() {
            self.gate.leave(ticket);
            return bio.fail(error);
        }
        let do_commit = bio.flags.fua || self.config.strict;
        let mut done = match self.config.mode {
            WriteMode::Back => {
                let done = self.change_back(io, bio, ticket).await;
                self.gate.leave(ticket);
                done
            }
            WriteMode::Through | WriteMode::Around => self.change_home(io, bio, ticket).await,
        };
        if do_commit
            && done.result.is_ok()
            && let Err(error) = self.commit(io).await
        {
            done.result = Err(error);
        }
        done
    }

    /// A write to the copy in a slot begins, which differs from home from now on.
    pub(crate) fn change_slot(&self, slot: Slot, range: ByteRange) {
        self.dirty.borrow_mut().change(slot, self.units.pages(range));
        self.mark(slot, true, LowerSet::NONE);
        self.units.map.writing(slot);
    }

    /// The write has ended, well or not.
    pub(crate) fn changed_slot(&self, slot: Slot) {
        self.units.map.wrote(slot);
        self.wrote(FAST);
    }

    async fn change_back(self: &Rc<Self>, io: &Io, bio: Bio, ticket: Ticket) -> Done {
        let access = Access { range: bio.range, changes: true, tag: bio.tag };
        let mut is_put = false;
        for part in self.units.parts(bio.range) {
            match self.units.find(part.unit) {
                Some(slot) => self.director.borrow_mut().hit(slot, access),
                None => is_put |= self.director.borrow_mut().write_miss(part.unit, access) == Put::Aside,
            }
        }
        let mut tries = ROOM_TRIES;
        let (parts, is_put) = loop {
            let parts = self.cut(&bio);
            let fresh = parts.iter().filter(|part| self.needs_slot(&bio.op, part)).count();
            let has_free = is_put && self.has_free(fresh);
            let overcome = if is_put && !has_free && tries > 0 && self.can_make_room(fresh) {
                tries -= 1;
                self.make_room(io, fresh).await
            } else if let Some(obstacle) = parts.iter().find_map(|part| self.obstacle(&bio.op, part, has_free, ticket))
            {
                self.overcome(io, obstacle, ticket).await
            } else {
                break (parts, has_free);
            };
            if let Err(error) = overcome {
                return bio.fail(error);
            }
        };
        // Asked for all parts before one of them begins to arrive: a part for which nothing was in the way of a copy
        // must not go home.
        let puts: Vec<bool> = parts.iter().map(|part| is_put && self.needs_slot(&bio.op, part)).collect();
        let targets: Vec<Target> =
            parts.iter().zip(puts).map(|(part, is_put)| self.decide(&bio.op, part, is_put)).collect();
        if targets.iter().all(|target| *target == Target::Home) {
            return self.send_home(io, bio).await;
        }
        self.send_parts(io, bio, &parts, &targets).await
    }

    /// Whether a part would get a copy if there were a free slot.
    fn needs_slot(&self, op: &Op, part: &Part) -> bool {
        let is_aligned = part.range.start().is_multiple_of(PAGE) && part.range.end().is_multiple_of(PAGE);
        let fits = self.units.range(part.unit).end() <= self.config.size;
        // A request has at most two parts that are less than a unit, and each arriving unit may be there in part.
        let has_part = self.units.is_whole(part) || self.units.map.parts_left() >= self.arriving.borrow().len() + 2;
        *op == Op::Write && is_aligned && fits && has_part && self.units.find(part.unit).is_none()
    }

    fn obstacle(&self, op: &Op, part: &Part, is_put: bool, ticket: Ticket) -> Option<Obstacle> {
        if self.is_settled.get() {
            return Some(Obstacle::Settled);
        }
        if self.units.map.is_full() {
            return Some(Obstacle::Full);
        }
        if self.arriving.borrow().contains(&part.unit) {
            return Some(Obstacle::Arriving(part.unit));
        }
        match self.units.find(part.unit) {
            Some(_) if !self.gives_up(op, part) && *op == Op::Discard => None,
            Some(slot) if !self.gives_up(op, part) && !part.is_edge => self.untouched(slot),
            None if is_put && self.needs_slot(op, part) => None,
            // The copy is given up first. The medium may name it while home changes only if it is dirty there.
            _ if !self.gate.may_go_home(ticket) => Some(Obstacle::WriteBack),
            Some(slot) => self.untouched(slot),
            None if self.named.borrow().contains_key(&part.unit) => Some(Obstacle::Named),
            None => None,
        }
    }

    /// A clean copy may not differ from home before the medium says so.
    fn untouched(&self, slot: Slot) -> Option<Obstacle> {
        let is_told = self.units.is_dirty(slot) || self.units.map.trusts(slot);
        (!is_told).then_some(Obstacle::Untouched(slot))
    }

    /// The parts of a change. Where a copy lacks a page that the change covers in part, that edge is a part of its own,
    /// which goes home: the page stays missing.
    fn cut(&self, bio: &Bio) -> Vec<Part> {
        let mut parts = Vec::new();
        for part in self.units.parts(bio.range) {
            let slot = self.units.find(part.unit).filter(|_| !self.gives_up(&bio.op, &part));
            let Some(slot) = slot.filter(|_| bio.op != Op::Discard) else {
                parts.push(part);
                continue;
            };
            let is_missing = |at: u64| self.units.missing(slot, self.units.pages(span(at, 1))).is_some();
            let (mut from, mut to) = (part.range.start(), part.range.end());
            let edge = |from: u64, to: u64| Part { range: span(from, to - from), is_edge: true, ..part };
            let head = (from / PAGE * PAGE + PAGE).min(to);
            if (!from.is_multiple_of(PAGE) || head - from < PAGE) && is_missing(from) {
                parts.push(edge(from, head));
                from = head;
            }
            let tail = (to / PAGE * PAGE).max(from);
            let has_tail = tail < to && is_missing(tail);
            if has_tail {
                to = tail;
            }
            if from < to {
                parts.push(Part { range: span(from, to - from), ..part });
            }
            if has_tail {
                parts.push(edge(tail, part.range.end()));
            }
        }
        parts
    }

    /// Whether a part gives the copy of its unit up. Zeroes go to the copy: if home failed to zero, or a crash came
    /// before it did, the bytes of a copy that was given up would be lost.
    fn gives_up(&self, op: &Op, part: &Part) -> bool {
        *op == Op::Discard && self.units.is_whole(part)
    }

    async fn overcome(&self, io: &Io, obstacle: Obstacle, ticket: Ticket) -> Result<(), BioError> {
        match obstacle {
            Obstacle::Arriving(unit) => {
                self.arrived.wait_until(|| !self.arriving.borrow().contains(&unit)).await;
                Ok(())
            }
            Obstacle::Untouched(slot) => self.touch(io, slot).await,
            Obstacle::WriteBack => {
                self.gate.admitted_home(ticket).await;
                Ok(())
            }
            Obstacle::Named | Obstacle::Full => self.commit(io).await,
            Obstacle::Settled => self.unsettle(io).await,
        }
    }

    /// Ends the arrival of a unit.
    fn arrive(&self, unit: u64) {
        self.arriving.borrow_mut().remove(&unit);
        self.arrived.notify_all();
    }

    /// Pages of a copy are there now.
    pub(crate) fn gain(&self, slot: Slot, pages: std::ops::Range<u64>) {
        if self.units.missing(slot, pages.clone()).is_some() {
            let mask = with(self.units.mask(slot), pages);
            self.units.map.masked(slot, &mask, LowerSet::one(FAST));
        }
    }

    /// Decides where a part goes. Nothing is in its way.
    fn decide(self: &Rc<Self>, op: &Op, part: &Part, is_put: bool) -> Target {
        match self.units.find(part.unit) {
            Some(slot) if self.gives_up(op, part) => {
                add(&self.counts.write_hits, 1);
                self.give_up(part.unit, slot);
                Target::Home
            }
            Some(_) if *op == Op::Discard => Target::Nowhere,
            Some(_) if part.is_edge => Target::Home,
            Some(slot) => {
                add(&self.counts.write_hits, 1);
                self.change_slot(slot, part.range);
                Target::Slot(slot)
            }
            None => {
                add(&self.counts.write_misses, 1);
                let slot = if is_put { self.take_free() } else { None };
                match slot {
                    Some(slot) => {
                        self.arriving.borrow_mut().insert(part.unit);
                        Target::Fresh(slot)
                    }
                    None => Target::Home,
                }
            }
        }
    }

    async fn send_home(&self, io: &Io, bio: Bio) -> Done {
        self.home_begins();
        let done = io.submit(bio.to(io.lower(HOME))).await;
        self.home_ended();
        self.wrote(HOME);
        done
    }

    async fn send_parts(&self, io: &Io, mut bio: Bio, parts: &[Part], targets: &[Target]) -> Done {
        let mut sent = Vec::new();
        let mut bios = Vec::new();
        for (part, target) in parts.iter().zip(targets) {
            let (lower, at) = match target {
                Target::Home => {
                    self.home_begins();
                    (HOME, part.range.start())
                }
                Target::Slot(slot) | Target::Fresh(slot) => (FAST, self.units.place(*slot, part.range.start())),
                Target::Nowhere => continue,
            };
            let at_in_bio = (part.range.start() - bio.offset()) as usize;
            let buf = match bio.op == Op::Write {
                true => bio.buf.slice(at_in_bio, part.range.len() as usize),
                false => Buf::empty(),
            };
            sent.push((*part, *target));
            bios.push(bio.part(bio.op.clone(), span(at, part.range.len()), buf).to(io.lower(lower)));
        }
        let mut first = Ok(());
        for (returned, (part, target)) in io.all(bios, WIDTH).await.into_iter().zip(sent) {
            let result = returned.result.map(drop);
            self.sent(&part, target, &result);
            first = first.and(result);
        }
        match first {
            Ok(()) => bio.ok(),
            Err(error) => bio.fail(error),
        }
    }

    /// A part has come to its end.
    fn sent(&self, part: &Part, target: Target, result: &Result<(), BioError>) {
        match target {
            Target::Home => {
                self.home_ended();
                self.wrote(HOME);
            }
            Target::Slot(slot) => self.changed_slot(slot),
            Target::Fresh(_) => self.wrote(FAST),
            Target::Nowhere => {}
        }
        match (target, result) {
            (Target::Home | Target::Nowhere, _) => {}
            (Target::Slot(slot), Ok(())) => self.gain(slot, self.units.whole_pages(part.range)),
            (Target::Slot(_), Err(error)) => self.failed("a write of a copy failed", error),
            (Target::Fresh(slot), result) => {
                match result {
                    Ok(()) => self.publish_part(part, slot),
                    Err(_) => self.units.map.give_back(slot),
                }
                self.arrive(part.unit);
            }
        }
    }

    /// A unit has its first pages aside. They must be on the medium before the map says so.
    fn publish_part(&self, part: &Part, slot: Slot) {
        let pages = self.units.whole_pages(part.range);
        let is_whole = self.units.is_whole(part);
        let marks = SlotMarks::default().with(SlotMarks::DIRTY);
        self.dirty.borrow_mut().change(slot, pages.clone());
        self.publish(part.unit, slot, if is_whole { marks } else { marks.with(SlotMarks::PART) }, LowerSet::one(FAST));
        if !is_whole {
            self.units.map.masked(slot, &with(Mask::NONE, pages), LowerSet::one(FAST));
        }
    }

    /// A change that goes home, and then perhaps to copies.
    async fn change_home(self: &Rc<Self>, io: &Io, mut bio: Bio, ticket: Ticket) -> Done {
        let claim = self.locks.enter([bio.range], Mode::Exclusive);
        self.locks.granted(claim).await;
        let parts: Vec<Part> = self.units.parts(bio.range).collect();
        while let Some(obstacle) = parts.iter().find_map(|part| self.obstacle_home(part)) {
            if let Err(error) = self.overcome(io, obstacle, ticket).await {
                self.leave_both(ticket, claim);
                return bio.fail(error);
            }
        }
        let mut copies = Vec::new();
        for part in &parts {
            let slot = self.units.find(part.unit);
            add(if slot.is_some() { &self.counts.write_hits } else { &self.counts.write_misses }, 1);
            if let Some(slot) = slot
                && self.lose(part, slot)
            {
                copies.push((*part, slot));
            }
        }
        let is_through = self.config.mode == WriteMode::Through && bio.op == Op::Write && !copies.is_empty();
        let payload = is_through.then(|| bio.buf.share());
        let range = bio.range;
        let done = self.send_home(io, bio).await;
        match payload.filter(|_| done.result.is_ok()) {
            Some(payload) => self.write_through(range, payload, copies, (ticket, claim)),
            None => {
                copies.iter().for_each(|(_, slot)| self.units.map.wrote(*slot));
                self.leave_both(ticket, claim);
            }
        }
        done
    }

    fn leave_both(&self, ticket: Ticket, claim: Claim) {
        self.gate.leave(ticket);
        self.locks.leave(claim);
    }

    fn obstacle_home(&self, part: &Part) -> Option<Obstacle> {
        match self.units.find(part.unit) {
            _ if self.is_settled.get() => Some(Obstacle::Settled),
            _ if self.units.map.is_full() => Some(Obstacle::Full),
            Some(slot) if !self.units.map.trusts(slot) => Some(Obstacle::Untouched(slot)),
            _ if self.named.borrow().contains_key(&part.unit) => Some(Obstacle::Named),
            _ => None,
        }
    }

    /// A copy loses the pages that a part touches. Whether anything of it is left.
    fn lose(self: &Rc<Self>, part: &Part, slot: Slot) -> bool {
        let mask = without(self.units.mask(slot), self.units.pages(part.range));
        let is_lost = mask.count() == 0 && self.config.mode != WriteMode::Through;
        if is_lost || (self.units.map.mask(slot).is_none() && self.units.map.parts_left() == 0) {
            self.give_up(part.unit, slot);
            return false;
        }
        self.units.map.writing(slot);
        self.units.map.masked(slot, &mask, LowerSet::NONE);
        true
    }

    /// Home has a write: copies get it too, behind its answer.
    fn write_through(
        self: &Rc<Self>,
        range: ByteRange,
        mut payload: Buf,
        copies: Vec<(Part, Slot)>,
        (ticket, claim): (Ticket, Claim),
    ) {
        let aside = self.clone();
        let work = async move {
            if let Some((_permit, io)) = aside.enter().await {
                for (part, slot) in &copies {
                    let buf = payload.slice((part.range.start() - range.start()) as usize, part.range.len() as usize);
                    aside.write_copy(&io, part, *slot, buf).await;
                }
            }
            copies.iter().for_each(|(_, slot)| aside.units.map.wrote(*slot));
            aside.leave_both(ticket, claim);
        };
        self.rt.spawn("aside-through", work).detach();
    }

    async fn write_copy(&self, io: &Io, part: &Part, slot: Slot, buf: Buf) {
        if self.units.find(part.unit) != Some(slot) || self.is_settled.get() {
            return;
        }
        let write = Bio::write(self.units.place(slot, part.range.start()), buf).to(io.lower(FAST));
        let result = io.send(write).await.result;
        self.wrote(FAST);
        if result.is_ok() && self.units.find(part.unit) == Some(slot) && !self.units.map.is_full() {
            self.gain(slot, self.units.whole_pages(part.range));
        }
    }
}
