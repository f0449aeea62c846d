//! Requests: to all members that take writes, to one that is read.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use esker_base::{Bits, ByteRange, Time};
use esker_block::locks::{Mode, RangeLocks};
use esker_block::{Below, Bio, BioError, Buf, Class, Done, KindError, Latch, Op, Reply, Step, Tag};
use esker_layer_kit::{Background, GroupCommit, Io};
use esker_rt::mem::Pool;
use esker_rt::sync::join_all;
use esker_rt::{Level, Rt};

use crate::Config;
use crate::assemble::{AssembledMember, Assembly, ProbeError, Probed, Start, assemble};
use crate::counts::Counts;
use crate::intent::Intent;
use crate::members::{Members, State};
use crate::pace::Pace;
use crate::scrub::Scrub;
use crate::superblock::{DATA_START, Superblock};

/// A mirror in use. Lock order: a claim in `locks`, then the turn to write superblocks.
pub struct Mirror {
    pub(crate) config: Config,
    rt: Rt,
    pool: Pool,
    pub(crate) members: Members,
    /// What is to hold; its sequence is that of the last superblock that reached all members that take writes.
    pub(crate) superblock: RefCell<Superblock>,
    /// Counts changes of `superblock`; the last one of `in_sync` among them.
    pub(crate) commits: GroupCommit,
    asked_sync: Cell<u64>,
    /// Sequence of the last superblock that was tried.
    tried: Cell<u64>,
    pub(crate) intent: Intent,
    pub(crate) locks: RangeLocks,
    /// Regions in which members that are in sync may differ, since a crash: only the source is read there.
    pub(crate) suspect: RefCell<Bits>,
    /// Why it takes no changes any more.
    pub(crate) latch: Latch,
    /// Ranges that some member could not read.
    pub(crate) repairs: RefCell<VecDeque<ByteRange>>,
    pub(crate) pace: Pace,
    /// Bytes of a resync that are done, and all of them.
    pub(crate) resync: Cell<Option<(u64, u64)>>,
    /// The last scrub.
    pub(crate) scrub: RefCell<Option<Rc<Scrub>>>,
    /// Whether an operator wants members to be looked for at once.
    pub(crate) look_now: Cell<bool>,
    /// When members were looked for, or quiet regions forgotten, for the last time.
    pub(crate) looked: Cell<Time>,
    pub(crate) background: Background,
    pub(crate) counts: Counts,
}

/// Ranges that wait for repair at most; what comes while there are as many is not repaired.
const REPAIRS_MAX: usize = 64;

/// What an operator does about a mirror that is latched.
const ADVICE: &str = "Repair a member, then restart.";

/// What a member answered.
pub(crate) struct Answer {
    pub lower: usize,
    pub done: Done,
}

const METADATA: Tag = Tag::of(Class::Metadata);

impl Mirror {
    /// Reads the superblocks, puts the set together and makes what holds now durable.
    pub(crate) async fn restore(config: Config, io: &Io) -> Result<Mirror, KindError> {
        let (rt, pool, below) = (io.rt(), io.pool(), io.below());
        let outside = |what: &dyn std::fmt::Display| KindError::Outside(format!("{}: {what}", config.name));
        let found = join_all((0..config.lowers).map(|lower| find(below, pool, lower))).await;
        let fresh = || Superblock::new(rt.unique(), config.lowers as u16, config.data, config.region);
        let assembly = assemble(&found, fresh, config.degraded).map_err(|refusal| outside(&refusal))?;
        if assembly.superblock.data > config.data {
            let (is, was) = (config.data, assembly.superblock.data);
            return Err(outside(&format!("the smallest member has room for {is} bytes of data, the mirror has {was}")));
        }
        let lags = lags(&found, &assembly);
        let mirror = Mirror::of(config, rt.clone(), pool.clone(), assembly);
        let opened = mirror.begin(below, lags).await;
        opened.map_err(|error| {
            KindError::Outside(format!("{}: its superblocks cannot be written: {error}", mirror.config.name))
        })?;
        Ok(mirror)
    }

    fn of(config: Config, rt: Rt, pool: Pool, assembly: Assembly) -> Mirror {
        let Assembly { superblock, members, suspect } = assembly;
        let state = |start| match start {
            Start::InSync => State::InSync,
            Start::Partial | Start::Full => State::Catching,
            Start::Out | Start::Joins => State::Out,
        };
        let joining: Vec<usize> = (0..members.len()).filter(|lower| members[*lower].start == Start::Joins).collect();
        let needs_all = members.iter().any(|member| member.start == Start::Full);
        let mut superblock = superblock;
        if needs_all {
            superblock.dirty.set_all();
        }
        let members = Members::new(members.iter().map(|member| (member.number, state(member.start))));
        joining.into_iter().for_each(|lower| members.get(lower).joins.set(true));
        Mirror {
            members,
            intent: Intent::new(Bits::new(superblock.dirty.len())),
            tried: Cell::new(superblock.sequence),
            superblock: RefCell::new(superblock),
            suspect: RefCell::new(suspect),
            commits: GroupCommit::default(),
            asked_sync: Cell::new(0),
            locks: RangeLocks::default(),
            latch: Latch::new(&config.name),
            repairs: RefCell::default(),
            pace: Pace::new(&rt, config.window, config.busy),
            resync: Cell::new(None),
            scrub: RefCell::default(),
            look_now: Cell::new(false),
            looked: Cell::new(rt.now()),
            background: Background::default(),
            counts: Counts::default(),
            config,
            rt,
            pool,
        }
    }

    /// Says which members are there and writes the first superblock. A member that needs everything gets its own only
    /// after the others' say so, or a crash would leave it with a superblock that is better than its data.
    async fn begin(&self, below: &Below, lags: bool) -> Result<(), BioError> {
        let catching = self.members.which(|state| state == State::Catching);
        catching.iter().for_each(|lower| self.members.set_state(*lower, State::Out));
        let is_new = self.superblock.borrow().sequence == 0;
        if is_new {
            self.make(below).await?;
        } else if lags {
            // The superblock that not all members got is written again, under its own number.
            self.tried.set(self.tried.get() - 1);
            self.commits.ask();
            self.commit(below).await?;
        }
        let present = self.in_sync();
        if present != self.superblock.borrow().in_sync {
            self.change_sync(present);
        }
        self.commits.ask();
        self.commit(below).await?;
        if !catching.is_empty() {
            catching.iter().for_each(|lower| self.members.set_state(*lower, State::Catching));
            self.commits.ask();
            self.commit(below).await?;
        }
        for lower in self.members.which(|state| state != State::InSync) {
            self.log_event(Level::Warn, lower, "is not in sync");
        }
        Ok(())
    }

    /// The first superblock, without bits, so that what a crash leaves of it is known. Until a second one is on all
    /// members, there is no mirror.
    async fn make(&self, below: &Below) -> Result<(), BioError> {
        self.commits.ask();
        self.commit(below).await?;
        if self.config.lowers > 1 && !self.config.equal {
            self.superblock.borrow_mut().dirty.set_all();
            self.suspect.borrow_mut().set_all();
        }
        Ok(())
    }

    fn in_sync(&self) -> u16 {
        let members = self.members.which(|state| state == State::InSync).into_iter();
        members.filter_map(|lower| self.members.get(lower).number.get()).fold(0, |set, member| set | 1 << member)
    }

    /// Whether all members of the set are in sync and nowhere suspected to differ.
    pub(crate) fn is_whole(&self) -> bool {
        let superblock = self.superblock.borrow();
        superblock.in_sync == superblock.all() && self.suspect.borrow().is_empty()
    }

    pub(crate) fn rt(&self) -> &Rt {
        &self.rt
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn log_event(&self, level: Level, lower: usize, what: &str) {
        self.rt.log(level, format_args!("{}: member {lower} {what}", self.config.name));
    }

    pub(crate) fn regions(&self, range: ByteRange) -> Range<usize> {
        let region = self.superblock.borrow().region;
        (range.start() / region) as usize..range.end().div_ceil(region) as usize
    }

    /// Sends a read to the member whose head is nearest, and on failure to the others.
    pub(crate) fn read(self: &Rc<Self>, below: Below, bio: Bio) -> Step<Done> {
        let readable = self.readable(bio.range);
        let first = self.members.nearest(&readable, bio.offset());
        let Some(first) = first else { return Step::Now(bio.fail(BioError::Gone(self.config.name.as_str().into()))) };
        let again = Bio { op: bio.op.clone(), buf: Buf::empty(), ..bio };
        match self.submit(&below, first, bio) {
            Step::Now(done) if done.result.is_ok() => Step::Now(done),
            step @ (Step::Now(_) | Step::After(..) | Step::Ticket(_) | Step::Later(_)) => {
                let mirror = self.clone();
                Step::later(async move {
                    let _counted = mirror.pace.client();
                    let done = step.await;
                    match done.result {
                        Ok(_) => done,
                        Err(error) => mirror.read_elsewhere(&below, Bio { buf: done.buf, ..again }, first, error).await,
                    }
                })
            }
        }
    }

    async fn read_elsewhere(&self, below: &Below, mut bio: Bio, first: usize, mut error: BioError) -> Done {
        let (range, tag, flags, dest) = (bio.range, bio.tag, bio.flags, bio.dest);
        self.note_failed_read(first, &error);
        for lower in self.readable(range).into_iter().filter(|lower| *lower != first) {
            self.counts.read_elsewhere.set(self.counts.read_elsewhere.get() + 1);
            let op = bio.op.clone();
            let done = self.submit(below, lower, bio).await;
            match done.result {
                Ok(_) => {
                    self.repair_later(range);
                    return done;
                }
                Err(next) => {
                    self.note_failed_read(lower, &next);
                    error = next;
                }
            }
            bio = Bio { op, range, flags, dest, buf: done.buf, tag };
        }
        bio.fail(error)
    }

    /// A member that is gone or answers no read at all is not asked again; one that cannot read some bytes still has
    /// the others.
    fn note_failed_read(&self, lower: usize, error: &BioError) {
        if matches!(error, BioError::Gone(_) | BioError::Latched(_)) {
            self.lose(lower, error);
        }
    }

    /// What one member could not read and another could is written to all again: most devices mend or move a bad sector
    /// then.
    fn repair_later(&self, range: ByteRange) {
        let mut repairs = self.repairs.borrow_mut();
        if repairs.len() < REPAIRS_MAX && !repairs.contains(&range) {
            repairs.push_back(range);
        }
        self.background.wake();
    }

    /// Members that may be read in `range`.
    fn readable(&self, range: ByteRange) -> Vec<usize> {
        let suspect = self.suspect.borrow();
        if !suspect.is_empty() && self.regions(range).any(|region| suspect.has(region)) {
            return self.members.source().into_iter().collect();
        }
        self.members.which(|state| state == State::InSync)
    }

    /// Sends a request for data to one member.
    pub(crate) fn submit(&self, below: &Below, lower: usize, bio: Bio) -> Step<Done> {
        if matches!(bio.op, Op::Read | Op::Write) {
            self.members.moved(lower, bio.range.end());
        }
        below.submit(placed(bio).to(below.lower(lower)))
    }

    /// Writes, zeroes or discards. Overlapping changes go one after the other, or members could end up in another
    /// order.
    pub(crate) async fn change(&self, below: &Below, mut bio: Bio) -> Done {
        let _counted = self.pace.client();
        if bio.op == Op::Discard {
            // Members that did different things with a hint would differ.
            bio.op = Op::Zero;
            bio.flags.no_unmap = false;
        }
        let ticket = self.locks.enter([bio.range], Mode::Exclusive);
        self.locks.granted(ticket).await;
        let regions = self.regions(bio.range);
        self.intend(regions.clone());
        let result = self.change_claimed(below, &mut bio, regions.clone()).await;
        self.intent.end(regions);
        self.locks.leave(ticket);
        Done { result, buf: bio.buf }
    }

    fn intend(&self, regions: Range<usize>) {
        self.intent.begin(regions.clone());
        let mut superblock = self.superblock.borrow_mut();
        for region in regions.filter(|region| !superblock.dirty.has(*region)).collect::<Vec<_>>() {
            superblock.dirty.set(region);
            self.commits.ask();
        }
        drop(superblock);
        self.background.wake();
    }

    async fn change_claimed(&self, below: &Below, bio: &mut Bio, regions: Range<usize>) -> Result<Reply, BioError> {
        self.latch.check()?;
        if !self.intent.is_durable(regions.clone()) {
            self.commit(below).await?;
        }
        let answers = self.to_all(below, bio, &self.members.written(), self.config.tries).await;
        self.judge(answers)?;
        self.commit_sync(below).await?;
        Ok(Reply::Empty)
    }

    pub(crate) async fn flush(&self, below: &Below, bio: Bio) -> Done {
        let result = self.flush_all(below, bio.tag).await;
        Done { result: result.map(|()| Reply::Empty), buf: bio.buf }
    }

    /// A failed flush is not retried, because the durable state is unknown then.
    pub(crate) async fn flush_all(&self, below: &Below, tag: Tag) -> Result<(), BioError> {
        self.latch.check()?;
        let answers = self.to_all(below, &mut Bio::flush().tagged(tag), &self.members.written(), 0).await;
        self.judge(answers)?;
        self.commit_sync(below).await
    }

    /// Sends a change or a flush to some members at once.
    pub(crate) async fn to_all(&self, below: &Below, bio: &mut Bio, lowers: &[usize], tries: u32) -> Vec<Answer> {
        let sends = lowers.iter().map(|lower| {
            let copy = Bio { op: bio.op.clone(), buf: bio.buf.share(), ..*bio };
            self.members.moved(*lower, copy.range.end());
            self.send(below, *lower, placed(copy), tries)
        });
        join_all(sends.collect::<Vec<_>>()).await
    }

    /// Sends a request to one member, and again if it fails.
    async fn send(&self, below: &Below, lower: usize, bio: Bio, tries: u32) -> Answer {
        let mut bio = bio.to(below.lower(lower));
        for _ in 0..tries {
            let again = Bio { op: bio.op.clone(), buf: bio.buf.share(), ..bio };
            let done = below.submit(bio).await;
            if !matches!(done.result, Err(BioError::Io(_))) {
                return Answer { lower, done };
            }
            self.counts.retries.set(self.counts.retries.get() + 1);
            bio = again;
        }
        Answer { lower, done: below.submit(bio).await }
    }

    /// Draws the consequences of what the members answered to a change or flush: a member that failed is offline, as
    /// long as a member in sync did it. If none did, no member holds it for certain, and the mirror latches.
    pub(crate) fn judge(&self, answers: Vec<Answer>) -> Result<(), BioError> {
        let is_done = |answer: &Answer| answer.done.result.is_ok() && self.members.state(answer.lower) == State::InSync;
        let somebody = answers.iter().any(is_done);
        let mut first = None;
        for Answer { lower, done } in answers {
            let Err(error) = done.result else { continue };
            if somebody || self.members.state(lower) != State::InSync {
                self.lose(lower, &error);
            }
            first.get_or_insert(error);
        }
        match first {
            Some(error) if !somebody => {
                if !matches!(error, BioError::Invalid(_) | BioError::Unsupported(_)) {
                    self.latch.set_after(&self.rt, "no member took a change", &error, ADVICE);
                }
                Err(error)
            }
            None | Some(_) => Ok(()),
        }
    }

    /// A member is out, unless it is the last one in sync.
    pub(crate) fn lose(&self, lower: usize, error: &BioError) {
        let is_last = self.members.state(lower) == State::InSync && self.members.count(State::InSync) == 1;
        if is_last || self.members.state(lower) == State::Out {
            return;
        }
        let was = self.members.state(lower);
        self.members.set_state(lower, State::Out);
        self.counts.lost.set(self.counts.lost.get() + 1);
        if was == State::InSync {
            self.change_sync(self.in_sync());
        }
        let left = self.members.count(State::InSync);
        self.log_event(
            Level::Error,
            lower,
            &format!("is offline ({error}); {left} of {} are in sync", self.superblock.borrow().members),
        );
        self.background.wake();
    }

    pub(crate) fn change_sync(&self, in_sync: u16) {
        self.superblock.borrow_mut().change(in_sync);
        self.commits.ask();
        self.asked_sync.set(self.commits.asked());
    }

    /// Acknowledged data must not lie on one member alone while the superblocks do not say so.
    async fn commit_sync(&self, below: &Below) -> Result<(), BioError> {
        match self.commits.durable() < self.asked_sync.get() {
            true => self.commit(below).await,
            false => Ok(()),
        }
    }

    /// Makes all changes of the superblock up to now durable.
    pub(crate) async fn commit(&self, below: &Below) -> Result<(), BioError> {
        let write = async || self.write_superblock(below).await;
        self.commits.reach(self.commits.asked(), &self.latch, write).await
    }

    /// Writes one superblock to all members that take writes: the number of changes that are durable then. If a member
    /// fails, its loss asks for the next superblock.
    async fn write_superblock(&self, below: &Below) -> Result<u64, BioError> {
        let asked = self.commits.asked();
        let sequence = self.tried.get() + 1;
        self.tried.set(sequence);
        let mut superblock = self.superblock.borrow().clone();
        superblock.sequence = sequence;
        self.intent.leaving(&superblock.dirty);
        let at = superblock.at();
        let writes = self.members.written().into_iter().map(|lower| {
            let member = self.members.get(lower).number.get().expect("a member that takes writes has a number");
            let buf = Buf::from_bytes(&self.pool, &superblock.encode(member));
            self.send(below, lower, Bio::write(at, buf).fua().tagged(METADATA), self.config.tries)
        });
        let answers = join_all(writes.collect::<Vec<_>>()).await;
        self.counts.superblocks.set(self.counts.superblocks.get() + 1);
        let is_complete = answers.iter().all(|answer| answer.done.result.is_ok());
        self.judge(answers)?;
        if !is_complete {
            return Ok(self.commits.durable());
        }
        self.superblock.borrow_mut().sequence = sequence;
        self.intent.arrived(superblock.dirty);
        Ok(asked)
    }

    /// The last superblock: all members are equal, so the next start has nothing to copy.
    pub(crate) async fn rest(&self, below: &Below) -> Result<(), BioError> {
        if self.latch.is_set() {
            return Ok(());
        }
        self.flush_all(below, METADATA).await?;
        if self.is_whole() {
            self.superblock.borrow_mut().dirty.clear_all();
            self.commits.ask();
        }
        self.commit(below).await
    }
}

/// Whether a crash fell between the superblocks of two members that are in sync. The next superblock may come only when
/// both have that one: no member may be two behind another.
fn lags(found: &[Probed], assembly: &Assembly) -> bool {
    let newest = assembly.superblock.sequence;
    let lags = |(found, member): (&Probed, &AssembledMember)| {
        let sequence = found.as_ref().ok().map(|(superblock, _)| superblock.sequence);
        member.start == Start::InSync && sequence.is_some_and(|sequence| sequence < newest)
    };
    newest > 0 && found.iter().zip(&assembly.members).any(lags)
}

/// A request for data at its place on a member; flushes are about all of it.
fn placed(bio: Bio) -> Bio {
    match bio.op {
        Op::Flush => bio,
        Op::Read | Op::Write | Op::Zero | Op::Discard | Op::Ranges(_) | Op::Extents => {
            Bio { range: ByteRange::new(bio.offset() + DATA_START, bio.len()).expect("inside a member"), ..bio }
        }
    }
}

/// Reads the superblock of one member.
pub(crate) async fn find(below: &Below, pool: &Pool, lower: usize) -> Probed {
    let bio = Bio::read(0, Buf::unique(pool, DATA_START as usize)).tagged(METADATA).to(below.lower(lower));
    let done = below.submit(bio).await;
    match done.result {
        Ok(_) => {
            let head = done.buf.to_vec();
            Superblock::newest(&head).map_err(|error| ProbeError::of(error, &head))
        }
        Err(error) => Err(ProbeError::Unreadable(error.to_string())),
    }
}
