//! Watching extensions: whether they keep to what their kinds declare, how long they work, and which one handles
//! requests last.
//!
//! A slot that is watched runs its extension behind a [`Watched`], so the loop knows nothing of it and a stack that is
//! not watched pays nothing. Only the loop knows on which volume a request ends. While that is watched, the fences of
//! leaves are closed, so that each arrival takes the way of the full contract check, which counts it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;

use esker_base::digest::mix;
use esker_base::{ByteRange, Nanos};
use esker_block::{
    Bio, BioError, Buf, Ctx, Done, Extension, Flags, Flow, Op, Reply, Role, Sizing, Step, Tag, VolumeId,
};
use esker_rt::Rt;

use crate::build::arrange;
use crate::live::LiveError;
use crate::numbers::GONE;
use crate::snapshot::{Instance, Slot};
use crate::stack::Stack;

/// What is watched in a whole stack. Nothing by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Watching {
    /// Every layer is held to what its kind declares, as with `check=strict` in the text. An accessor may change
    /// neither target nor payload nor answer; a modifier may forward only to its declared lower devices. Costs a
    /// checksum of every payload at every accessor.
    pub strict: bool,
    /// Calls of every layer are counted and timed.
    pub work: bool,
    /// Counts the last handlers of the requests to each volume.
    pub handlers: bool,
}

/// What a layer has done while [`Watching::work`] was on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Requests that it was given.
    pub requests: u64,
    /// Time in its own code, completions and the futures that it returned included; without the layers and devices
    /// below. In virtual time that is simulated CPU time.
    pub time: Nanos,
    /// Requests that it created, or parts of requests.
    pub generated: u64,
}

/// Requests that had one origin, one last handler and one end, and how many they were. What has left the stack since is
/// called `gone`, all of it together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Handled {
    /// The volume that a client addressed, by its name in the text; none for requests that a layer created.
    pub origin: Option<String>,
    /// The layer that handled them last.
    pub last: Option<String>,
    /// The device that they reached; none if a layer answered.
    pub end: Option<String>,
    /// How many.
    pub requests: u64,
}

/// What is told in the place of a name that has left the stack.
const LEFT: &str = "gone";

type Key = (Option<VolumeId>, Option<String>, Option<VolumeId>);

/// What all watched slots of one stack share.
#[derive(Default)]
pub(crate) struct HandlerAudit {
    pub what: Cell<Watching>,
    handled: RefCell<BTreeMap<Key, u64>>,
    /// The last handler of the request that is on its way right now. A request goes from a slot to the next or to its
    /// leaf without a wait, so one word is enough for all.
    last: RefCell<Option<String>>,
    /// Time of watched code inside the watched code that runs now.
    inside: Cell<Nanos>,
}

impl HandlerAudit {
    /// A client's request enters.
    pub(crate) fn enter(&self) {
        *self.last.borrow_mut() = None;
    }

    /// `name` has let a request go.
    pub(crate) fn left(&self, name: &str) {
        if self.what.get().handlers {
            *self.last.borrow_mut() = Some(name.to_string());
        }
    }

    /// The request on its way has reached `end`.
    pub(crate) fn reached(&self, origin: Option<VolumeId>, end: VolumeId) {
        if !self.what.get().handlers {
            return;
        }
        let last = self.last.borrow().clone();
        self.count((origin, last, Some(end)));
    }

    /// `name` has answered a request.
    pub(crate) fn answered(&self, origin: Option<VolumeId>, name: &str) {
        if self.what.get().handlers {
            self.count((origin, Some(name.to_string()), None));
        }
    }

    fn count(&self, key: Key) {
        *self.handled.borrow_mut().entry(key).or_default() += 1;
    }

    /// The part `name` has left with its volumes, whose numbers may become others': it counts as one that is gone.
    pub(crate) fn forget(&self, name: &str, volumes: &[VolumeId]) {
        let mut handled = self.handled.borrow_mut();
        let volume = |volume: VolumeId| if volumes.contains(&volume) { GONE } else { volume };
        for ((origin, last, end), requests) in std::mem::take(&mut *handled) {
            let last = last.map(|last| if last == name { LEFT.to_string() } else { last });
            *handled.entry((origin.map(volume), last, end.map(volume))).or_default() += requests;
        }
    }

    /// Runs `work` and gives its time without that of other watched code inside it; `before` was spent for it already.
    fn timed<T>(&self, rt: &Rt, before: Nanos, work: impl FnOnce() -> T) -> (Nanos, T) {
        let (start, outer) = (rt.now(), self.inside.replace(Nanos::ZERO));
        let value = work();
        let whole = rt.now().since(start);
        let own = Nanos(whole.0.saturating_sub(self.inside.get().0)) + before;
        self.inside.set(outer + whole + before);
        (own, value)
    }
}

/// What must not change.
#[derive(PartialEq)]
struct Print {
    op: Op,
    range: ByteRange,
    flags: Flags,
    tag: Tag,
    payload: Option<u64>,
}

impl Print {
    fn of(bio: &Bio) -> Print {
        let payload = (bio.op == Op::Write).then(|| sum(&bio.buf));
        Print { op: bio.op.clone(), range: bio.range, flags: bio.flags, tag: bio.tag, payload }
    }
}

/// A checksum of a payload: it is there to notice mistakes, not malice.
fn sum(buf: &Buf) -> u64 {
    let mut sum = buf.len() as u64;
    buf.for_each_piece(&mut |piece| {
        for chunk in piece.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            sum = mix(sum ^ u64::from_le_bytes(word));
        }
    });
    sum
}

/// An extension with an observer. Its futures hold it too.
struct Watched(Rc<Inner>);

struct Inner {
    inner: Rc<dyn Extension>,
    instance: Rc<Instance>,
    lowers: Vec<VolumeId>,
    watch: Rc<HandlerAudit>,
    strict: bool,
    cost: Nanos,
}

/// A slot whose extension is watched, if anything of it is.
pub(crate) fn watched(mut slot: Slot, watch: &Rc<HandlerAudit>) -> Slot {
    let what = watch.what.get();
    let strict = what.strict || slot.instance.strict.get();
    if strict || what.work || what.handlers {
        let watched = Inner {
            inner: slot.ext.clone(),
            instance: slot.instance.clone(),
            lowers: slot.lowers.clone(),
            watch: watch.clone(),
            strict,
            cost: slot.cost,
        };
        slot.ext = Rc::new(Watched(Rc::new(watched)));
    }
    slot
}

impl Inner {
    /// What of `bio` must not change, if anything.
    fn print(&self, bio: &Bio) -> Option<Print> {
        (self.strict && self.instance.kind.role == Role::Accessor).then(|| Print::of(bio))
    }

    fn work(&self, own: Nanos, requests: u64) {
        let mut work = self.instance.work.get();
        work.requests += requests;
        work.time += own;
        self.instance.work.set(work);
    }

    /// What the extension did wrong with a request that it passes on.
    fn fault(&self, port: u16, before: Option<&Print>, bio: &Bio) -> Option<BioError> {
        if !self.strict {
            return None;
        }
        if before.is_some_and(|before| *before != Print::of(bio)) {
            let what = format_args!("changed a request, but its kind declares that it only looks");
            return Some(self.instance.violation(what));
        }
        let lower = self.lowers.iter().position(|volume| *volume == bio.dest)?;
        match self.instance.kind.routes.forward.has(port as usize, lower) {
            true => None,
            false => {
                let what =
                    format_args!("forwarded a request to its lower device {lower}, against its kind's declaration");
                Some(self.instance.violation(what))
            }
        }
    }

    /// Follows a decision: lets it through, or refuses the request.
    fn judge(&self, port: u16, before: Option<&Print>, flow: Flow) -> Flow {
        match flow {
            Flow::Resume(bio) => match self.fault(port, before, &bio) {
                Some(error) => Flow::Done(bio.fail(error)),
                None => Flow::Resume(bio),
            },
            Flow::Done(done) if before.is_some() && done.result.is_ok() => {
                let what = format_args!("answered a request, but its kind declares that it only looks");
                Flow::Done(Done { result: Err(self.instance.violation(what)), buf: done.buf })
            }
            flow @ (Flow::Down | Flow::Done(_)) => flow,
        }
    }
}

impl Extension for Watched {
    fn completes(&self) -> bool {
        self.0.inner.completes()
    }

    fn retries(&self) -> bool {
        self.0.inner.retries()
    }

    fn again(&self, ctx: &mut Ctx<'_>, done: &mut Done) -> Option<Bio> {
        self.0.inner.again(ctx, done)
    }

    fn sizing(&self) -> Option<&dyn Sizing> {
        self.0.inner.sizing()
    }

    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        let (before, port, rt) = (self.0.print(bio), ctx.port, ctx.rt);
        let (own, step) = self.0.watch.timed(rt, self.0.cost, || self.0.inner.issue(ctx, bio));
        self.0.work(own, 1);
        let step = match step {
            Step::Now(Flow::Down) => match self.0.fault(port, before.as_ref(), bio) {
                Some(error) => Step::Now(Flow::Done(bio.take().fail(error))),
                None => Step::Now(Flow::Down),
            },
            Step::Now(flow) => Step::Now(self.0.judge(port, before.as_ref(), flow)),
            step @ (Step::After(..) | Step::Ticket(_) | Step::Later(_)) => {
                return later(self.0.clone(), rt.clone(), port, before, step);
            }
        };
        self.0.watch.left(&self.0.instance.name);
        step
    }

    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        let is_held = self.0.strict && self.0.instance.kind.role == Role::Accessor;
        let print = |done: &Done| (done.result.clone(), sum(&done.buf));
        let before: Option<(Result<Reply, BioError>, u64)> = is_held.then(|| print(done));
        let rt = ctx.rt;
        let (own, ()) = self.0.watch.timed(rt, Nanos::ZERO, || self.0.inner.complete(ctx, done));
        self.0.work(own, 0);
        if before.is_some_and(|before| before != print(done)) {
            let what = format_args!("changed an answer, but its kind declares that it only looks");
            done.result = Err(self.0.instance.violation(what));
        }
    }
}

/// Watches the extension's future too: each time that it runs, its time is counted.
fn later(inner: Rc<Inner>, rt: Rt, port: u16, before: Option<Print>, step: Step<Flow>) -> Step<Flow> {
    let mut future = Box::pin(step.into_future());
    Step::later(async move {
        let flow = poll_fn(|cx| {
            let (own, polled) = inner.watch.timed(&rt, Nanos::ZERO, || future.as_mut().poll(cx));
            inner.work(own, 0);
            polled
        })
        .await;
        let flow = inner.judge(port, before.as_ref(), flow);
        inner.watch.left(&inner.instance.name);
        flow
    })
}

impl Stack {
    /// Watches all layers from now on; requests under way are not looked at. What was counted before is kept.
    ///
    /// # Errors
    /// None today; the stack's text stood before.
    pub fn watch(&self, what: Watching) -> Result<(), LiveError> {
        self.shared.watch.what.set(what);
        self.shared.mark_special();
        let snapshot = arrange(&self.shared, &self.parts.borrow(), &self.spec.borrow(), self.measured())?;
        self.adopt(snapshot);
        Ok(())
    }

    /// What is watched.
    pub fn watching(&self) -> Watching {
        self.shared.watch.what.get()
    }

    /// The last handlers of the requests of each volume, while [`Watching::handlers`] was on.
    pub fn handled(&self) -> Vec<Handled> {
        let (parts, spec) = (self.parts.borrow(), self.spec.borrow());
        let named = parts.volumes.iter().map(|(name, volume)| (volume.number.volume(), name.as_str()));
        let slot = |export: &str| self.shared.exports.get(export);
        let outlets = spec.outlets().filter_map(|outlet| Some((slot(outlet.name)?.volume(), outlet.device)));
        let names: BTreeMap<VolumeId, &str> = named.chain(outlets).collect();
        let name = |volume: VolumeId| names.get(&volume).map_or_else(|| LEFT.to_string(), |name| (*name).to_string());
        let handled = self.shared.watch.handled.borrow();
        let one = |((origin, last, end), requests): (&Key, &u64)| Handled {
            origin: origin.map(name),
            last: last.clone(),
            end: end.map(name),
            requests: *requests,
        };
        handled.iter().map(one).collect()
    }
}
