//! Work in the background: copying to members that lack something, looking for members that are out, forgetting regions
//! that have become equal. One task does it all, one thing after the other; only of the pieces that it copies are many
//! under way at once.

use std::cell::Cell;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::locks::Mode;
use esker_block::{Below, Bio, BioError, Class, LayerHandle, Tag, WorkPermit};
use esker_framing::SuperblockError;
use esker_layer_kit::Then;
use esker_rt::Level;

use crate::assemble::ProbeError;
use crate::members::State;
use crate::run::{Mirror, find};
use crate::scrub::Scrub;
use crate::superblock::Superblock;

/// A member that comes and goes is looked for ever more seldom, up to this many doublings.
const DOUBLINGS_MAX: u32 = 6;

pub(crate) const BACKGROUND: Tag = Tag::of(Class::Background);

/// What the task does next.
enum Work {
    /// Writes this range to all members again.
    Repair(ByteRange),
    /// Copies what members lack.
    Copy,
    /// Compares a part of all members.
    Scrub(Rc<Scrub>),
    /// Looks for members that are out, or forgets regions that were quiet.
    Look,
}

/// Runs until the mirror leaves its stack.
pub(crate) async fn run(mirror: Rc<Mirror>, handle: LayerHandle) {
    let failures = Cell::new(0);
    let work = async |job: WorkPermit, work| {
        match work {
            Work::Repair(range) => mirror.repair(job.below(), range).await,
            Work::Copy => {
                // Each piece enters by itself, so that a change of the stack waits for pieces alone.
                drop(job);
                failures.set(u32::from(mirror.copy_all(&handle).await == Some(false)));
            }
            Work::Scrub(scrub) => {
                drop(job);
                mirror.scrub_some(&handle, &scrub).await;
            }
            Work::Look if mirror.members.is_one_sought() => {
                mirror.looked.set(mirror.rt().now());
                let is_back = mirror.look(job.below()).await;
                failures.set(if is_back { 0 } else { failures.get() + 1 });
            }
            Work::Look => {
                mirror.looked.set(mirror.rt().now());
                failures.set(0);
                mirror.forget(job.below()).await;
            }
        }
        Then::Again
    };
    let due = || mirror.due(failures.get());
    mirror.background.run((mirror.rt(), Some(&mirror.latch)), &handle, due, work).await;
}

impl Mirror {
    /// What is to be done next, and after which time.
    fn due(&self, failures: u32) -> Option<(Nanos, Work)> {
        if let Some(range) = self.repairs.borrow_mut().pop_front() {
            return Some((Nanos::ZERO, Work::Repair(range)));
        }
        if self.has_copying() && failures == 0 {
            return Some((Nanos::ZERO, Work::Copy));
        }
        if self.members.is_one_sought() && self.look_now.take() {
            return Some((Nanos::ZERO, Work::Look));
        }
        let is_dirty = !self.superblock.borrow().dirty.is_empty();
        let is_due = self.has_copying() || self.members.is_one_sought() || (is_dirty && self.is_whole());
        let pause = self.pause(failures);
        match self.wanted_scrub() {
            Some(_) if is_due && self.rt().now().since(self.looked.get()) >= pause => Some((Nanos::ZERO, Work::Look)),
            Some(scrub) => Some((Nanos::ZERO, Work::Scrub(scrub))),
            None => is_due.then_some((pause, Work::Look)),
        }
    }

    pub(crate) fn has_copying(&self) -> bool {
        self.members.count(State::Catching) > 0 || !self.suspect.borrow().is_empty()
    }

    fn pause(&self, failures: u32) -> Nanos {
        if !self.members.is_one_sought() && failures == 0 {
            return self.config.settle;
        }
        Nanos(self.config.probe.0.saturating_mul(1 << failures.min(DOUBLINGS_MAX)))
    }

    /// Writes a range with what the first member that can read it holds to the others that are in sync. Clients cannot
    /// change it meanwhile, so all hold the same, and a crash leaves nothing that differs. Where members are suspected
    /// to differ, copying does it anyway.
    async fn repair(&self, below: &Below, range: ByteRange) {
        let ticket = self.locks.enter([range], Mode::Exclusive);
        self.locks.granted(ticket).await;
        let is_suspect = self.regions(range).any(|region| self.suspect.borrow().has(region));
        if !is_suspect && let Ok((source, buf)) = self.read_any(below, range).await {
            let in_sync = self.members.which(|state| state == State::InSync);
            let targets: Vec<usize> = in_sync.into_iter().filter(|lower| *lower != source).collect();
            let mut bio = Bio::write(range.start(), buf).tagged(BACKGROUND);
            for answer in self.to_all(below, &mut bio, &targets, self.config.tries).await {
                match &answer.done.result {
                    Ok(_) => self.counts.repaired.set(self.counts.repaired.get() + range.len()),
                    Err(error) => self.lose(answer.lower, error),
                }
            }
        }
        self.locks.leave(ticket);
    }

    /// All members that caught up are in sync, once what was copied is durable.
    pub(crate) async fn admit(&self, below: &Below) -> Result<(), BioError> {
        self.flush_all(below, BACKGROUND).await?;
        let caught_up = self.members.which(|state| state == State::Catching);
        let members = caught_up.iter().filter_map(|lower| self.members.get(*lower).number.get());
        let in_sync = members.fold(self.superblock.borrow().in_sync, |set, member| set | 1 << member);
        if caught_up.is_empty() {
            return Ok(());
        }
        caught_up.iter().for_each(|lower| self.members.set_state(*lower, State::InSync));
        self.change_sync(in_sync);
        self.commit(below).await?;
        caught_up.iter().for_each(|lower| self.log_event(Level::Info, *lower, "is in sync again"));
        Ok(())
    }

    /// Looks at the members that are out: one that answers is resynced. Whether one came back.
    async fn look(&self, below: &Below) -> bool {
        let mut is_back = false;
        for lower in self.members.sought() {
            let taken = self.take_back(below, lower).await;
            is_back |= taken.is_ok();
            *self.members.get(lower).trouble.borrow_mut() = taken.err();
        }
        is_back
    }

    /// A member that lacks more than the dirty regions gets its superblock only after the other superblocks call all
    /// regions dirty: the commit with it is the second one. If it does not come back: why.
    async fn take_back(&self, below: &Below, lower: usize) -> Result<(), String> {
        let needs_all = match find(below, self.pool(), lower).await {
            Ok((superblock, member)) => match self.knows(lower, &superblock, member) {
                true => superblock.sequence < self.superblock.borrow().base,
                false => {
                    let what = "holds a member of another mirror, or data that changed apart from this one";
                    return Err(format!("{what}; zero its first 8 KiB to have it copied as a whole"));
                }
            },
            Err(ProbeError::Superblock(SuperblockError::Blank)) if self.is_expected(lower)? => true,
            Err(trouble) => return Err(trouble.to_string()),
        };
        let unwritten = |_| "its superblock cannot be written".to_string();
        if needs_all {
            self.superblock.borrow_mut().dirty.set_all();
            self.commits.ask();
            self.commit(below).await.map_err(unwritten)?;
        }
        self.members.set_state(lower, State::Catching);
        self.commits.ask();
        self.commit(below).await.map_err(unwritten)?;
        if self.members.state(lower) != State::Catching {
            return Err("it takes no writes".to_string());
        }
        self.log_event(Level::Info, lower, "is back and resyncing");
        Ok(())
    }

    /// Whether a blank device may be the member at this place. One that joins gets its number: the next superblock of
    /// the others, which comes before its own, has it.
    fn is_expected(&self, lower: usize) -> Result<bool, String> {
        let member = self.members.get(lower);
        if member.joins.get() {
            let number = self.superblock.borrow().free(self.members.numbers());
            let number = number.ok_or("the mirror has as many members as it can have")?;
            self.superblock.borrow_mut().attach(number);
            member.number.set(Some(number));
            member.joins.set(false);
        }
        Ok(member.number.get().is_some())
    }

    fn knows(&self, lower: usize, superblock: &Superblock, member: u16) -> bool {
        let own = self.superblock.borrow();
        let is_ours = superblock.set == own.set && self.members.get(lower).number.get() == Some(member);
        is_ours && superblock.generation <= own.generation && superblock.is_ancestor_of(&own)
    }

    /// Takes back the bits of regions that were quiet for a while: after a flush of all members they are equal.
    async fn forget(&self, below: &Below) {
        let quiet = self.intent.quiet_since_last(&self.superblock.borrow().dirty);
        if quiet.is_empty() || !self.is_whole() || self.flush_all(below, BACKGROUND).await.is_err() || !self.is_whole()
        {
            return;
        }
        let still = self.intent.still_quiet(quiet);
        still.iter().for_each(|region| self.superblock.borrow_mut().dirty.clear(*region));
        self.commits.ask();
        // The next write finds out what is wrong with the superblocks.
        let _told_to_next_writer = self.commit(below).await;
    }
}
