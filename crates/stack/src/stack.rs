//! A running stack: exports, admission, statistics.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};

use esker_base::Nanos;
use esker_block::step::LocalFuture;
use esker_block::{
    Bio, BioError, Class, Device, Done, Kind, Limits, OpKind, Reading, Stat, Step, Support, Trouble, Usage, VolumeId,
};
use esker_rt::mem::Pool;
use esker_rt::{Level, Rt};

use crate::audit::Work;
use crate::exports::ExportSlot;
use crate::meters::{Measure, Meters};
use crate::numbers::{GONE, Number, Numbers};
use crate::quiesce::Flushes;
use crate::resize::{CUT_PATIENCE, ResizeError, Sizes};
use crate::run::InFlightRequest;
use crate::snapshot::{Cut, Handle, Instance, Leaf, Shared};
use crate::text::Spec;

/// A stack of devices and layers on one world.
pub struct Stack {
    pub(crate) shared: Rc<Shared>,
    pub(crate) kinds: &'static [&'static Kind],
    pub(crate) snapshot: RefCell<Handle>,
    pub(crate) spec: RefCell<Spec>,
    pub(crate) parts: RefCell<Parts>,
    pub(crate) measure: Cell<Measure>,
    pub(crate) sizes: Sizes,
    pub(crate) flushes: Flushes,
    ends: RefCell<BTreeMap<String, Rc<End>>>,
    /// Where each export and mount stands in the text. Live changes do not move them.
    exports: BTreeMap<String, usize>,
    mounts: BTreeMap<String, usize>,
    /// For the places of its layers.
    pub(crate) me: Weak<Stack>,
}

/// Everything that was built, by name.
#[derive(Default)]
pub(crate) struct Parts {
    pub volumes: BTreeMap<String, Volume>,
    pub instances: BTreeMap<String, Rc<Instance>>,
    pub leaves: BTreeMap<String, Rc<Leaf>>,
    pub meters: Meters,
    /// What is about to become smaller.
    pub cut: Option<Cut>,
    pub numbers: Numbers,
}

/// One upper port of a part.
pub(crate) struct Volume {
    pub number: Rc<Number>,
    /// Its place among the part's upper ports.
    pub port: usize,
}

/// The volumes of a stack that refuse changes now.
pub struct ReadOnly(BTreeSet<VolumeId>);

impl ReadOnly {
    /// Whether changes through this export are refused: by the stack text, or by what it leads to now.
    pub fn has(&self, export: &Export) -> bool {
        export.end.read_only || self.0.contains(&export.end.volume.get())
    }
}

/// Where an export leads now. Live changes move it; clients keep their handle.
pub(crate) struct End {
    pub volume: Cell<VolumeId>,
    /// The slot of an export of a served stack.
    pub slot: Option<Rc<ExportSlot>>,
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
    /// What it did while [`crate::Watching::work`] was on; the requests that it created are counted always.
    pub work: Work,
    /// Why it cannot be used, if opening it failed: a whole sentence.
    pub unusable: Option<String>,
    /// What else an operator must know about it.
    pub trouble: Option<Trouble>,
    /// Its numbers.
    pub stats: Vec<Stat>,
    /// What it has used, if it is a model.
    pub usage: Option<Usage>,
    /// Its upper ports.
    pub ends: Vec<EndStats>,
}

/// One upper port of a part.
#[derive(Clone, Debug)]
pub struct EndStats {
    /// Name in the stack text, with the port if there is one.
    pub name: String,
    /// What requests to it must keep to.
    pub limits: Limits,
    /// What its meter has seen since it was first put in, if it is measured now.
    pub reading: Option<Reading>,
}

impl Stack {
    /// The kinds of which layers may be built.
    pub fn kinds(&self) -> &'static [&'static Kind] {
        self.kinds
    }

    pub(crate) fn assemble(
        shared: Rc<Shared>,
        kinds: &'static [&'static Kind],
        snapshot: Handle,
        spec: Spec,
        parts: Parts,
    ) -> Rc<Stack> {
        let exports = spec.exports.iter().enumerate().map(|(at, export)| (export.name.clone(), at)).collect();
        let mounts = spec.mounts.iter().enumerate().map(|(at, mount)| (mount.name.clone(), at)).collect();
        let stack = Rc::new_cyclic(|me| Stack {
            me: me.clone(),
            shared,
            kinds,
            snapshot: RefCell::new(snapshot.clone()),
            spec: RefCell::new(spec),
            parts: RefCell::new(parts),
            measure: Cell::default(),
            sizes: Sizes::default(),
            flushes: Flushes::default(),
            ends: RefCell::default(),
            exports,
            mounts,
        });
        stack.adopt(snapshot);
        stack
    }

    /// Makes `next` the arrangement of all requests to come, with the sizes of now, and gives back the one before.
    pub(crate) fn adopt(&self, next: Handle) -> Handle {
        next.note_sizes(self.parts.borrow().cut);
        next.place();
        self.shared.forget_spare();
        self.snapshot.replace(next)
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
        let export = &spec.exports[*self.exports.get(name)?];
        let (device, read_only) = (export.device.clone(), export.read_only);
        drop(spec);
        self.end(&outlet_key(name), &device, read_only, self.shared.exports.get(name))
    }

    /// What refuses changes now. One answer is for all exports: finding it visits the whole stack.
    pub fn read_only(&self) -> ReadOnly {
        ReadOnly(self.snapshot.borrow().read_only())
    }

    /// The device of the export or mount of that name in `spec`, the text of this stack.
    pub(crate) fn outlet_device<'a>(&self, spec: &'a Spec, name: &str) -> Option<&'a str> {
        match self.exports.get(name) {
            Some(at) => Some(&spec.exports[*at].device),
            None => spec.mounts[*self.mounts.get(name)?].device.as_deref(),
        }
    }

    /// The device on which the mount of that name lies; none also if it lies on none. Its file system must be its only
    /// user.
    pub fn mount_device(self: &Rc<Self>, name: &str) -> Option<Export> {
        let device = self.spec.borrow().mounts[*self.mounts.get(name)?].device.clone()?;
        self.end(&outlet_key(name), &device, false, self.shared.exports.get(name))
    }

    /// A handle on any device, layer or port by its name in the text.
    pub fn device(self: &Rc<Self>, name: &str) -> Option<Export> {
        self.end(name, name, false, None)
    }

    fn end(self: &Rc<Self>, key: &str, device: &str, read_only: bool, slot: Option<Rc<ExportSlot>>) -> Option<Export> {
        if let Some(end) = self.ends.borrow().get(key) {
            return Some(Export { stack: self.clone(), end: end.clone() });
        }
        let volume = slot.as_ref().map(|slot| slot.volume()).or_else(|| self.parts.borrow().volume(device))?;
        let mut limits = self.snapshot.borrow().limits(volume)?.clone();
        if read_only {
            let changing = [OpKind::Write, OpKind::Zero, OpKind::Discard, OpKind::Clone, OpKind::Move, OpKind::Delete];
            limits = changing.into_iter().fold(limits, |l, kind| l.with(kind, Support::No));
        }
        let end = Rc::new(End { volume: Cell::new(volume), slot, limits, read_only });
        self.ends.borrow_mut().insert(key.to_string(), end.clone());
        Some(Export { stack: self.clone(), end })
    }

    /// Points the exports, and the devices of mounts, to where the text says they lead now.
    pub(crate) fn retarget(&self) {
        let (spec, parts, ends) = (self.spec.borrow(), self.parts.borrow(), self.ends.borrow());
        for outlet in spec.outlets() {
            let Some(on) = parts.volume(outlet.device) else { continue };
            let entry = self.entry(outlet.name, on);
            ends.get(&outlet_key(outlet.name)).into_iter().for_each(|end| end.volume.set(entry));
        }
        self.shared.exports.relate(&self.snapshot.borrow());
    }

    /// Handles on these ends lead nowhere from now on, whichever volume gets their numbers.
    pub(crate) fn forget_ends(&self, names: &[String]) {
        let mut ends = self.ends.borrow_mut();
        names.iter().filter_map(|name| ends.remove(name)).for_each(|end| end.volume.set(GONE));
    }

    /// Why the stack refuses everything, if it does, in whole sentences.
    pub fn dead(&self) -> Option<String> {
        self.shared.why().map(String::from)
    }

    /// Which parts are measured.
    pub fn measured(&self) -> Measure {
        self.measure.get()
    }

    /// Requests in flight.
    pub fn inflight(&self) -> u64 {
        self.shared.admission.inflight()
    }

    /// Statistics of all parts, in the order of the text.
    pub fn stats(&self) -> Vec<PartStats> {
        let (spec, parts, snapshot) = (self.spec.borrow(), self.parts.borrow(), self.snapshot.borrow());
        let part = |name: &String| {
            let layer = parts.instances.get(name).map(|i| PartStats {
                name: name.clone(),
                kind: i.kind.name,
                violations: i.violations.get(),
                work: Work { generated: i.generated.get(), ..i.work.get() },
                unusable: i.unusable.borrow().as_ref().map(|unusable| unusable.why.clone()),
                trouble: i.ext.trouble(),
                stats: i.ext.stats(),
                usage: None,
                ends: parts.end_stats(name, &snapshot, self.measured()),
            });
            let leaf = parts.leaves.get(name).map(|l| PartStats {
                name: name.clone(),
                kind: l.kind.name,
                violations: 0,
                work: Work::default(),
                unusable: None,
                trouble: l.device.trouble(),
                stats: l.device.stats(),
                usage: l.device.usage(),
                ends: parts.end_stats(name, &snapshot, self.measured()),
            });
            layer.or(leaf)
        };
        spec.devices.iter().filter_map(|d| part(&d.name)).collect()
    }

    /// Waits until nothing is in flight, has every layer store what it holds back, from the top down, and closes them.
    /// Requests that come later wait forever: drop the exports first.
    pub async fn close(&self) {
        self.opened().await;
        self.shared.admission.close();
        self.shared.admission.emptied().await;
        let names: Vec<String> = self.snapshot.borrow().slots.iter().map(|slot| slot.instance.name.clone()).collect();
        for name in names {
            if let Err(why) = self.quiesce_layers(std::slice::from_ref(&name)).await {
                self.rt().log(Level::Error, format_args!("{why}"));
            }
        }
        self.shared.admission.end();
        let instances: Vec<Rc<Instance>> = self.parts.borrow().instances.values().cloned().collect();
        instances.iter().for_each(|i| i.ext.close());
    }
}

/// The key of the end of an export or of a mount's device: no device has such a name.
fn outlet_key(name: &str) -> String {
    format!("export {name}")
}

impl Drop for Stack {
    /// Ended requests hold their snapshot, and the snapshot what keeps them.
    fn drop(&mut self) {
        self.shared.admission.end();
        self.shared.keep_no_spare();
    }
}

/// A volume of a stack, as clients hold it. Cheap to clone.
#[derive(Clone)]
pub struct Export {
    stack: Rc<Stack>,
    pub(crate) end: Rc<End>,
}

impl Export {
    /// The stack behind it.
    pub fn stack(&self) -> &Rc<Stack> {
        &self.stack
    }

    /// Whether changes are refused: by the stack text, or by what it leads to now.
    pub fn is_read_only(&self) -> bool {
        // If the text says so, no part of the stack is visited.
        self.end.read_only || self.stack.read_only().has(self)
    }

    /// Changes its size. A cut waits for requests in flight, at most as long as `patience` says.
    ///
    /// # Errors
    /// [`ResizeError`]; the size is then as before.
    pub async fn set_size(&self, bytes: u64, patience: Nanos) -> Result<(), ResizeError> {
        if self.end.read_only {
            return Err(BioError::ReadOnly("this export".into()).into());
        }
        self.stack.resize_volume(self.end.volume.get(), bytes, patience).await
    }

    /// Starts a request. The future gives its answer and must be polled to its end: dropping it earlier latches the
    /// stack.
    #[inline(always)]
    pub fn request(&self, bio: Bio) -> Request {
        let class = bio.tag.class;
        let mut bio = Some(bio);
        let stage = match self.stack.shared.admission.try_enter(class) {
            true => Stage::Inside(self.enter(&mut bio)),
            false => Stage::Outside(self.wait_outside(class, bio)),
        };
        Request { class, stage }
    }

    #[cold]
    fn wait_outside(&self, class: Class, bio: Option<Bio>) -> Box<Outside> {
        let shared = self.stack.shared.clone();
        let mark = self.end.slot.as_ref().zip(bio.as_ref()).map(|(slot, bio)| slot.see(bio, &shared.rt));
        let admission = Box::pin(async move { shared.admission.enter(class).await });
        Box::new(Outside { export: self.clone(), bio, mark, admission })
    }

    /// Takes a request that was let in and sends it down the present arrangement, or refuses it.
    #[inline(always)]
    fn enter(&self, bio: &mut Option<Bio>) -> Box<InFlightRequest> {
        let shared = &self.stack.shared;
        let is_special = shared.is_special() || self.end.read_only && bio.as_ref().is_some_and(Bio::changes_data);
        let mut run = shared.run(&self.stack.snapshot.borrow(), self.end.volume.get(), bio);
        match is_special {
            false => run.start(),
            true => self.enter_specially(&mut run),
        }
        run
    }

    /// The stack is latched, its handlers are watched, or a read-only export is to be changed.
    #[cold]
    fn enter_specially(&self, run: &mut InFlightRequest) {
        let is_refused = self.stack.shared.check().is_err() || self.end.read_only && run.changes_data();
        match is_refused {
            false => run.start_watched(),
            true => run.reject(self.refusal()),
        }
    }

    #[cold]
    fn refusal(&self) -> BioError {
        let latched = self.stack.shared.check().err();
        latched.unwrap_or_else(|| BioError::ReadOnly("this export".into()))
    }
}

impl Device for Export {
    fn limits(&self) -> &Limits {
        &self.end.limits
    }

    /// That of the volume to which it leads now.
    fn size(&self) -> u64 {
        let snapshot = self.stack.snapshot.borrow();
        snapshot.limits(self.end.volume.get()).map_or(self.end.limits.size, |limits| limits.size)
    }

    fn is_read_only(&self) -> bool {
        Export::is_read_only(self)
    }

    fn can_resize(&self) -> bool {
        !self.end.read_only && self.stack.can_resize(self.end.volume.get())
    }

    fn resize(&self, bytes: u64) -> Step<Result<(), BioError>> {
        let export = self.clone();
        Step::later(async move { export.set_size(bytes, CUT_PATIENCE).await.map_err(ResizeError::answer) })
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let mut request = self.request(bio);
        match request.take_answer() {
            Some(done) => Step::Now(done),
            None => request.into_step(),
        }
    }
}

/// A request that waits at admission.
struct Outside {
    export: Export,
    bio: Option<Bio>,
    /// The mark of its export's meter, which counts the wait.
    mark: Option<u64>,
    admission: LocalFuture<()>,
}

/// Everything is behind a pointer, so that the future is small to move.
enum Stage {
    Outside(Box<Outside>),
    Inside(Box<InFlightRequest>),
    Over,
}

/// A request of a client: the future of its answer. It costs no allocation unless something waits.
pub struct Request {
    class: Class,
    stage: Stage,
}

impl Request {
    /// The answer, if it is there.
    #[inline]
    fn take_answer(&mut self) -> Option<Done> {
        if !matches!(&self.stage, Stage::Inside(run) if run.is_answered()) {
            return None;
        }
        let Stage::Inside(run) = std::mem::replace(&mut self.stage, Stage::Over) else {
            unreachable!("looked at above")
        };
        let shared = run.shared().clone();
        Some(shared.land(self.class, run))
    }

    /// As a step, while it waits.
    fn into_step(self) -> Step<Done> {
        match self.stage {
            Stage::Inside(run) => run.shared().clone().fly(self.class, run),
            Stage::Outside(_) | Stage::Over => Step::Later(Box::pin(self)),
        }
    }
}

impl Future for Request {
    type Output = Done;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Done> {
        if let Stage::Outside(outside) = &mut self.stage {
            ready!(outside.admission.as_mut().poll(cx));
            outside.export.end.slot.iter().for_each(|slot| slot.enters(outside.mark));
            self.stage = Stage::Inside(outside.export.enter(&mut outside.bio));
        }
        if let Stage::Inside(run) = &mut self.stage
            && !run.is_answered()
        {
            ready!(run.poll_answer(cx));
        }
        Poll::Ready(self.take_answer().expect("a request is not polled after its answer"))
    }
}
