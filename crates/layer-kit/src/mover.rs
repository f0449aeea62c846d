//! The mover of blocks: copies, gathers and scatters while clients go on.
//!
//! A unit that moves is in one of three states. As long as it is *not yet moved*, clients' requests go to its source.
//! While it is *being moved*, reads go to its source and changes wait. Once it is *moved*, all go to its destination.
//! Which of the first and last holds, the map of the extension says, which is asked only after the wait.
//!
//! Clients are in a [`Gate`] from before they are routed until they are answered ([`Mover::pass`]). A batch of moves
//! holds the changes of its bytes from before it reads until the map has changed. So no change is lost between the copy
//! and the map. It ends when the requests that were routed before have ended. So no read finds a source that has other
//! content.
//!
//! Lock order: a batch enters the stack first and holds then. A request that waits for a hold therefore never waits for
//! a batch that is held at the door while the stack is changed.
//!
//! A mover may also *migrate* one long range. It copies beside clients, which go on at the source, and copies again
//! what they change. Changes wait only for the switch.
//!
//! Reading order: this file, `order` (how batches are cut and runs are formed), `transfer` (one batch), `migrate`,
//! `transits` (moves do not meet each other).

mod migrate;
mod order;
mod transfer;
mod transits;

use esker_base::{ByteRange, Nanos, span};
use esker_block::split::{LowerAddress, LowerExtent, pieces};
use esker_block::{Bio, BioError, Class, Ctx, Done, Flow, LayerHandle, Op, Step, Tag, WorkPermit};
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::gate::{Gate, Ticket};
use crate::io::Io;

pub use crate::pace::{Go, Pace};
use transits::Transits;

pub use migrate::{Cause, Grain, Outcome, Rules, Switched};
pub use order::BadMoves;

/// How a mover works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes that one batch moves at most, and that are held in memory; changes of these bytes wait meanwhile.
    pub batch: u64,
    /// Requests of a batch under way at once.
    pub width: usize,
    /// Time between batches, in which clients have the devices to themselves.
    pub pause: Nanos,
    /// Whether what was moved must be durable before the map changes.
    pub durable: bool,
    /// The tag of all requests.
    pub tag: Tag,
}

impl Settings {
    /// For moving in the background beside clients: batches of 1 MiB, durable.
    pub fn background() -> Settings {
        let tag = Tag::of(Class::Background);
        Settings { batch: 1 << 20, width: 32, pause: Nanos::ZERO, durable: true, tag }
    }

    /// Small batches, so that tests see many.
    pub fn tiny() -> Settings {
        Settings { batch: 8 << 10, width: 2, ..Settings::background() }
    }
}

/// Bytes that move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// Where the extension's clients find them, before and after.
    pub upper: u64,
    /// Where they lie.
    pub from: LowerAddress,
    /// Where they shall lie.
    pub to: LowerAddress,
    /// How many they are (> 0).
    pub len: u64,
}

impl Move {
    fn upper_range(&self) -> ByteRange {
        span(self.upper, self.len)
    }
}

/// What came of moving.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Bytes that were moved.
    pub moved: u64,
    /// Requests that read and wrote.
    pub reads: u64,
    /// The same for writes.
    pub writes: u64,
    /// What was not moved, and why. Its source is still what clients see.
    pub failed: Vec<(Move, BioError)>,
    /// Whether the stack or the extension ended before all was tried.
    pub ended: bool,
}

/// How a mover gets to what is below the extension.
pub enum Way {
    /// By itself: each batch is a piece of work of its own, so that changes of the stack need not wait for all.
    Background(Rt, Pool, LayerHandle),
    /// Inside a request or piece of work.
    Io(Io),
}

impl Way {
    fn rt(&self) -> &Rt {
        match self {
            Way::Background(rt, ..) => rt,
            Way::Io(io) => io.rt(),
        }
    }

    async fn enter(&self) -> Option<(Option<WorkPermit>, Io)> {
        match self {
            Way::Io(io) => Some((None, io.clone())),
            Way::Background(rt, pool, handle) => {
                let job = handle.enter().await?;
                let io = Io::new(rt, pool, job.below().clone());
                Some((Some(job), io))
            }
        }
    }
}

/// Called when moves have been copied (and flushed, if the mover is [`Settings::durable`]) and changes of them wait.
/// The extension's map changes here, and is made durable here if it must be. Reads may be at the sources until the
/// mover has done the batch.
pub type Moved<'a> = &'a dyn Fn(&Io, &[Move]) -> Step<Result<(), BioError>>;

/// For copies after which clients still find the bytes where they were.
pub fn nothing(_: &Io, _: &[Move]) -> Step<Result<(), BioError>> {
    Step::Now(Ok(()))
}

/// What is scattered, and what lies together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    /// Sources and destinations are anywhere.
    Copy,
    /// Destinations lie together.
    Gather,
    /// Sources lie together.
    Scatter,
}

/// Moves bytes below one extension.
pub struct Mover {
    settings: Settings,
    rules: Rules,
    gate: Gate,
    transits: Transits,
}

impl Mover {
    /// A mover.
    ///
    /// # Panics
    /// If a batch holds no byte or nothing may be under way.
    pub fn new(settings: Settings) -> Mover {
        Mover::of(settings.clone(), Rules::of(&settings), Gate::default())
    }

    /// A mover that migrates beside the clients of a gate.
    ///
    /// # Panics
    /// If a unit holds no byte, nothing may be under way, or a hold may last no time.
    pub fn migrating(gate: Gate, rules: Rules) -> Mover {
        Mover::of(rules.settings(), rules, gate)
    }

    fn of(settings: Settings, rules: Rules, gate: Gate) -> Mover {
        assert!(settings.batch > 0 && settings.width > 0, "a mover that may move nothing: {settings:?}");
        assert!(rules.hold_max > Nanos::ZERO, "a mover that gives up every hold: {rules:?}");
        Mover { settings, rules, gate, transits: Transits::default() }
    }

    /// Passes a client's request to where `map` says that its bytes lie, in parts if they lie apart. A change waits
    /// while its bytes are being moved, and `map` is asked then. [`Mover::complete`] must follow in the extension's
    /// `complete`. Flushes and range vectors are the extension's own business.
    pub fn pass(&self, ctx: &mut Ctx<'_>, bio: &mut Bio, map: impl Fn(u64) -> LowerExtent + 'static) -> Step<Flow> {
        if matches!(bio.op, Op::Flush | Op::Ranges(_)) {
            return Step::Now(Flow::Down);
        }
        let ticket = self.gate.enter(bio.range, bio.changes_data());
        let (io, gate) = (Io::of(ctx), self.gate.clone());
        if self.gate.may_go(ticket) {
            let pieces = pieces(bio.range, map);
            let step = io.splitter().redirect(bio, &pieces);
            return match step {
                Step::Now(Flow::Down) => {
                    ctx.scratch = u64::from(ticket.word());
                    step
                }
                step @ (Step::Now(_) | Step::After(..) | Step::Ticket(_) | Step::Later(_)) => step.map(move |flow| {
                    gate.leave(ticket);
                    flow
                }),
            };
        }
        let bio = bio.take();
        // The request may be answered in parts or go down; either way it must leave when it ends. It is known only
        // later which, so a request that waited always goes down by itself.
        Step::later(async move {
            gate.admitted(ticket).await;
            let done = send(&io, bio, map).await;
            gate.leave(ticket);
            Flow::Done(done)
        })
    }

    /// Ends what [`Mover::pass`] began for a request that went down.
    pub fn complete(&self, ctx: &mut Ctx<'_>) {
        let word = std::mem::take(&mut ctx.scratch) as u32;
        if let Some(ticket) = Ticket::of_word(word) {
            self.gate.leave(ticket);
        }
    }

    /// Copies `moves`, in the order of their sources.
    ///
    /// # Errors
    /// Moves that contradict each other; nothing is moved then. What fails on the way is in the report.
    pub async fn copy(&self, way: &Way, moves: Vec<Move>, moved: Moved<'_>) -> Result<Report, BadMoves> {
        self.run(way, moves, Shape::Copy, moved).await
    }

    /// Copies scattered `moves` together. Batches are cut by destination, so that each is written in one piece; inside
    /// a batch the sources are read in order.
    ///
    /// # Errors
    /// As [`Mover::copy`].
    pub async fn gather(&self, way: &Way, moves: Vec<Move>, moved: Moved<'_>) -> Result<Report, BadMoves> {
        self.run(way, moves, Shape::Gather, moved).await
    }

    /// Copies what lies together to where it belongs: the inverse of [`Mover::gather`].
    ///
    /// # Errors
    /// As [`Mover::copy`].
    pub async fn scatter(&self, way: &Way, moves: Vec<Move>, moved: Moved<'_>) -> Result<Report, BadMoves> {
        self.run(way, moves, Shape::Scatter, moved).await
    }

    async fn run(&self, way: &Way, moves: Vec<Move>, shape: Shape, moved: Moved<'_>) -> Result<Report, BadMoves> {
        order::check(&moves)?;
        let mut report = Report::default();
        for (number, batch) in order::batches(moves, shape, self.settings.batch).into_iter().enumerate() {
            if number > 0 && self.settings.pause > Nanos::ZERO {
                way.rt().sleep(self.settings.pause).await;
            }
            let Some((job, io)) = way.enter().await else {
                report.ended = true;
                break;
            };
            self.batch(job, io, batch, moved, &mut report).await;
        }
        Ok(report)
    }

    /// Moves one batch; the job is held until it is done.
    async fn batch(&self, job: Option<WorkPermit>, io: Io, batch: Vec<Move>, moved: Moved<'_>, report: &mut Report) {
        let ranges = order::joined(&batch);
        let _transit = self.transits.begin(ranges.clone()).await;
        let mut holds = Vec::with_capacity(ranges.len());
        for range in &ranges {
            holds.push(self.gate.hold_range(*range).await);
        }
        transfer::batch(&io, &self.settings, batch, moved, report).await;
        drop((holds, job));
        for range in ranges {
            self.gate.drained(range).await;
        }
    }
}

/// Sends a client's request to where `map` says that its bytes lie, in parts if they lie apart.
pub async fn send(io: &Io, mut bio: Bio, map: impl Fn(u64) -> LowerExtent) -> Done {
    let pieces = pieces(bio.range, map);
    match io.splitter().redirect(&mut bio, &pieces).await {
        Flow::Done(done) => done,
        Flow::Down => io.submit(bio).await,
        Flow::Resume(other) => io.submit(other).await,
    }
}

#[cfg(test)]
mod tests;
