//! Requests: sent where their blocks lie, and shepherded if they fail.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use esker_base::{ByteRange, span};
use esker_block::locks::{Mode, RangeLocks, Ticket};
use esker_block::split::pieces;
use esker_block::{Bio, BioError, Buf, Class, Done, Flow, KindError, Latch, Op, Reply, Stat, Step, Tag, Trouble};
use esker_layer_kit::region::{Area, Region, RegionError, Regions};
use esker_layer_kit::{Background, Io, Turn, media};
use esker_rt::mem::Pool;
use esker_rt::{Level, Rt};

use crate::table::{Table, WORD};
use crate::{AREA, Config};

/// Name of the table among the regions: words count blocks, so each size of block has a name of its own.
fn region(block: u64) -> String {
    format!("moved-{block}")
}

/// Sizes of blocks that a device below can have.
const BLOCKS: [u64; 4] = [512, 1024, 2048, 4096];
/// Ranges that wait to be written anew; what comes while there are more is not.
const REFRESHES_MAX: usize = 64;

pub(crate) const BACKGROUND: Tag = Tag::of(Class::Background);

/// A device under guard. Reads hold shared claims, changes exclusive ones. Lock order: a claim, then `turn`.
pub struct Shepherd {
    pub(crate) config: Config,
    pub(crate) rt: Rt,
    pub(crate) pool: Pool,
    table: RefCell<Table>,
    kept: Rc<dyn Region>,
    /// One block is moved at a time.
    turn: Turn,
    locks: RangeLocks,
    pub(crate) to_refresh: RefCell<VecDeque<ByteRange>>,
    pub(crate) refreshes: Background,
    pub(crate) scrubs: Background,
    pub(crate) counts: Counts,
    /// Set when the table cannot be written: no block is moved from then on.
    latch: Latch,
}

/// What it tells about itself.
#[derive(Default)]
pub(crate) struct Counts {
    retries: Cell<u64>,
    recovered: Cell<u64>,
    lost: Cell<u64>,
    refreshed: Cell<u64>,
    pub scrubbed: Cell<u64>,
}

pub(crate) fn add(count: &Cell<u64>, amount: u64) {
    count.set(count.get() + amount);
}

/// Whether trying again may help.
fn is_passing(error: &BioError) -> bool {
    matches!(error, BioError::Io(_) | BioError::Corrupt(_))
}

fn may_pass(done: &Done) -> bool {
    done.result.as_ref().is_err_and(is_passing)
}

impl Shepherd {
    /// Reads the table, or makes one on a device whose end is blank.
    pub async fn restore(config: Config, io: &Io) -> Result<Shepherd, KindError> {
        let outside = |what: &dyn std::fmt::Display| KindError::Outside(format!("{}: {what}", config.name));
        let kept = restore(io, &config).await.map_err(|error| outside(&error))?;
        if kept.len() != config.spares * WORD {
            let was = kept.len() / WORD;
            return Err(outside(&format!("the device was made with {was} spare blocks; set spares={was}")));
        }
        let mut bytes = vec![0; kept.len() as usize];
        kept.read(0, &mut bytes);
        let table = Table::decode(&bytes, config.size / config.block);
        let table = table.map_err(|what| outside(&format!("its table of moved blocks is damaged: {what}")))?;
        Ok(Shepherd {
            table: RefCell::new(table),
            kept,
            turn: Turn::default(),
            locks: RangeLocks::default(),
            to_refresh: RefCell::default(),
            refreshes: Background::default(),
            scrubs: Background::default(),
            counts: Counts::default(),
            latch: Latch::new(&config.name),
            config,
            rt: io.rt().clone(),
            pool: io.pool().clone(),
        })
    }

    /// Sends a request to where its blocks lie.
    fn send(self: &Rc<Self>, io: &Io, mut bio: Bio) -> Step<Done> {
        let (block, spares) = (self.config.block, self.config.size);
        let pieces = {
            let table = self.table.borrow();
            pieces(bio.range, |at| table.run(at, block, spares))
        };
        bio.dest = io.lower(0);
        match io.splitter().redirect(&mut bio, &pieces) {
            Step::Now(Flow::Down) => io.submit(bio),
            step @ (Step::Now(_) | Step::After(..) | Step::Ticket(_) | Step::Later(_)) => {
                let io = io.clone();
                Step::later(async move {
                    match step.await {
                        Flow::Done(done) => done,
                        Flow::Down => io.submit(bio).await,
                        Flow::Resume(other) => io.submit(other).await,
                    }
                })
            }
        }
    }

    /// Runs a request under a claim, at once if it can be; `then` does something about an error that may pass.
    fn claimed<F>(self: &Rc<Self>, mode: Mode, io: &Io, mut bio: Bio, then: F) -> Step<Done>
    where
        F: AsyncFnOnce(Rc<Shepherd>, Io, RequestHead, Done) -> Done + 'static,
    {
        let ticket = self.locks.enter([bio.range], mode);
        let head = RequestHead::of(&mut bio);
        let first = if self.locks.is_granted(ticket) { Ok(self.send(io, bio)) } else { Err(bio) };
        if let Ok(Step::Now(done)) = first {
            if !may_pass(&done) {
                self.locks.leave(ticket);
                return Step::Now(done);
            }
            return self.later(io, ticket, async move |shepherd, io| then(shepherd, io, head, done).await);
        }
        self.later(io, ticket, async move |shepherd, io| {
            let done = match first {
                Ok(step) => step.await,
                Err(bio) => {
                    shepherd.locks.granted(ticket).await;
                    shepherd.send(&io, bio).await
                }
            };
            if may_pass(&done) { then(shepherd, io, head, done).await } else { done }
        })
    }

    /// Gives the claim back after `work`.
    fn later<F>(self: &Rc<Self>, io: &Io, ticket: Ticket, work: F) -> Step<Done>
    where
        F: AsyncFnOnce(Rc<Shepherd>, Io) -> Done + 'static,
    {
        let (shepherd, io) = (self.clone(), io.clone());
        Step::later(async move {
            let done = work(shepherd.clone(), io).await;
            shepherd.locks.leave(ticket);
            done
        })
    }

    /// Reads, and again if that fails. What was read only then is written anew.
    pub fn read(self: &Rc<Self>, io: &Io, bio: Bio) -> Step<Done> {
        self.claimed(Mode::Shared, io, bio, async |shepherd, io, mut head, done| {
            let done = shepherd.again(&io, &mut head, done).await;
            match &done.result {
                Ok(_) => shepherd.refresh_later(head.range),
                Err(error) => shepherd.lose(&head, error),
            }
            done
        })
    }

    /// Tries a failed request again, up to so often.
    async fn again(self: &Rc<Self>, io: &Io, head: &mut RequestHead, mut done: Done) -> Done {
        for _ in 0..self.config.tries {
            add(&self.counts.retries, 1);
            self.rt.sleep(self.config.pause).await;
            done = self.send(io, head.part(io, head.range)).await;
            if !may_pass(&done) {
                add(&self.counts.recovered, u64::from(done.result.is_ok()));
                break;
            }
        }
        done
    }

    fn lose(&self, head: &RequestHead, error: &BioError) {
        add(&self.counts.lost, 1);
        let (name, range, what) = (&self.config.name, head.range, head.op.clone());
        self.rt.log(Level::Error, format_args!("{name}: {what:?} of bytes {range} cannot be helped: {error}"));
    }

    /// A block that could hardly be read may soon not be readable at all. Reads do not wait for this.
    fn refresh_later(&self, range: ByteRange) {
        let mut ranges = self.to_refresh.borrow_mut();
        if ranges.len() < REFRESHES_MAX && !ranges.contains(&range) {
            ranges.push_back(range);
        }
        self.refreshes.wake();
    }

    /// Writes a range anew with what it holds.
    pub async fn refresh(self: &Rc<Self>, io: &Io, range: ByteRange) {
        let ticket = self.locks.enter([range], Mode::Exclusive);
        self.locks.granted(ticket).await;
        let mut head = RequestHead::of(&mut Bio::read(range.start(), Buf::empty()).tagged(BACKGROUND));
        head.range = range;
        let read = self.send(io, head.part(io, range)).await;
        let read = if may_pass(&read) { self.again(io, &mut head, read).await } else { read };
        if read.result.is_ok() {
            let mut head = RequestHead::of(&mut Bio::write(range.start(), read.buf).tagged(BACKGROUND));
            let result = self.in_parts(io, &mut head, false).await;
            add(&self.counts.refreshed, if result.is_ok() { range.len() } else { 0 });
        }
        self.locks.leave(ticket);
    }

    /// Writes, zeroes or discards, and again if that fails; in the end block by block, and what still fails is moved.
    pub fn change(self: &Rc<Self>, io: &Io, bio: Bio) -> Step<Done> {
        self.claimed(Mode::Exclusive, io, bio, async |shepherd, io, mut head, done| {
            // A discard is a hint.
            if head.op == Op::Discard {
                return done;
            }
            let mut done = shepherd.again(&io, &mut head, done).await;
            if may_pass(&done) {
                done.result = shepherd.in_parts(&io, &mut head, true).await;
            }
            if let Err(error) = &done.result {
                shepherd.lose(&head, error);
            }
            done
        })
    }

    /// Halves what fails until single blocks fail, which are moved. `has_failed` says that of the whole.
    async fn in_parts(self: &Rc<Self>, io: &Io, head: &mut RequestHead, has_failed: bool) -> Result<Reply, BioError> {
        let block = self.config.block;
        let mut open = vec![(head.range, has_failed)];
        while let Some((part, has_failed)) = open.pop() {
            if !has_failed {
                let done = self.send(io, head.part(io, part)).await;
                match done.result {
                    Ok(_) => continue,
                    Err(error) if is_passing(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            if part.len() == block {
                self.move_block(io, head, part).await?;
                continue;
            }
            let half = part.len() / block / 2 * block;
            open.push((span(part.start() + half, part.len() - half), false));
            open.push((span(part.start(), half), false));
        }
        Ok(Reply::Empty)
    }

    /// The block is durable on its spare before the table says so, and the table before anybody is led there.
    async fn move_block(&self, io: &Io, head: &mut RequestHead, part: ByteRange) -> Result<(), BioError> {
        self.turn.alone(self.move_in_turn(io, head, part)).await
    }

    async fn move_in_turn(&self, io: &Io, head: &mut RequestHead, part: ByteRange) -> Result<(), BioError> {
        loop {
            let Some(spare) = self.table.borrow().free() else {
                return Err(BioError::io(format!("{}: no spare block is left; replace the device", self.config.name)));
            };
            let bytes = match head.op {
                Op::Write => head.part(io, part).buf,
                Op::Read | Op::Flush | Op::Zero | Op::Discard | Op::Ranges(_) | Op::Extents => {
                    Buf::zeroed(io.pool(), part.len() as usize)
                }
            };
            let at = self.config.size + spare * self.config.block;
            let done = io.submit(Bio::write(at, bytes).fua().tagged(head.tag).to(io.lower(0))).await;
            let is_written = match done.result {
                Ok(_) => true,
                Err(error) if is_passing(&error) => false,
                Err(error) => return Err(error),
            };
            let block = is_written.then_some(part.start() / self.config.block);
            let mut table = self.table.borrow().clone();
            for (spare, word) in table.set(spare, block) {
                self.kept.write(spare * WORD, &word.to_le_bytes());
            }
            if let Err(error) = self.kept.clone().commit(io).await {
                let cause = format_args!("its table of moved blocks could not be written ({error})");
                self.latch.set(&self.rt, cause, "Replace the device.");
                return self.latch.check();
            }
            *self.table.borrow_mut() = table;
            if is_written {
                let name = &self.config.name;
                self.rt.log(Level::Warn, format_args!("{name}: bytes {part} cannot be written and were moved"));
                return Ok(());
            }
        }
    }

    /// That the table cannot be written, that no spare is left, or that requests failed for good.
    pub fn trouble(&self) -> Option<Trouble> {
        let degraded =
            |what| Trouble::Degraded(format!("{} is degraded: {what}. Replace the device.", self.config.name));
        let (left, lost) = (self.table.borrow().left(), self.counts.lost.get());
        let spares = (left == 0).then(|| "no spare block is left".to_string());
        let failed = (lost > 0).then(|| format!("{lost} requests failed for good since it started"));
        self.latch.trouble().or_else(|| spares.or(failed).map(degraded))
    }

    pub fn stats(&self) -> Vec<Stat> {
        let stat = |name, value: u64| Stat { name, value: value as f64 };
        let table = self.table.borrow();
        let (moved, left) = (table.moved() as u64, table.left() as u64);
        vec![
            stat("moved_blocks", moved),
            stat("spares_left", left),
            stat("spares_bad", self.config.spares - moved - left),
            stat("retries", self.counts.retries.get()),
            stat("recovered", self.counts.recovered.get()),
            stat("blocks_lost", self.counts.lost.get()),
            stat("refreshed_bytes", self.counts.refreshed.get()),
            stat("scrubbed_bytes", self.counts.scrubbed.get()),
        ]
    }
}

async fn restore(io: &Io, config: &Config) -> Result<Rc<dyn Region>, OpenError> {
    let area = Area::open(io, 0, span(config.area, AREA), &config.lower).await?;
    if let Some(kept) = area.restore(io, &region(config.block)).await? {
        return Ok(kept);
    }
    for block in BLOCKS.into_iter().filter(|block| *block != config.block) {
        if area.restore(io, &region(block)).await?.is_some() {
            return Err(OpenError::Block { was: block, is: config.block });
        }
    }
    check_unused(io, config).await?;
    Ok(area.malloc(io, &region(config.block), config.spares * WORD).await?)
}

/// Why the table cannot be read or made.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Region(#[from] RegionError),
    #[error(
        "its table of moved blocks counts blocks of {was} bytes, and the device has blocks of {is}; give it blocks of {was} bytes"
    )]
    Block { was: u64, is: u64 },
    #[error(
        "the device holds {0} that was made without a shepherd, and a shepherd takes the end of its device; name a device that \
         is not used, or zero its first 8 KiB if nothing there is needed"
    )]
    Used(&'static str),
}

/// A shepherd that comes new to a device would take its last bytes from a layer that has them already.
async fn check_unused(io: &Io, config: &Config) -> Result<(), OpenError> {
    let Ok(start) = io.read(io.lower(0), 0, media::HEAD.min(config.size) as usize).await else {
        // Devices that fail are what a shepherd is for.
        return Ok(());
    };
    media::name_of(&start.to_vec()).map_or(Ok(()), |name| Err(OpenError::Used(name)))
}

/// What must be kept of a request to send it, or a part of it, again.
pub(crate) struct RequestHead {
    op: Op,
    range: ByteRange,
    flags: esker_block::Flags,
    tag: Tag,
    /// The payload of a write; nothing otherwise.
    payload: Buf,
}

impl RequestHead {
    fn of(bio: &mut Bio) -> RequestHead {
        let payload = if bio.op == Op::Write { bio.buf.share() } else { Buf::empty() };
        RequestHead { op: bio.op.clone(), range: bio.range, flags: bio.flags, tag: bio.tag, payload }
    }

    /// The request for a part of it; a read gets a buffer of its own.
    fn part(&mut self, io: &Io, part: ByteRange) -> Bio {
        let (at, len) = ((part.start() - self.range.start()) as usize, part.len() as usize);
        let buf = match self.op {
            Op::Write => self.payload.slice(at, len),
            Op::Read => Buf::unique(io.pool(), len),
            Op::Flush | Op::Zero | Op::Discard | Op::Ranges(_) | Op::Extents => Buf::empty(),
        };
        Bio { op: self.op.clone(), range: part, flags: self.flags, dest: io.lower(0), buf, tag: self.tag }
    }
}
