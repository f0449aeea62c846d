//! Requests: to where the newest bytes are, and changes to where they are to be.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::{ByteRange, span};
use esker_block::flight::WIDTH;
use esker_block::locks::{Mode, RangeLocks, Ticket};
use esker_block::{
    Bio, BioError, Buf, Class, Ctx, Done, Extent, ExtentState, Flow, Latch, Op, Reply, Stat, Step, Tag, Trouble,
};
use esker_layer_kit::mover::{Mover, Settings};
use esker_layer_kit::{Awake, Background, GroupCommit, Io, Turn};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::Notify;

use crate::append::Appended;
use crate::format::place;
use crate::log::Log;
use crate::map::{Map, Piece, Where};
use crate::superblock::Superblock;
use crate::{AWAY, Config, HOME};

/// A volume in use. Reads hold shared claims on their ranges and changes exclusive ones, so that no request reads a
/// place in the log whose record is overwritten meanwhile. Lock order: `reclaim_turn`, claims, `fence_turn`,
/// `superblock_turn`.
pub struct Offload {
    pub(crate) config: Config,
    pub(crate) rt: Rt,
    pub(crate) pool: Pool,
    /// The last superblock that is durable.
    pub(crate) superblock: RefCell<Superblock>,
    pub(crate) superblock_turn: Turn,
    pub(crate) log: RefCell<Log>,
    pub(crate) map: RefCell<Map>,
    pub(crate) locks: Rc<RangeLocks>,
    /// Brings bytes home, without claims.
    pub(crate) mover: Mover,
    pub(crate) reclaim_turn: Turn,
    pub(crate) fence_turn: Turn,
    /// Numbers of records, up to the one below which all are durable.
    pub(crate) away: GroupCommit,
    /// Counts changes at home that have been answered.
    pub(crate) home: GroupCommit,
    /// When a client last read from home, or home was woken.
    pub(crate) home_awake: Awake,
    /// A record has come to its end.
    pub(crate) ended: Notify,
    /// The log is so full that home takes it in although it should rest.
    pub(crate) emptying: Cell<bool>,
    /// Why nothing is off-loaded any more.
    pub(crate) stopped: RefCell<Option<String>>,
    /// Why no change is taken any more.
    pub(crate) latch: Latch,
    pub(crate) background: Background,
    pub(crate) counts: Counts,
}

/// What it tells about itself.
#[derive(Default)]
pub(crate) struct Counts {
    pub offloaded: Cell<u64>,
    pub reclaimed: Cell<u64>,
    pub home_reads: Cell<u64>,
    pub home_changes: Cell<u64>,
    pub no_room: Cell<u64>,
    pub wakes: Cell<u64>,
}

pub(crate) fn add(count: &Cell<u64>, amount: u64) {
    count.set(count.get() + amount);
}

pub(crate) const METADATA: Tag = Tag::of(Class::Metadata);

pub(crate) fn mover(config: &Config) -> Mover {
    Mover::new(Settings { batch: config.batch, durable: false, ..Settings::background() })
}

impl Offload {
    /// Whether home should be left alone.
    pub fn is_resting(&self) -> bool {
        self.home_awake.is_resting(self.rt.now())
    }

    /// A client needs home.
    fn wake_home(&self) {
        if self.home_awake.work(self.rt.now()) {
            add(&self.counts.wakes, 1);
        }
        if !self.log.borrow().is_empty() {
            self.background.wake();
        }
    }

    /// Reads from where the bytes are.
    pub fn read(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let ticket = self.locks.enter([bio.range], Mode::Shared);
        if self.locks.is_granted(ticket) {
            let pieces = self.map.borrow().pieces(bio.range);
            if let [piece] = pieces[..]
                && let Some((lower, range)) = self.below(piece)
                && (bio.op == Op::Read || lower == HOME)
            {
                (bio.dest, bio.range) = (ctx.lower(lower), range);
                ctx.scratch = ticket << 1;
                return Step::Now(Flow::Down);
            }
        }
        let (offload, io, bio) = (self.clone(), Io::of(ctx), bio.take());
        Step::later(async move {
            offload.locks.granted(ticket).await;
            let pieces = offload.map.borrow().pieces(bio.range);
            let done = match bio.op {
                Op::Read => offload.read_pieces(&io, bio, &pieces).await,
                Op::Write | Op::Flush | Op::Zero | Op::Discard | Op::Ranges(_) | Op::Extents => {
                    offload.extents(&io, bio, pieces[0]).await
                }
            };
            offload.locks.leave(ticket);
            Flow::Done(done)
        })
    }

    /// The lower device and its bytes of a piece that lies somewhere.
    fn below(&self, piece: Piece) -> Option<(usize, ByteRange)> {
        match piece.at {
            Where::Zeroes { .. } => None,
            Where::Home => {
                add(&self.counts.home_reads, 1);
                self.wake_home();
                Some((HOME, piece.range))
            }
            Where::Log(position) => Some((AWAY, span(place(&self.superblock.borrow(), position), piece.range.len()))),
        }
    }

    async fn read_pieces(&self, io: &Io, bio: Bio, pieces: &[Piece]) -> Done {
        let buf = |piece: &Piece| Buf::unique(io.pool(), piece.range.len() as usize);
        let requests = pieces.iter().filter_map(|piece| self.below(*piece).map(|below| (piece, below)));
        let requests = requests
            .map(|(piece, (lower, range))| Bio::read(range.start(), buf(piece)).tagged(bio.tag).to(io.lower(lower)));
        let mut returned = io.all(requests.collect(), WIDTH).await.into_iter();
        let (mut result, mut bufs) = (Ok(Reply::Empty), Vec::new());
        for piece in pieces {
            if let Where::Zeroes { .. } = piece.at {
                bufs.push(Buf::zeroed(io.pool(), piece.range.len() as usize));
            } else {
                let part = returned.next().expect("one answer for each request");
                result = result.and(part.result);
                bufs.push(part.bio.buf);
            }
        }
        Done { result, buf: Buf::chain(bufs) }
    }

    /// What the first piece is; the answer may end before the range does.
    async fn extents(&self, io: &Io, mut bio: Bio, first: Piece) -> Done {
        let state = match first.at {
            Where::Log(_) => ExtentState::Data,
            Where::Zeroes { .. } => ExtentState::Zero,
            Where::Home => {
                self.wake_home();
                bio.range = first.range;
                let bio = bio.to(io.lower(HOME));
                return io.submit(bio).await;
            }
        };
        let extents = [Extent { len: first.range.len(), state }];
        Done { result: Ok(Reply::Extents(extents.into())), buf: bio.buf }
    }

    /// Writes, zeroes or discards.
    pub fn change(self: &Rc<Self>, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let ticket = self.locks.enter([bio.range], Mode::Exclusive);
        let is_plain = self.locks.is_granted(ticket) && self.latch.check().is_ok() && !self.goes_away(bio.range);
        if is_plain && self.map.borrow().is_home(bio.range) {
            add(&self.counts.home_changes, 1);
            bio.dest = ctx.lower(HOME);
            ctx.scratch = ticket << 1 | 1;
            return Step::Now(Flow::Down);
        }
        let (offload, io, mut bio) = (self.clone(), Io::of(ctx), bio.take());
        Step::later(async move {
            let result = offload.write_via_log(&io, &mut bio, ticket).await;
            Flow::Done(Done { result, buf: bio.buf })
        })
    }

    /// A request that went down has come back.
    pub fn on_complete(&self, scratch: u64) {
        if scratch == 0 {
            return;
        }
        if scratch & 1 != 0 {
            self.home.ask();
        }
        self.locks.leave(scratch >> 1);
    }

    /// Whether a change belongs into the log: home rests, or the log holds older bytes, which replaying would bring
    /// back over what home was given.
    fn goes_away(&self, range: ByteRange) -> bool {
        let may = !self.config.drain && self.stopped.borrow().is_none();
        may && (self.is_resting() || !self.map.borrow().is_home(range))
    }

    /// Into the log; if there is no room, home, after the log has given up what it holds of the range.
    async fn write_via_log(&self, io: &Io, bio: &mut Bio, first: Ticket) -> Result<Reply, BioError> {
        let mut ticket = first;
        loop {
            self.locks.granted(ticket).await;
            let result = self.change_claimed(io, bio).await;
            self.locks.leave(ticket);
            if let Some(result) = result {
                return result.map(|()| Reply::Empty);
            }
            // This takes claims, so the caller may hold none.
            self.reclaim(io, true).await?;
            ticket = self.locks.enter([bio.range], Mode::Exclusive);
        }
    }

    /// None if the log must give something up first.
    async fn change_claimed(&self, io: &Io, bio: &mut Bio) -> Option<Result<(), BioError>> {
        if let Err(error) = self.latch.check() {
            return Some(Err(error));
        }
        if self.goes_away(bio.range) {
            match self.append(io, bio).await {
                Appended::Done(result) => return Some(result),
                Appended::NoRoom => add(&self.counts.no_room, 1),
            }
        }
        let is_home = self.map.borrow().is_home(bio.range);
        if !is_home {
            return None;
        }
        add(&self.counts.home_changes, 1);
        let op = bio.op.clone();
        let copy = Bio { op, buf: bio.buf.share(), dest: io.lower(HOME), ..*bio };
        let done = io.submit(copy).await;
        self.home.ask();
        Some(done.result.map(drop))
    }

    pub async fn flush(&self, io: &Io, bio: Bio) -> Done {
        let result = self.flush_both(io).await;
        Done { result: result.map(|()| Reply::Empty), buf: bio.buf }
    }

    /// Home is left alone unless something was changed there.
    pub async fn flush_both(&self, io: &Io) -> Result<(), BioError> {
        self.latch.check()?;
        self.flush_away(io).await?;
        self.flush_home(io).await
    }

    pub async fn flush_away(&self, io: &Io) -> Result<(), BioError> {
        let flush = async || {
            let done = self.log.borrow().done();
            self.flush_lower(io, AWAY).await.map(|()| done)
        };
        let done = self.log.borrow().done();
        self.away.reach(done, &self.latch, flush).await
    }

    pub async fn flush_home(&self, io: &Io) -> Result<(), BioError> {
        let flush = async || {
            let written = self.home.asked();
            self.flush_lower(io, HOME).await.map(|()| written)
        };
        self.home.reach(self.home.asked(), &self.latch, flush).await
    }

    /// After a failed flush the durable state is unknown.
    async fn flush_lower(&self, io: &Io, lower: usize) -> Result<(), BioError> {
        let done = io.submit(Bio::flush().tagged(METADATA).to(io.lower(lower))).await;
        done.result.map(drop).inspect_err(|error| self.latch("a flush failed", error))
    }

    /// Changes the superblock and makes it durable.
    pub async fn store_superblock(&self, io: &Io, change: impl FnOnce(&mut Superblock)) -> Result<(), BioError> {
        self.superblock_turn.alone(self.store_superblock_in_turn(io, change)).await
    }

    async fn store_superblock_in_turn(&self, io: &Io, change: impl FnOnce(&mut Superblock)) -> Result<(), BioError> {
        let mut superblock = self.superblock.borrow().clone();
        change(&mut superblock);
        superblock.sequence += 1;
        superblock.durable = self.away.durable();
        let buf = Buf::from_bytes(&self.pool, &superblock.encode());
        let done = io.submit(Bio::write(superblock.slot(), buf).fua().tagged(METADATA).to(io.lower(AWAY))).await;
        match &done.result {
            Ok(_) => *self.superblock.borrow_mut() = superblock,
            Err(error) => self.latch("the superblock of the log cannot be written", error),
        }
        done.result.map(drop)
    }

    fn latch(&self, what: &str, error: &BioError) {
        self.latch.set_after(&self.rt, what, error, "Repair the device, then restart.");
        self.background.wake();
    }

    /// What the next start has to look at is durable and known to be so.
    pub async fn rest(&self, io: &Io) -> Result<(), BioError> {
        if self.latch.is_set() {
            return Ok(());
        }
        self.flush_both(io).await?;
        self.store_superblock(io, |_| {}).await
    }

    pub fn stats(&self) -> Vec<Stat> {
        let stat = |name, value: u64| Stat { name, value: value as f64 };
        let (log, map, superblock) = (self.log.borrow(), self.map.borrow(), self.superblock.borrow());
        vec![
            stat("home_idle", u64::from(self.is_resting())),
            stat("log_bytes", superblock.area),
            stat("log_used_bytes", log.used(&superblock)),
            stat("log_newest_bytes", map.bytes()),
            stat("records", log.len() as u64),
            stat("ranges", map.len() as u64),
            stat("offloaded_bytes", self.counts.offloaded.get()),
            stat("reclaimed_bytes", self.counts.reclaimed.get()),
            stat("home_reads", self.counts.home_reads.get()),
            stat("writes_in_place", self.counts.home_changes.get()),
            stat("log_full_writes", self.counts.no_room.get()),
            stat("home_wakeups", self.counts.wakes.get()),
            stat("offload_disabled", u64::from(self.stopped.borrow().is_some())),
            stat("latched", u64::from(self.latch.is_set())),
        ]
    }

    /// That it is latched, or off-loads nothing any more.
    pub fn trouble(&self) -> Option<Trouble> {
        let degraded = |why: &String| Trouble::Degraded(format!("{} is degraded: {why}.", self.config.name));
        self.latch.trouble().or_else(|| self.stopped.borrow().as_ref().map(degraded))
    }
}
