//! A running stack: exports, admission, statistics.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use esker_block::{Bio, BioError, Class, Device, Done, Kind, Limits, OpKind, Stat, Step, Support, Usage, VolumeId};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::{Credits, Notify};

use crate::run::{Run, note_answer};
use crate::snapshot::{Handle, Instance, Leaf, Shared};
use crate::text::Spec;

/// Requests of one class that a stack lets in at once; more wait at their export.
const ADMITTED_MAX: u64 = 4096;

/// A stack of devices and layers on one world.
pub struct Stack {
    pub(crate) shared: Rc<Shared>,
    pub(crate) kinds: &'static [&'static Kind],
    pub(crate) snapshot: RefCell<Handle>,
    pub(crate) spec: RefCell<Spec>,
    pub(crate) parts: RefCell<Parts>,
    pub(crate) gate: Gate,
    admitted: [Credits; Class::COUNT],
    ends: RefCell<BTreeMap<String, Rc<End>>>,
}

/// Everything that was built, by name. Volume numbers are never reused.
#[derive(Default)]
pub(crate) struct Parts {
    pub volumes: BTreeMap<String, VolumeId>,
    pub instances: BTreeMap<String, Rc<Instance>>,
    pub leaves: BTreeMap<String, Rc<Leaf>>,
    /// Volume numbers given out so far.
    pub numbered: usize,
}

/// Lets requests in, or holds them while the stack is drained for a change.
#[derive(Default)]
pub(crate) struct Gate {
    pub closed: Cell<bool>,
    pub inflight: Cell<u64>,
    pub changed: Notify,
}

/// Where an export leads now. Live changes move it; clients keep their handle.
pub(crate) struct End {
    pub volume: Cell<VolumeId>,
    limits: Limits,
    read_only: bool,
}

/// What one device or layer tells about itself.
#[derive(Clone, Debug)]
pub struct PartStats {
    /// Name in the stack text.
    pub name: String,
    /// Kind.
    pub kind: &'static str,
    /// How often it broke the contract.
    pub violations: u64,
    /// Its numbers.
    pub stats: Vec<Stat>,
    /// What it has used, if it is a model.
    pub usage: Option<Usage>,
}

impl Stack {
    pub(crate) fn assemble(
        shared: Rc<Shared>,
        kinds: &'static [&'static Kind],
        snapshot: Handle,
        spec: Spec,
        parts: Parts,
    ) -> Rc<Stack> {
        Rc::new(Stack {
            shared,
            kinds,
            snapshot: RefCell::new(snapshot),
            spec: RefCell::new(spec),
            parts: RefCell::new(parts),
            gate: Gate::default(),
            admitted: std::array::from_fn(|_| Credits::new(ADMITTED_MAX)),
            ends: RefCell::default(),
        })
    }

    /// The world that it runs in.
    pub fn rt(&self) -> &Rt {
        &self.shared.rt
    }

    /// Where buffers for its requests come from.
    pub fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    /// The text that would build this stack as it is now.
    pub fn spec(&self) -> Spec {
        self.spec.borrow().clone()
    }

    /// The export of that name.
    pub fn export(self: &Rc<Self>, name: &str) -> Option<Export> {
        let spec = self.spec.borrow();
        let export = spec.exports.iter().find(|e| e.name == name)?;
        let (device, read_only) = (export.device.clone(), export.read_only);
        drop(spec);
        self.end(&format!("export {name}"), &device, read_only)
    }

    /// A handle on any device, layer or port by its name in the text.
    pub fn device(self: &Rc<Self>, name: &str) -> Option<Export> {
        self.end(name, name, false)
    }

    fn end(self: &Rc<Self>, key: &str, device: &str, read_only: bool) -> Option<Export> {
        if let Some(end) = self.ends.borrow().get(key) {
            return Some(Export { stack: self.clone(), end: end.clone() });
        }
        let volume = *self.parts.borrow().volumes.get(device)?;
        let mut limits = self.snapshot.borrow().limits(volume)?.clone();
        if read_only {
            let changing = [OpKind::Write, OpKind::Zero, OpKind::Discard, OpKind::Clone, OpKind::Move, OpKind::Delete];
            limits = changing.into_iter().fold(limits, |l, kind| l.with(kind, Support::No));
        }
        let end = Rc::new(End { volume: Cell::new(volume), limits, read_only });
        self.ends.borrow_mut().insert(key.to_string(), end.clone());
        Some(Export { stack: self.clone(), end })
    }

    /// Points the exports to where the text says they lead now.
    pub(crate) fn retarget(&self) {
        let (spec, parts, ends) = (self.spec.borrow(), self.parts.borrow(), self.ends.borrow());
        for export in &spec.exports {
            let end = ends.get(&format!("export {}", export.name));
            if let (Some(end), Some(volume)) = (end, parts.volumes.get(&export.device)) {
                end.volume.set(*volume);
            }
        }
    }

    /// Why the stack refuses everything, if it does.
    pub fn dead(&self) -> Option<String> {
        self.shared.is_dead().then(|| self.shared.cause())
    }

    /// Requests in flight.
    pub fn inflight(&self) -> u64 {
        self.gate.inflight.get()
    }

    /// Statistics of all parts, in the order of the text.
    pub fn stats(&self) -> Vec<PartStats> {
        let (spec, parts) = (self.spec.borrow(), self.parts.borrow());
        let part = |name: &String| {
            let layer = parts.instances.get(name).map(|i| PartStats {
                name: name.clone(),
                kind: i.kind.name,
                violations: i.violations.get(),
                stats: i.ext.stats(),
                usage: i.ext.usage(),
            });
            let leaf = parts.leaves.get(name).map(|l| PartStats {
                name: name.clone(),
                kind: l.kind.name,
                violations: 0,
                stats: l.device.stats(),
                usage: l.device.usage(),
            });
            layer.or(leaf)
        };
        spec.devices.iter().filter_map(|d| part(&d.name)).collect()
    }

    /// Waits until nothing is in flight and closes every layer. Requests that come later wait forever: drop the
    /// exports first.
    pub async fn close(&self) {
        self.gate.closed.set(true);
        self.gate.changed.wait_until(|| self.gate.inflight.get() == 0).await;
        let instances: Vec<Rc<Instance>> = self.parts.borrow().instances.values().cloned().collect();
        instances.iter().for_each(|i| i.ext.close());
    }

    fn leave(&self, class: Class) {
        self.admitted[class as usize].give(1);
        self.gate.inflight.set(self.gate.inflight.get() - 1);
        if self.gate.closed.get() {
            self.gate.changed.notify_all();
        }
    }
}

impl Drop for Stack {
    /// Ended requests hold their snapshot, and the snapshot what keeps them.
    fn drop(&mut self) {
        self.shared.forget_spare();
    }
}

/// A volume of a stack, as clients hold it. Cheap to clone.
#[derive(Clone)]
pub struct Export {
    stack: Rc<Stack>,
    end: Rc<End>,
}

impl Export {
    /// The stack behind it.
    pub fn stack(&self) -> &Rc<Stack> {
        &self.stack
    }

    /// Whether changes are refused.
    pub fn is_read_only(&self) -> bool {
        self.end.read_only
    }

    /// Starts a request. The future gives its answer and must be polled to its end: dropping it earlier latches the
    /// stack.
    #[inline(always)]
    pub fn request(&self, bio: Bio) -> Request {
        let class = bio.tag.class;
        let stage = match self.admit(class) {
            true => self.enter(bio),
            false => Stage::Waiting(Box::new(bio), Box::pin(self.clone().wait_outside(class))),
        };
        Request { export: self.clone(), class, stage }
    }

    /// Lets a request in, if the gate is open and the class has a credit.
    #[inline(always)]
    fn admit(&self, class: Class) -> bool {
        let stack = &*self.stack;
        if stack.gate.closed.get() || !stack.admitted[class as usize].try_take(1) {
            return false;
        }
        stack.gate.inflight.set(stack.gate.inflight.get() + 1);
        true
    }

    /// Sends a request that was let in down the present arrangement, or refuses it.
    #[inline(always)]
    fn enter(&self, bio: Bio) -> Stage {
        let shared = &self.stack.shared;
        if shared.is_dead() {
            return Stage::Answered(bio.fail(BioError::Gone(shared.cause().into())));
        }
        if self.end.read_only && bio.changes_data() {
            return Stage::Answered(bio.fail(BioError::ReadOnly("this export".into())));
        }
        let mut run = shared.run(&self.stack.snapshot.borrow(), self.end.volume.get(), bio);
        match run.start() {
            None => Stage::Inside(run),
            Some(done) => {
                shared.spare(run);
                Stage::Answered(done)
            }
        }
    }

    /// Waits until the request is let in.
    async fn wait_outside(self, class: Class) {
        let stack = &*self.stack;
        loop {
            stack.gate.changed.wait_until(|| !stack.gate.closed.get()).await;
            let credits = &stack.admitted[class as usize];
            credits.take(1).await;
            if !stack.gate.closed.get() {
                stack.gate.inflight.set(stack.gate.inflight.get() + 1);
                return;
            }
            credits.give(1);
        }
    }

    fn leave(&self, class: Class, done: &Done) {
        self.stack.leave(class);
        note_answer(self.stack.rt(), done);
    }
}

impl Device for Export {
    fn limits(&self) -> &Limits {
        &self.end.limits
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let mut request = self.request(bio);
        match std::mem::replace(&mut request.stage, Stage::Over) {
            Stage::Answered(done) => {
                self.leave(request.class, &done);
                Step::Now(done)
            }
            stage => {
                request.stage = stage;
                Step::Later(Box::pin(request))
            }
        }
    }
}

enum Stage {
    /// Waits at the gate or for a credit. Boxed, so that the common request is small to move.
    Waiting(Box<Bio>, Pin<Box<dyn Future<Output = ()>>>),
    Inside(Box<Run>),
    Answered(Done),
    Over,
}

/// A request of a client: the future of its answer. It costs no allocation unless something waits.
pub struct Request {
    export: Export,
    class: Class,
    stage: Stage,
}

impl Future for Request {
    type Output = Done;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Done> {
        if let Stage::Waiting(bio, future) = &mut self.stage {
            ready!(future.as_mut().poll(cx));
            let bio = bio.take();
            self.stage = self.export.enter(bio);
        }
        if let Stage::Inside(run) = &mut self.stage {
            let done = ready!(Pin::new(&mut **run).poll(cx));
            if let Stage::Inside(run) = std::mem::replace(&mut self.stage, Stage::Over) {
                self.export.stack.shared.spare(run);
            }
            self.export.leave(self.class, &done);
            return Poll::Ready(done);
        }
        let Stage::Answered(done) = std::mem::replace(&mut self.stage, Stage::Over) else {
            unreachable!("a request is not polled after its answer")
        };
        self.export.leave(self.class, &done);
        Poll::Ready(done)
    }
}
