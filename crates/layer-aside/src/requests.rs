//! Requests: hits and misses that need nothing else go straight down.

use std::rc::Rc;

use esker_base::{ByteRange, span};
use esker_block::split::{LowerAddress, LowerExtent, pieces};
use esker_block::{Bio, BioError, Buf, Ctx, Done, Flow, Op, OpKind, Step};
use esker_caching::Slot;
use esker_layer_kit::Io;
use esker_layer_kit::gate::Ticket;

use crate::config::{Cleaning, WriteMode};
use crate::counts::add;
use crate::director::{Access, Director, Fill};
use crate::engine::Aside;
use crate::fills::Missed;
use crate::units::Part;
use crate::{FAST, HOME, PAGE};

/// What a request is, from `issue` to `complete`: its ticket in the low half of the scratch word, this in the high one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Home, and nothing behind it.
    Home,
    /// Home, and a fill behind it.
    Missed,
    /// A read of a slot.
    Hit(Slot),
    /// A change of a slot.
    Change(Slot),
}

const MISSED: u32 = 1 << 31;
const CHANGE: u32 = 1 << 30;

impl Way {
    fn word(self, ticket: Ticket) -> u64 {
        let high = match self {
            Way::Home => 0,
            Way::Missed => MISSED,
            Way::Hit(slot) => slot + 1,
            Way::Change(slot) => CHANGE | (slot + 1),
        };
        u64::from(high) << 32 | u64::from(ticket.word())
    }

    /// None for a request that holds no ticket any more.
    fn of(word: u64) -> Option<(Ticket, Way)> {
        let (low, high) = (word as u32, (word >> 32) as u32);
        let way = match high {
            0 => Way::Home,
            MISSED => Way::Missed,
            high if high & CHANGE != 0 => Way::Change((high & !CHANGE) - 1),
            high => Way::Hit(high - 1),
        };
        Ticket::of_word(low).map(|ticket| (ticket, way))
    }
}

impl<D: Director> Aside<D> {
    /// Decides about a request.
    pub fn issue(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        if self.config.cleaning == Cleaning::Kind {
            self.asked_last.set(self.rt.now());
        }
        match bio.op {
            Op::Read => self.read(ctx, bio),
            Op::Write => self.write(ctx, bio),
            Op::Zero | Op::Discard => self.change_later(ctx, bio),
            Op::Flush => {
                let (aside, io, bio) = (self.clone(), Io::of(ctx), bio.take());
                Step::later(async move {
                    let result = aside.sync(&io).await;
                    Flow::Done(match result {
                        Ok(()) => bio.ok(),
                        Err(error) => bio.fail(error),
                    })
                })
            }
            Op::Ranges(_) => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Clone)))),
            Op::Extents => Step::Now(Flow::Done(bio.take().fail(BioError::Unsupported(OpKind::Extents)))),
        }
    }

    /// Sees the answer of a request that went straight down.
    pub fn complete(self: &Rc<Self>, ctx: &mut Ctx<'_>, done: &mut Done) {
        if self.config.cleaning == Cleaning::Kind {
            self.asked_last.set(self.rt.now());
        }
        let Some((ticket, way)) = Way::of(std::mem::take(&mut ctx.scratch)) else { return };
        match way {
            Way::Hit(_) => {}
            Way::Home => self.home_ended(),
            Way::Change(slot) => {
                self.changed_slot(slot);
                if let Err(error) = &done.result {
                    self.failed("a write of a copy failed", error);
                }
            }
            Way::Missed => {
                self.home_ended();
                let range = self.gate.range(ticket);
                let missed = self.missed.borrow_mut().remove(&ticket).expect("it was put there with the request");
                match done.result.is_ok() {
                    true => self.fill_behind(missed, range, done.buf.share()),
                    false => self.fill_ended(missed.unit, false),
                }
            }
        }
        self.gate.leave(ticket);
    }

    /// Home answers a read that the fast device failed, if its copy is clean. The slot is not used again before the
    /// next start.
    pub fn again(&self, ctx: &mut Ctx<'_>, done: &mut Done) -> Option<Bio> {
        let (ticket, Way::Hit(slot)) = Way::of(ctx.scratch)? else { return None };
        let range = self.gate.range(ticket);
        let unit = self.units.of(range.start());
        if self.units.find(unit) == Some(slot) && !self.is_settled.get() && !self.units.map.is_full() {
            if self.units.is_dirty(slot) {
                return None;
            }
            self.quarantine(unit, slot);
        }
        add(&self.counts.read_again, 1);
        self.home_begins();
        ctx.scratch = Way::Home.word(ticket);
        let buf = std::mem::replace(&mut done.buf, Buf::empty());
        Some(Bio::read(range.start(), buf).to(ctx.lower(HOME)))
    }

    fn read(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let Some(unit) = self.units.only(bio.range) else { return self.read_wide(ctx, bio) };
        let access = Access { range: bio.range, changes: false, tag: bio.tag };
        let found = self.units.find(unit);
        if let Some(slot) = found {
            if self.units.is_valid(slot, bio.range) {
                self.director.borrow_mut().hit(slot, access);
                add(&self.counts.read_hits, 1);
                ctx.scratch = Way::Hit(slot).word(self.gate.enter(bio.range, false));
                bio.range = span(self.units.place(slot, bio.offset()), bio.len());
                bio.dest = ctx.lower(FAST);
                return Step::Now(Flow::Down);
            }
            if self.units.is_dirty(slot) {
                return self.read_wide(ctx, bio);
            }
            if self.is_stale(unit) {
                self.give_up(unit, slot);
            }
        }
        match self.begin_fill(unit, access) {
            Some((missed, Fill::Before)) => self.read_before(ctx, bio, missed),
            begun => {
                add(&self.counts.read_misses, 1);
                self.home_begins();
                let ticket = self.gate.enter(bio.range, false);
                let way = if begun.is_some() { Way::Missed } else { Way::Home };
                self.missed.borrow_mut().extend(begun.map(|(missed, _)| (ticket, missed)));
                ctx.scratch = way.word(ticket);
                Step::Now(Flow::Down)
            }
        }
    }

    /// Whether a clean copy that lacks pages can go: no change of its unit, which may bring them, is under way.
    fn is_stale(&self, unit: u64) -> bool {
        let is_changing = self.gate.watch(self.units.range(unit), self.units.unit()).is_changed();
        !is_changing && !self.is_settled.get() && !self.units.map.is_full()
    }

    /// A read of a whole unit from home, which becomes a copy before the read is answered.
    fn read_before(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio, missed: Missed) -> Step<Flow> {
        add(&self.counts.read_misses, 1);
        self.home_begins();
        let ticket = self.gate.enter(bio.range, false);
        let (aside, io, bio) = (self.clone(), Io::of(ctx), bio.take());
        Step::later(async move {
            let done = aside.fill_before(&io, bio, missed).await;
            aside.home_ended();
            aside.gate.leave(ticket);
            Flow::Done(done)
        })
    }

    /// A read of several units, or of a unit of which some pages are only at home.
    fn read_wide(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let ticket = self.gate.enter(bio.range, false);
        let (aside, io, bio) = (self.clone(), Io::of(ctx), bio.take());
        Step::later(async move {
            let done = aside.read_parts(&io, bio).await;
            aside.gate.leave(ticket);
            Flow::Done(done)
        })
    }

    async fn read_parts(self: &Rc<Self>, io: &Io, mut bio: Bio) -> Done {
        let access = Access { range: bio.range, changes: false, tag: bio.tag };
        let parts: Vec<Part> = self.units.parts(bio.range).collect();
        let slots: Vec<Option<Slot>> = parts.iter().map(|part| self.units.find(part.unit)).collect();
        let is_aside =
            |part: &Part, slot: &Option<Slot>| slot.is_some_and(|slot| self.units.is_valid(slot, part.range));
        let all_aside = parts.iter().zip(&slots).all(|(part, slot)| is_aside(part, slot));
        let any_dirty = slots.iter().flatten().any(|slot| self.units.is_dirty(*slot));
        add(if all_aside { &self.counts.read_hits } else { &self.counts.read_misses }, 1);
        let mut missed = Vec::new();
        for (part, slot) in parts.iter().zip(&slots) {
            match slot {
                Some(slot) => self.director.borrow_mut().hit(*slot, access),
                None => missed.extend(self.begin_fill(part.unit, access).map(|(missed, _)| (missed, part.range))),
            }
        }
        let whole = bio.range;
        let home = |at: u64| LowerExtent { place: LowerAddress { lower: HOME, at }, len: whole.end() - at };
        let cut = match all_aside || any_dirty {
            true => pieces(whole, |at| self.lies(at)),
            false => pieces(whole, home),
        };
        if !all_aside {
            self.home_begins();
        }
        let (len, tag) = (bio.buf.len(), bio.tag);
        let mut done = self.send(io, &mut bio, &cut).await;
        if done.result.is_err() && !any_dirty && all_aside {
            add(&self.counts.read_again, 1);
            let mut again = Bio::read(whole.start(), done.buf.like(&self.pool, len)).tagged(tag);
            done = self.send(io, &mut again, &pieces(whole, home)).await;
        }
        if !all_aside {
            self.home_ended();
        }
        for (missed, part) in missed {
            match done.result.is_ok() {
                true => {
                    let payload = done.buf.slice((part.start() - whole.start()) as usize, part.len() as usize);
                    self.fill_behind(missed, part, payload);
                }
                false => self.fill_ended(missed.unit, false),
            }
        }
        done
    }

    async fn send(&self, io: &Io, bio: &mut Bio, cut: &[esker_block::split::Piece]) -> Done {
        match io.splitter().redirect(bio, cut).await {
            Flow::Done(done) => done,
            Flow::Down => io.submit(bio.take()).await,
            Flow::Resume(other) => io.submit(other).await,
        }
    }

    /// Where a byte lies, and how many behind it lie there too.
    fn lies(&self, at: u64) -> LowerExtent {
        let unit = self.units.of(at);
        let end = self.units.range(unit).end();
        let home = |len| LowerExtent { place: LowerAddress { lower: HOME, at }, len };
        let Some(slot) = self.units.find(unit) else { return home(end - at) };
        let mask = self.units.mask(slot);
        let page = self.units.pages(span(at, 1)).start;
        let is_there = mask.has(page);
        let behind = (page..self.units.pages_of_unit()).take_while(|page| mask.has(*page) == is_there).count() as u64;
        let first = at / PAGE * PAGE;
        let len = (first + behind * PAGE).min(end) - at;
        match is_there {
            true => LowerExtent { place: LowerAddress { lower: FAST, at: self.units.place(slot, at) }, len },
            false => home(len),
        }
    }

    fn write(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let is_plain = self.config.mode == WriteMode::Back
            && !self.config.strict
            && !bio.flags.fua
            && !self.latch.is_set()
            && !self.is_settled.get()
            && !self.units.map.is_full();
        let slot = self.units.only(bio.range).filter(|_| is_plain).and_then(|unit| self.units.find(unit));
        let Some(slot) = slot.filter(|slot| self.takes_in_place(*slot, bio.range)) else {
            return self.change_later(ctx, bio);
        };
        let ticket = self.gate.enter(bio.range, true);
        if !self.gate.may_go(ticket) {
            self.gate.leave(ticket);
            return self.change_later(ctx, bio);
        }
        self.director.borrow_mut().hit(slot, Access { range: bio.range, changes: true, tag: bio.tag });
        add(&self.counts.write_hits, 1);
        self.change_slot(slot, bio.range);
        ctx.scratch = Way::Change(slot).word(ticket);
        bio.range = span(self.units.place(slot, bio.offset()), bio.len());
        bio.dest = ctx.lower(FAST);
        Step::Now(Flow::Down)
    }

    /// Whether a write may go to its slot as it is: the medium already says that the copy may differ from home.
    fn takes_in_place(&self, slot: Slot, range: ByteRange) -> bool {
        self.units.is_valid(slot, range) && (self.units.is_dirty(slot) || self.units.map.trusts(slot))
    }

    fn change_later(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let (aside, io, bio) = (self.clone(), Io::of(ctx), bio.take());
        let ticket = self.gate.enter(bio.range, true);
        Step::later(async move {
            aside.gate.admitted(ticket).await;
            Flow::Done(aside.change(&io, bio, ticket).await)
        })
    }
}
