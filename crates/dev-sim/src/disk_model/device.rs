//! The disk as a device: its command queue, its write cache and its arm, which is a task while there is work.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos, Time};
use esker_block::{Bio, BioError, Device, Done, Limits, Op, OpKind, Stat, Step, Support, Usage};
use esker_rt::Rt;
use esker_rt::sync::{self, Receiver, Sender};

use super::dirty::{Dirty, DirtyExtent};
use super::model::{AccessPlan, ArmState, DiskModel, Placed};
use crate::Setup;
use crate::access::{self, Access};
use crate::meter::Meter;

/// Cached runs among which a destage chooses: more gain little, since a full cache has many runs near the arm.
const DESTAGE_CHOICES: usize = 8;

/// How a disk is set up, beside its numbers.
#[derive(Clone)]
pub struct DiskSetup {
    /// What all devices are told. Of the commands in flight, `depth` are ordered by the disk.
    pub common: Setup,
    /// A command that the disk has had in its queue for this long goes first, so that none starves.
    pub age_max: Nanos,
}

/// A modelled disk.
pub struct Disk {
    core: Rc<Core>,
    limits: Limits,
}

struct Core {
    rt: Rt,
    model: DiskModel,
    setup: DiskSetup,
    state: RefCell<State>,
}

struct State {
    head: ArmState,
    /// Commands among which the arm chooses, and those that came when it was full.
    queue: Vec<Command>,
    overflow: VecDeque<Command>,
    dirty: Dirty,
    destaging: Option<DirtyExtent>,
    /// Where the last access ended.
    last_byte: u64,
    /// Cached writes that wait for room.
    stalled: VecDeque<(DirtyExtent, Sender<Time>)>,
    /// Flushes with the number of the last write that they cover, which never falls from one to the next.
    flushes: VecDeque<(u64, Sender<Time>)>,
    /// The host interface is taken until then.
    link: Time,
    writes: u64,
    /// The arm's task exists.
    running: bool,
    /// The last work was a command, so that a due destage is next.
    served: bool,
    meter: Meter,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    mechanical: u64,
    seeks: u64,
    positioning: Nanos,
    /// Cylinders over which the arm went, to reads and to writes.
    travel: [u64; 2],
    hits: u64,
    destages: u64,
    depth_max: usize,
}

/// A command for the arm.
struct Command {
    placed: Placed,
    arrived: Time,
    /// When it came among those that the disk orders: later than it arrived if there was no room.
    taken: Time,
    /// Number of its write on the media.
    write: u64,
    done: Sender<Time>,
}

/// What the arm does until it is free.
struct Work {
    free: Time,
    /// When the host has its answer, which may be later.
    finish: Time,
    range: ByteRange,
    /// Number up to which the media are settled then; `None` for reads.
    settles: Option<u64>,
    done: Option<Sender<Time>>,
}

impl Disk {
    /// A disk whose world is `rt`, at rest with its arm at the outer edge.
    pub fn new(rt: &Rt, model: DiskModel, setup: DiskSetup) -> Disk {
        let limits = setup.common.limits().with(OpKind::Discard, Support::No);
        let state = State {
            head: ArmState::default(),
            queue: Vec::new(),
            overflow: VecDeque::new(),
            dirty: Dirty::default(),
            destaging: None,
            last_byte: 0,
            stalled: VecDeque::new(),
            flushes: VecDeque::new(),
            link: Time::ZERO,
            writes: 0,
            running: false,
            served: false,
            meter: Meter::new(model.parts().rest),
            counts: Counts::default(),
        };
        Disk { core: Rc::new(Core { rt: rt.clone(), model, setup, state: RefCell::new(state) }), limits }
    }
}

impl Device for Disk {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let core = &self.core;
        match bio.op {
            Op::Read if core.state.borrow().dirty.covers(bio.range) => core.transfer(bio),
            Op::Read => core.command(bio, 0),
            Op::Write | Op::Zero => core.write(bio),
            Op::Flush => core.flush(bio),
            Op::Extents => Step::Now(core.setup.common.content.extents(bio)),
            Op::Discard | Op::Ranges(_) => Step::Now(bio.fail(BioError::Unsupported(OpKind::Discard))),
        }
    }

    fn depth(&self) -> u32 {
        self.core.setup.common.depth
    }

    fn stats(&self) -> Vec<Stat> {
        let state = self.core.state.borrow();
        let counts = &state.counts;
        let mean = counts.positioning.as_secs_f64() * 1e6 / counts.mechanical.max(1) as f64;
        access::stats([
            ("seeks", counts.seeks as f64),
            ("travel_cylinders", counts.travel.iter().sum::<u64>() as f64),
            ("write_travel_cylinders", counts.travel[1] as f64),
            ("positioning_mean_us", mean),
            ("queue_depth_max", counts.depth_max as f64),
            ("cache_hits", counts.hits as f64),
            ("destages", counts.destages as f64),
            ("dirty_bytes", state.dirty.bytes() as f64),
            ("spin_ups", state.meter.wakes() as f64),
        ])
    }

    fn usage(&self) -> Option<Usage> {
        let core = &self.core;
        Some(core.state.borrow().meter.usage(&core.model.parts().bill, core.rt.now()))
    }
}

impl Core {
    /// Queues a command for the arm.
    fn command(self: &Rc<Self>, bio: Bio, write: u64) -> Step<Done> {
        let (done, receiver) = sync::oneshot();
        let access = Access { range: bio.range, write: bio.op != Op::Read };
        let arrived = self.rt.now();
        let command = Command { placed: self.model.locate(access), arrived, taken: arrived, write, done };
        {
            let state = &mut *self.state.borrow_mut();
            state.meter.wake(arrived);
            if state.queue.len() < self.setup.common.depth as usize {
                state.queue.push(command);
            } else {
                state.overflow.push_back(command);
            }
            state.counts.depth_max = state.counts.depth_max.max(state.queue.len());
        }
        self.kick();
        self.answer_after(bio, receiver)
    }

    /// Moves a read's data over the host interface only, out of the write cache.
    fn transfer(self: &Rc<Self>, bio: Bio) -> Step<Done> {
        let mut state = self.state.borrow_mut();
        state.counts.hits += 1;
        let overhead = self.model.cached_read(&state.head);
        state.head.note(false);
        let until = self.take_link(&mut state, &bio, overhead);
        drop(state);
        self.answer_at(bio, until)
    }

    /// Takes the host interface for a request and returns when its command ends. A disk in standby spins up first: it
    /// does not answer from its cache what its medium could not yet take or give.
    fn take_link(&self, state: &mut State, bio: &Bio, overhead: Nanos) -> Time {
        let start = state.meter.wake(self.rt.now());
        state.link = state.link.max(start) + self.model.host(bio.buf.len() as u64);
        let until = state.link + overhead;
        state.meter.work(start, until);
        until
    }

    fn write(self: &Rc<Self>, bio: Bio) -> Step<Done> {
        let newest = self.setup.common.content.apply(&bio);
        let buffer = self.model.parts().buffer.write;
        if !self.setup.common.cache || bio.flags.fua || bio.range.len() > buffer {
            return self.command(bio, newest);
        }
        let mut state = self.state.borrow_mut();
        state.writes += 1;
        let overhead = self.model.cached_write(&state.head);
        state.head.note(true);
        let until = self.take_link(&mut state, &bio, overhead);
        let run = DirtyExtent { range: bio.range, oldest: state.writes, newest, ready: until };
        let fits = state.stalled.is_empty() && state.dirty.bytes() + bio.range.len() <= buffer;
        let step = if fits {
            state.dirty.insert(run);
            self.answer_at(bio, until)
        } else {
            let (done, receiver) = sync::oneshot();
            state.stalled.push_back((run, done));
            self.answer_after(bio, receiver)
        };
        drop(state);
        self.kick();
        step
    }

    fn flush(self: &Rc<Self>, bio: Bio) -> Step<Done> {
        let mut state = self.state.borrow_mut();
        let overhead = self.model.cached_read(&state.head);
        let covered = state.writes;
        let start = state.meter.wake(self.rt.now());
        if state.is_stable(covered) {
            state.meter.work(start, start + overhead);
            return self.answer_at(bio, start + overhead);
        }
        let (done, receiver) = sync::oneshot();
        state.flushes.push_back((covered, done));
        drop(state);
        self.answer_after(bio, receiver)
    }

    fn answer_at(self: &Rc<Self>, bio: Bio, until: Time) -> Step<Done> {
        let core = self.clone();
        Step::later(async move {
            core.rt.sleep_until(until).await;
            core.setup.common.content.answer(bio)
        })
    }

    /// Answers when the arm has said so, at the instant that it tells.
    fn answer_after(self: &Rc<Self>, bio: Bio, receiver: Receiver<Time>) -> Step<Done> {
        let core = self.clone();
        Step::later(async move {
            let Ok(until) = receiver.await else { return bio.fail(BioError::Gone("disk-model".into())) };
            if until > core.rt.now() {
                core.rt.sleep_until(until).await;
            }
            core.setup.common.content.answer(bio)
        })
    }

    /// Starts the arm, if it rests.
    fn kick(self: &Rc<Self>) {
        if !std::mem::replace(&mut self.state.borrow_mut().running, true) {
            self.rt.spawn("disk-model", arm(self.clone())).detach();
        }
    }

    /// Chooses what the arm does next, being free since `now`; `None` puts it to rest.
    fn begin(&self, now: Time) -> Option<Work> {
        let state = &mut *self.state.borrow_mut();
        let due = !state.flushes.is_empty() || !state.stalled.is_empty();
        let destage = !state.dirty.is_empty() && (state.queue.is_empty() || (due && state.served));
        state.served = !destage;
        let work = if destage { self.begin_destage(state, now) } else { self.begin_command(state, now) };
        state.running = work.is_some();
        work
    }

    fn begin_command(&self, state: &mut State, now: Time) -> Option<Work> {
        let earliest = state.queue.iter().map(|command| command.arrived).min()?;
        let now = now.max(earliest);
        let chosen = self.choose(state, now)?;
        let command = state.queue.swap_remove(chosen);
        state.queue.extend(state.overflow.pop_front().map(|next| Command { taken: next.arrived.max(now), ..next }));
        let plan = self.model.serve(&mut state.head, &command.placed, command.arrived, now);
        let access = command.placed.access;
        state.head.note(access.write);
        let finish = state.sent(plan.finish, self.model.host(access.range.len()));
        state.follow(&AccessPlan { finish, ..plan }, access, now);
        let settles = access.write.then_some(command.write);
        Some(Work { free: plan.free, finish, range: access.range, settles, done: Some(command.done) })
    }

    /// The command that the disk has had for too long to let it wait, or else the one with the shortest positioning
    /// time (SPTF: M. Seltzer, P. Chen and J. Ousterhout, *Disk Scheduling Revisited*, USENIX 1990); the older one of
    /// two equals. What came later than `now` is not known yet.
    fn choose(&self, state: &State, now: Time) -> Option<usize> {
        let oldest = state.queue.iter().enumerate().min_by_key(|(_, command)| (command.taken, command.arrived))?;
        if now.since(oldest.1.taken) >= self.setup.age_max {
            return Some(oldest.0);
        }
        let angle = self.model.geometry().angle(now);
        let cost = |c: &Command| self.model.positioning(&state.head, &c.placed, c.arrived, now, angle);
        let known = state.queue.iter().enumerate().filter(|(_, command)| command.arrived <= now);
        known.min_by_key(|(_, c)| (cost(c), c.arrived)).map(|(at, _)| at)
    }

    /// Writes cached bytes to the medium: of the runs that the arm meets next, or of the oldest ones if a flush waits
    /// for them, the one with the shortest positioning time.
    fn begin_destage(&self, state: &mut State, now: Time) -> Option<Work> {
        let angle = self.model.geometry().angle(now);
        let place = |run: &DirtyExtent| (*run, self.model.locate(Access { range: run.range, write: true }));
        let cost =
            |(run, placed): &(DirtyExtent, Placed)| self.model.positioning(&state.head, placed, run.ready, now, angle);
        let nearest = if state.flushes.is_empty() {
            state.dirty.sweep(state.last_byte).take(DESTAGE_CHOICES).map(place).min_by_key(cost)
        } else {
            state.dirty.by_age().take(DESTAGE_CHOICES).map(place).min_by_key(cost)
        };
        let (run, placed) = nearest?;
        let plan = self.model.serve(&mut state.head, &placed, run.ready, now);
        state.dirty.remove(&run);
        state.counts.destages += 1;
        state.destaging = Some(run);
        state.follow(&AccessPlan { finish: plan.free, ..plan }, placed.access, now);
        Some(Work { free: plan.free, finish: plan.free, range: run.range, settles: Some(run.newest), done: None })
    }

    /// Ends what the arm did: data is on the medium, room in the cache is free, and waiting commands go on.
    fn end(&self, work: Work) {
        if let Some(write) = work.settles {
            self.setup.common.content.mark_stable(work.range, write);
        }
        if let Some(done) = work.done {
            return done.send(work.finish);
        }
        let state = &mut *self.state.borrow_mut();
        state.destaging = None;
        let buffer = self.model.parts().buffer.write;
        while let Some((run, done)) = state.stalled.pop_front() {
            if state.dirty.bytes() + run.range.len() > buffer {
                state.stalled.push_front((run, done));
                break;
            }
            state.dirty.insert(run);
            done.send(work.free);
        }
        let until = work.free + self.model.cached_read(&state.head);
        while let Some((covered, done)) = state.flushes.pop_front() {
            if !state.is_stable(covered) {
                state.flushes.push_front((covered, done));
                break;
            }
            done.send(until);
        }
    }
}

impl State {
    /// Whether the acknowledged writes up to number `covered` are on the medium.
    fn is_stable(&self, covered: u64) -> bool {
        let oldest = self.dirty.oldest().into_iter().chain(self.destaging.map(|run| run.oldest)).min();
        oldest.is_none_or(|oldest| oldest > covered)
    }

    /// When a transfer that would end at `finish` ends, since the host interface carries one at a time.
    fn sent(&mut self, finish: Time, transfer: Nanos) -> Time {
        let begin = Time(finish.0.saturating_sub(transfer.0));
        self.link = self.link.max(begin) + transfer;
        self.link
    }

    fn follow(&mut self, plan: &AccessPlan, access: Access, now: Time) {
        self.last_byte = access.range.end();
        self.meter.work(now, plan.finish);
        let bytes = if access.write { &mut self.meter.written } else { &mut self.meter.read };
        *bytes += access.range.len();
        if plan.hit {
            self.counts.hits += 1;
        } else {
            self.counts.mechanical += 1;
            self.counts.seeks += u64::from(plan.seek > Nanos::ZERO);
            self.counts.travel[usize::from(access.write)] += u64::from(plan.travel);
            self.counts.positioning += plan.seek + plan.wait;
        }
    }
}

/// The arm: one access after the other, until there is nothing to do. It has its own time: that this task may wake
/// late, in the real world or on a busy simulated CPU, is nothing that a disk would notice.
async fn arm(core: Rc<Core>) {
    let mut free = core.rt.now();
    loop {
        // What comes while the disk spins up is ordered when it has: nothing is chosen before.
        let ready = core.state.borrow().meter.ready(free);
        if ready > free {
            core.rt.sleep_until(ready).await;
            free = ready;
        }
        let Some(work) = core.begin(free) else { return };
        free = work.free;
        core.rt.sleep_until(free).await;
        core.end(work);
    }
}
