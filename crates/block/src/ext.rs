//! An extension (layer): a request context that may wait, and a completion context that may not (ABLE, section 5.2).

use std::rc::Rc;

use esker_base::ByteRange;
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::bio::{Bio, BioError, Done, VolumeId};
use crate::device::{KEEPS_SIZE, Stat};
use crate::kind::KindError;
use crate::latch::Trouble;
use crate::step::{LocalFuture, Step};

/// What an extension decided about a request.
pub enum Flow {
    /// It goes on below, as it stands in place. The loop finds the next extension or leaf for its destination.
    Down,
    /// It goes on below after its extension had taken it ([`Bio::take`]) in order to wait.
    Resume(Bio),
    /// It is answered here; nothing below sees it.
    Done(Done),
}

/// Finds what is below a slot. Implemented by the stack.
pub trait Route {
    /// A handle on everything below `slot`, which outlives live changes of the stack.
    fn below(&self, slot: u16) -> Below;
}

/// Everything below one slot, for requests that an extension generates. Cheap to clone.
#[derive(Clone)]
pub struct Below {
    submit: Rc<dyn Submit>,
    slot: u16,
}

/// Sends a request into a stack below a slot. Implemented by the stack's snapshots.
pub trait Submit {
    /// Starts `bio`, whose destination is one of the slot's lower volumes. What the slot may not send is refused.
    fn submit_below(self: Rc<Self>, slot: u16, bio: Bio) -> Step<Done>;

    /// The slot's lower volumes, in the order in which the stack text lists them.
    fn lowers_of(&self, slot: u16) -> &[VolumeId];

    /// Bytes of upper port `port` of the slot are about to change in another way than by a request to it.
    fn note_change(&self, _slot: u16, _port: u16, _range: ByteRange) {}
}

impl Below {
    /// A handle for `slot`. For the stack.
    pub fn new(submit: Rc<dyn Submit>, slot: u16) -> Below {
        Below { submit, slot }
    }

    /// Starts `bio` below. Its destination must be one of the slot's lower volumes ([`Ctx::lower`]).
    pub fn submit(&self, bio: Bio) -> Step<Done> {
        self.submit.clone().submit_below(self.slot, bio)
    }

    /// The volume of lower device `i`, as [`Ctx::lower`] gives it.
    ///
    /// # Panics
    /// If there are fewer lower devices; the manifest and the stack text say how many there are.
    pub fn lower(&self, i: usize) -> VolumeId {
        self.lowers()[i]
    }

    /// Says that bytes of upper port `port` are about to change in another way than by a request that came in by it:
    /// the maps of changes above mark them. An order of an operator that replaces the content of a port says so first.
    pub fn note_change(&self, port: u16, range: ByteRange) {
        self.submit.note_change(self.slot, port, range);
    }

    /// The volumes of all lower devices.
    pub fn lowers(&self) -> &[VolumeId] {
        self.submit.lowers_of(self.slot)
    }
}

/// Lets an extension work by itself: on timers, after failures, to move data. Implemented by the stack.
pub trait Enter {
    /// Waits until the stack lets work in; none if the extension has left it or the stack has ended.
    fn enter(self: Rc<Self>) -> LocalFuture<Option<WorkPermit>>;
}

/// An extension's place in a running stack. Cheap to clone.
#[derive(Clone)]
pub struct LayerHandle(Rc<dyn Enter>);

impl LayerHandle {
    /// For the stack.
    pub fn new(enter: Rc<dyn Enter>) -> LayerHandle {
        LayerHandle(enter)
    }

    /// Begins a piece of work, once no change of the stack is under way. A change waits for pieces that have begun, so
    /// they should be short; and a caller that waits here must hold nothing that a request waits for.
    ///
    /// None tells a background task to end: the extension has left the stack, or the stack has ended.
    pub async fn enter(&self) -> Option<WorkPermit> {
        self.0.clone().enter().await
    }
}

/// A piece of work of an extension. Like a request it keeps the arrangement of the stack under which it began, and
/// changes of the stack wait until it is dropped.
pub struct WorkPermit {
    below: Below,
    leave: Option<Box<dyn FnOnce()>>,
}

impl WorkPermit {
    /// For the stack: `leave` is called when the work has ended.
    pub fn new(below: Below, leave: impl FnOnce() + 'static) -> WorkPermit {
        WorkPermit { below, leave: Some(Box::new(leave)) }
    }

    /// What is below the extension.
    pub fn below(&self) -> &Below {
        &self.below
    }
}

impl Drop for WorkPermit {
    fn drop(&mut self) {
        self.leave.take().into_iter().for_each(|leave| leave());
    }
}

/// What an extension is given when it has its place in a stack.
pub struct OpenContext {
    /// The world.
    pub rt: Rt,
    /// Where buffers come from.
    pub pool: Pool,
    /// What is below it now: for reading what it keeps there. Nothing else passes it meanwhile.
    pub below: Below,
    /// Its place, for work that it begins later.
    pub handle: LayerHandle,
}

/// Bytes of a lower device by which a layer tells its medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The lower device.
    pub lower: usize,
    /// Where on it: whole blocks of 4096 bytes.
    pub range: ByteRange,
}

/// What the loop lends an extension for one request.
pub struct Ctx<'a> {
    /// The world.
    pub rt: &'a Rt,
    /// Where buffers come from.
    pub pool: &'a Pool,
    /// One word kept from `issue` to `complete` of the same request; 0 at first.
    pub scratch: u64,
    /// Which of the extension's upper ports the request came in by.
    pub port: u16,
    slot: u16,
    lowers: &'a [VolumeId],
    route: &'a dyn Route,
}

impl<'a> Ctx<'a> {
    /// For the stack's loop, which enters slots with it one after the other.
    #[inline]
    pub fn new(rt: &'a Rt, pool: &'a Pool, route: &'a dyn Route) -> Ctx<'a> {
        Ctx { rt, pool, scratch: 0, port: 0, slot: 0, lowers: &[], route }
    }

    /// Makes it the context of slot number `slot`. For the stack's loop.
    #[inline]
    pub fn enter(&mut self, slot: u16, port: u16, lowers: &'a [VolumeId], scratch: u64) {
        self.slot = slot;
        self.port = port;
        self.lowers = lowers;
        self.scratch = scratch;
    }

    /// The volume of lower device `i`, in the order in which the stack text lists them.
    #[inline]
    pub fn lower(&self, i: usize) -> VolumeId {
        self.lowers[i]
    }

    /// A handle for requests that this extension generates, now or in the future that it returns.
    pub fn below(&self) -> Below {
        self.route.below(self.slot)
    }
}

/// A layer. One value serves all requests of its slot; state is in `Cell`s.
///
/// A completion cannot wait, because it is not a future:
///
/// ```compile_fail
/// # use esker_block::{Bio, Ctx, Done, Extension, Flow, Step};
/// struct Sleeper;
/// impl Extension for Sleeper {
///     fn issue(&self, _: &mut Ctx<'_>, _: &mut Bio) -> Step<Flow> {
///         Step::Now(Flow::Down)
///     }
///     fn complete(&self, ctx: &mut Ctx<'_>, _: &mut Done) {
///         ctx.rt.sleep(esker_base::Nanos(1)).await;
///     }
/// }
/// ```
///
/// The same extension compiles when it looks at the clock without waiting:
///
/// ```
/// # use esker_block::{Bio, Ctx, Done, Extension, Flow, Step};
/// struct Watcher;
/// impl Extension for Watcher {
///     fn issue(&self, _: &mut Ctx<'_>, _: &mut Bio) -> Step<Flow> {
///         Step::Now(Flow::Down)
///     }
///     fn complete(&self, ctx: &mut Ctx<'_>, _: &mut Done) {
///         ctx.rt.now();
///     }
/// }
/// ```
pub trait Extension {
    /// Decides about a request. `bio.dest` is already lower device 0: a layer with one lower device just passes it
    /// down.
    ///
    /// The request stays where it is while it passes, because moving it costs more than most layers do: change it in
    /// place and return [`Flow::Down`]. To answer it, or to keep it while waiting, `take` it.
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow>;

    /// Sees the answer of a request that it passed down. Synchronous by type: here nothing can wait.
    fn complete(&self, _ctx: &mut Ctx<'_>, _done: &mut Done) {}

    /// Whether `complete` does anything. A layer that answers false is not called on the way up, which halves its cost;
    /// asked once, when the layer is built.
    fn completes(&self) -> bool {
        true
    }

    /// Sees the failed answer of a request that it passed down, before [`Extension::complete`]. A request that it gives
    /// goes down in place of the failed one, with the buffer of `done`; `complete` then sees its answer. The scratch
    /// word may change. Asked only if [`Extension::retries`].
    fn again(&self, _ctx: &mut Ctx<'_>, _done: &mut Done) -> Option<Bio> {
        None
    }

    /// Whether `again` may give anything; asked once, when the layer is built. Such a layer also completes.
    fn retries(&self) -> bool {
        false
    }

    /// Called once when the layer has its place, before its first request and after everything below it is open: the
    /// moment to restore what it keeps on media and to begin work of its own.
    ///
    /// # Errors
    /// Why it cannot be used, and what to do. In a stack that is built, its upper ports then refuse every request with
    /// this text, and the rest of the stack works; a live insertion is undone.
    fn open(&self, _opening: OpenContext) -> Step<Result<(), KindError>> {
        Step::Now(Ok(()))
    }

    /// Called when no request is in flight and none will come, before the layer leaves a stack or the stack closes:
    /// what it holds back must reach `below` now.
    ///
    /// # Errors
    /// What could not be brought home. A live removal is undone then.
    fn quiesce(&self, _below: Below) -> Step<Result<(), BioError>> {
        Step::Now(Ok(()))
    }

    /// Called once after the last request, when the layer leaves a stack or the stack closes.
    fn close(&self) {}

    /// The places below by which it tells whether there is a medium of its own. Where all of them read as zeroes,
    /// opening the layer makes a new medium. None: it keeps nothing below, and its lower devices may hold anything.
    fn marks(&self) -> Vec<Mark> {
        Vec::new()
    }

    /// Its upper ports, if their sizes or their openness to changes are its own affair. None: each has the size with
    /// which it was built, or, under a transparent layer, whatever is below.
    fn sizing(&self) -> Option<&dyn Sizing> {
        None
    }

    /// The orders that it takes from operators, if there are any.
    fn orders(&self) -> Option<&dyn Orders> {
        None
    }

    /// Whether it does without lower device `lower` now, sends nothing there but looks, and takes any other device in
    /// its place.
    fn spares(&self, _lower: usize) -> bool {
        false
    }

    /// Whether it can do with one more lower device now.
    ///
    /// # Errors
    /// Why not.
    fn grows(&self) -> Result<(), String> {
        Err("only a mirror takes further members".to_string())
    }

    /// Whether lower device `lower` may leave for good: it is not in use, and nothing of it is missed later.
    fn releases(&self, _lower: usize) -> bool {
        false
    }

    /// It has one more lower device now, behind the others (none), or lower device `gone` has left. Nothing is in
    /// flight.
    fn relowered(&self, _gone: Option<usize>) {}

    /// What it tells about itself.
    fn stats(&self) -> Vec<Stat> {
        Vec::new()
    }

    /// What an operator must know about it now: that it is latched, or does without something below.
    fn trouble(&self) -> Option<Trouble> {
        None
    }
}

/// Upper ports that have sizes of their own.
pub trait Sizing {
    /// Bytes that upper port `port` has now.
    fn size(&self, port: u16) -> u64;

    /// Whether upper port `port` refuses every change, as that of a snapshot does; known once the layer is open. An
    /// upper port over lower devices that all do so does so too, whatever this answers.
    fn is_read_only(&self, _port: u16) -> bool {
        false
    }

    /// Called whenever an arrangement takes effect: a layer of the name `by`, built for the size of upper port `port`,
    /// stands on it, so its size must not change. `None`: no such layer does.
    fn kept(&self, _port: u16, _by: Option<&str>) {}

    /// Changes the size of an upper port, durably; the stack then asks [`Sizing::size`]. Nothing is in flight behind a
    /// new end that is nearer, and nothing comes.
    ///
    /// # Errors
    /// Why the size is as before.
    fn resize(&self, _below: Below, _port: u16, _bytes: u64) -> Step<Result<(), BioError>> {
        Step::Now(Err(BioError::invalid(KEEPS_SIZE)))
    }
}

/// Orders that operators give to one layer.
pub trait Orders {
    /// All of them.
    fn list(&self) -> &'static [OrderInfo];

    /// Carries out what `words` say; the answer is JSON. `below` stays as it is until the answer.
    ///
    /// # Errors
    /// Words that are none of the orders, and why one cannot be carried out.
    fn order(&self, below: Below, words: &[String]) -> Step<Result<String, KindError>>;
}

/// An order: what help, pages and errors say of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderInfo {
    /// Its first word.
    pub name: &'static str,
    /// The words that follow; optional ones in brackets.
    pub arguments: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// What falls to 0 until it is carried out, of an order that may take long.
    pub left: Option<OrderLeft>,
}

/// A statistic of the kind that tells what is left of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderLeft {
    /// Its name.
    pub stat: &'static str,
    /// What it counts, in the plural.
    pub unit: &'static str,
}

impl std::fmt::Display for OrderInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let space = if self.arguments.is_empty() { "" } else { " " };
        write!(f, "{}{space}{}", self.name, self.arguments)
    }
}
