//! Moves of extents: a slot is reserved, the mover copies, the map says so, and the old slot is free.
//!
//! A slot is in one of these states: free, reserved (in memory alone), named by the map, or left (the map names it no
//! more, but requests may be at it). The record of a switch is durable before a request is routed by it. A slot that
//! was left is free when the mover says that no request is at it.

use std::rc::Rc;

use esker_block::{BioError, Step};
use esker_layer_kit::Io;
use esker_layer_kit::mover::{Cause, Move, Outcome};
use esker_layer_kit::slots::{LowerSet, SlotEntry, SlotMarks};

use crate::engine::Tier;
use crate::placing::CURSOR;
use crate::queue::{Fit, Job, Why};
use crate::statistics::add;

/// Moves that an end fails one after the other before it counts as lost.
const FAILURES_MAX: u32 = 3;

/// A move of an extent, with the slots that it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    extent: u32,
    old: u32,
    next: u32,
    /// Bytes that lay in `next` when it began.
    done: u64,
}

impl Tier {
    /// Takes the next move that may begin, and both of its ends.
    pub(crate) fn next_job(&self) -> Option<Job> {
        if self.is_settled.get() || self.latch.is_set() {
            return None;
        }
        let next = self.queue.borrow_mut().next(|job| self.fit(job));
        let Some(job) = next else {
            self.drop_stuck();
            return None;
        };
        self.ends_of(&job).into_iter().for_each(|end| self.ends[end].is_busy.set(true));
        Some(job)
    }

    /// Drops what finds no room while nothing moves: nothing else will make room for it.
    fn drop_stuck(&self) {
        if !self.ends.iter().any(|end| end.is_busy.get()) {
            add(&self.counts.abandoned, self.queue.borrow_mut().drop_unplanned());
        }
    }

    /// Source and destination of a move; one that was begun goes on to where it went.
    fn ends_of(&self, job: &Job) -> [usize; 2] {
        let placing = self.placing.borrow();
        let to = placing.split_of(job.extent).map_or(job.to, |split| placing.places().end_of(split.next));
        [placing.end_of(job.extent), to]
    }

    fn fit(&self, job: &Job) -> Fit {
        let [from, to] = self.ends_of(job);
        let has_room = self.placing.borrow().split_of(job.extent).is_some() || self.placing.borrow().free(to) > 0;
        let is_busy = self.ends[from].is_busy.get() || self.ends[to].is_busy.get();
        if from == to || self.ends[from].is_lost.get() || self.ends[to].is_out() {
            return Fit::Over;
        }
        match has_room && !is_busy && !self.moving.borrow().contains(&job.extent) {
            true => Fit::Begins,
            false => Fit::Waits,
        }
    }

    /// Does a move of the queue.
    pub(crate) async fn carry_job(self: &Rc<Self>, job: Job) {
        let ends = self.ends_of(&job);
        let outcome = self.carry(job.extent, job.to, job.why).await;
        ends.into_iter().for_each(|end| self.ends[end].is_busy.set(false));
        if let (Outcome::Moved { .. }, Why::Planned) = (outcome, job.why) {
            self.seen.borrow_mut().note_moved(job.extent, ends);
        }
        self.background.wake();
    }

    /// Moves an extent to another end, if it has a free slot; a split one goes on to where its first bytes lie.
    pub(crate) async fn carry(self: &Rc<Self>, extent: u32, to: usize, why: Why) -> Outcome {
        let Some(transfer) = self.reserve(extent, to) else { return Outcome::Abandoned(Cause::Cancelled) };
        let outcome = self.migrate(transfer, why).await;
        self.finish(transfer, outcome, why);
        outcome
    }

    fn reserve(&self, extent: u32, to: usize) -> Option<Transfer> {
        if self.is_settled.get() || self.latch.is_set() || self.moving.borrow().contains(&extent) {
            return None;
        }
        let mut placing = self.placing.borrow_mut();
        let old = placing.slot_of(extent);
        let (next, done) = match placing.split_of(extent) {
            Some(split) => (split.next, split.done),
            None if placing.end_of(extent) == to => return None,
            None => (placing.take(to, |slot| self.map.take(slot))?, 0),
        };
        self.ends[placing.places().end_of(next)].copied.set(true);
        self.moving.borrow_mut().insert(extent);
        Some(Transfer { extent, old, next, done })
    }

    async fn migrate(self: &Rc<Self>, transfer: Transfer, why: Why) -> Outcome {
        let Transfer { extent, old, next, done } = transfer;
        let begin = u64::from(extent) * self.config.extent;
        let address = |slot| self.placing.borrow().places().address(slot).plus(done);
        let transit =
            Move { upper: begin + done, from: address(old), to: address(next), len: self.config.extent - done };
        let tier = self.clone();
        let switched = move |io: &Io, moves: &[Move]| {
            let (tier, io, end) = (tier.clone(), io.clone(), moves[0].upper + moves[0].len - begin);
            Step::later(async move { tier.switch(&io, transfer, end).await })
        };
        let (mover, pace) = match why {
            Why::Relief => (&self.by_unit, self.stops.pace(None)),
            Why::Ordered => (&self.whole, self.stops.pace(Some(self.shares.clone()))),
            Why::Planned => (&self.whole, self.cancels.pace(Some(self.shares.clone()))),
        };
        mover.migrate(&self.way(), transit, &pace, &switched).await
    }

    /// The first `done` bytes of an extent are durable in its new slot. Says so durably, and then routes by it.
    async fn switch(&self, io: &Io, transfer: Transfer, done: u64) -> Result<(), BioError> {
        self.latch.check()?;
        if self.is_settled.get() {
            return Err(BioError::invalid("the layer has stopped"));
        }
        let Transfer { extent, old, next, .. } = transfer;
        let entry = SlotEntry::of(u64::from(extent));
        if done < self.config.extent {
            let cursor = u16::try_from(done / CURSOR).expect("an extent has at most 64 MiB");
            let part = SlotEntry { cursor, ..entry }.with(SlotMarks::INCOMING);
            self.map.set(&[(next, Some(part))], LowerSet::NONE);
        } else {
            // One group: a crash leaves the extent in one of both slots.
            self.map.set(&[(old, None), (next, Some(entry))], LowerSet::NONE);
        }
        let committed = self.map.commit(io).await.map_err(|error| BioError::io(error.to_string()));
        committed.inspect_err(|error| self.map_failed(error))?;
        self.placing.borrow_mut().switch(extent, next, done);
        Ok(())
    }

    /// A move has ended, and no request is at what it left.
    fn finish(&self, transfer: Transfer, outcome: Outcome, why: Why) {
        let Transfer { extent, old, next, done } = transfer;
        self.moving.borrow_mut().remove(&extent);
        let ends = [old, next].map(|slot| self.placing.borrow().places().end_of(slot));
        match outcome {
            Outcome::Moved { held, .. } => {
                self.placing.borrow_mut().release(old);
                add(&self.counts.moved, 1);
                add(&self.counts.relieved, u64::from(why == Why::Relief));
                let longest = &self.counts.held_longest_us;
                longest.set(longest.get().max(held.0 / 1000));
                ends.into_iter().for_each(|end| self.ends[end].failures.set(0));
            }
            Outcome::Abandoned(Cause::Write) | Outcome::Part { why: Cause::Write, .. } => {
                add(&self.counts.abandoned, 1);
                // Where the map was not written, nothing says which slot it names.
                if !self.latch.is_set() {
                    // The slot stays reserved.
                    add(&self.counts.bad_slots, u64::from(done == 0));
                    self.end_failed(ends[1]);
                }
            }
            Outcome::Abandoned(cause) | Outcome::Part { why: cause, .. } => {
                add(&self.counts.abandoned, 1);
                if cause == Cause::Read {
                    self.end_failed(ends[0]);
                }
                if done == 0 && matches!(outcome, Outcome::Abandoned(_)) {
                    self.map.give_back(next);
                    self.placing.borrow_mut().release(next);
                }
            }
        }
        self.moved.notify_all();
    }

    /// An end failed a move. After several of them nothing is planned there, until it answers a client.
    fn end_failed(&self, end: usize) {
        let failures = &self.ends[end].failures;
        failures.set(failures.get() + 1);
        if failures.get() >= FAILURES_MAX {
            self.ends[end].is_lost.set(true);
        }
    }

    /// Queues moves of extents that lie on two ends: they go on to where their first bytes lie.
    pub(crate) fn queue_splits(&self) {
        let placing = self.placing.borrow();
        let moves = placing.splits().map(|(extent, split)| (extent, placing.places().end_of(split.next)));
        self.queue.borrow_mut().add(Why::Planned, moves);
    }
}
