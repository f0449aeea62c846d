//! One arrangement of slots and leaves. A request keeps the snapshot under which it entered: what stands where is fixed
//! in it. Only the sizes of its volumes follow the devices and layers that they belong to.

use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeSet;
use std::ops::Deref;
use std::rc::Rc;
use std::task::{Context, Poll};

use esker_base::{ByteRange, Nanos};
use esker_block::ext::Submit;
use esker_block::step::{Entries, Table, Ticket};
use esker_block::{
    Below, Bio, BioError, Class, Ctx, Device, Done, Env, Extension, Kind, Latch, Limits, Role, Route, Step, Upper,
    VolumeId,
};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::Credits;

use crate::admission::Admission;
use crate::audit::{HandlerAudit, Work};
use crate::contract::LimitsCheck;
use crate::exports::ExportSlots;
use crate::health::Unusable;
use crate::hops::{Hop, Hops};
use crate::lifecycle::Refusing;
use crate::numbers::Number;
use crate::run::{InFlightRequest, note_answer};

/// What all snapshots of one stack share.
pub(crate) struct Shared {
    pub rt: Rt,
    pub pool: Pool,
    /// What the program hands to its kinds.
    pub env: Env,
    pub admission: Admission,
    pub watch: Rc<HandlerAudit>,
    pub exports: ExportSlots,
    latch: Latch,
    /// Whether requests of clients are to be looked at when they come: the stack is latched, or their handlers are
    /// watched.
    special: Cell<bool>,
    /// Requests that ended, kept so that the next ones need no allocation.
    #[expect(clippy::vec_box, reason = "a request stays in its box when it is reused")]
    spare: RefCell<Vec<Box<InFlightRequest>>>,
    spare_max: Cell<usize>,
    /// Requests of clients that wait, for holders of tickets.
    flights: Entries<Flight>,
}

/// A request of a client that waits.
struct Flight {
    class: Class,
    run: Box<InFlightRequest>,
}

/// Ended requests that are kept.
const SPARE_MAX: usize = 256;

impl Shared {
    pub(crate) fn new(rt: Rt, pool: Pool, env: Env) -> Shared {
        Shared {
            rt,
            pool,
            env,
            admission: Admission::default(),
            watch: Rc::default(),
            exports: ExportSlots::default(),
            latch: Latch::new("the stack"),
            special: Cell::new(false),
            spare: RefCell::default(),
            spare_max: Cell::new(SPARE_MAX),
            flights: Entries::default(),
        }
    }

    /// Refuses everything from now on. The first cause stays.
    #[cold]
    pub(crate) fn latch(&self, cause: impl std::fmt::Display) {
        self.latch.set(&self.rt, cause, "Restart the server.");
        self.special.set(true);
    }

    /// A request for `volume` about to enter `snapshot` at its top.
    #[inline(always)]
    pub(crate) fn run(&self, snapshot: &Handle, volume: VolumeId, bio: &mut Option<Bio>) -> Box<InFlightRequest> {
        let spare = self.spare.borrow_mut().pop();
        let mut run = spare.unwrap_or_else(|| Box::new(InFlightRequest::fresh(snapshot.clone(), 0, None)));
        run.renew(snapshot, volume, bio);
        run
    }

    /// A request of a client that waits, as a step.
    pub(crate) fn fly(self: &Rc<Self>, class: Class, run: Box<InFlightRequest>) -> Step<Done> {
        let key = self.flights.insert(Flight { class, run });
        Step::Ticket(Ticket::new(self.clone(), key))
    }

    /// The answer of a request of a client that has one. The request is kept for reuse.
    #[inline]
    pub(crate) fn land(&self, class: Class, mut run: Box<InFlightRequest>) -> Done {
        let done = run.take_answer();
        self.admission.leave(class);
        note_answer(&self.rt, &done);
        self.spare(run);
        done
    }

    /// Keeps an ended request for reuse.
    #[inline]
    fn spare(&self, run: Box<InFlightRequest>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < self.spare_max.get() {
            spare.push(run);
        }
    }

    /// Lets go of the arrangements that ended requests still hold.
    pub(crate) fn forget_spare(&self) {
        drop(self.spare.take());
    }

    /// As [`Shared::forget_spare`], for good: requests that end later are not kept, because they would hold what keeps
    /// them.
    pub(crate) fn keep_no_spare(&self) {
        self.spare_max.set(0);
        self.forget_spare();
    }

    /// Whether everything is allowed; if not, every request is answered with this error.
    pub(crate) fn check(&self) -> Result<(), BioError> {
        self.latch.check()
    }

    /// Why everything is refused, in whole sentences.
    pub(crate) fn why(&self) -> Option<&str> {
        self.latch.why()
    }

    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        self.special.get()
    }

    /// What is watched has changed.
    pub(crate) fn mark_special(&self) {
        self.special.set(self.latch.is_set() || self.watch.what.get().handlers);
    }
}

impl Table<Done> for Shared {
    fn poll(&self, key: u32, cx: &mut Context<'_>) -> Poll<Done> {
        let polled = self.flights.poll(key, |flight| flight.run.poll_answer(cx));
        polled.map(|(Flight { class, run }, ())| self.land(class, run))
    }

    /// Dropping what is in flight latches the stack.
    fn abandon(&self, key: u32) {
        drop(self.flights.remove(key));
    }
}

/// A built layer: outlives the snapshots that it stands in.
pub(crate) struct Instance {
    pub name: String,
    pub kind: &'static Kind,
    pub ext: Rc<dyn Extension>,
    pub uppers: Vec<Upper>,
    /// Bytes of its lower devices for which it was built.
    pub over: Vec<u64>,
    /// How often it broke the contract (a destination outside its lower devices, a lost buffer).
    pub violations: Cell<u64>,
    /// Requests that it created, or parts of requests.
    pub generated: Cell<u64>,
    /// Why it cannot be used, if opening it failed.
    pub unusable: RefCell<Option<Unusable>>,
    /// Whether its text demands that it be held to its kind's declaration.
    pub strict: Cell<bool>,
    /// What it did while its work was watched.
    pub work: Cell<Work>,
    /// Its slot in the arrangement that took effect last, if it stands there.
    place: Cell<u16>,
}

impl Instance {
    /// `over` are the sizes of its lower devices.
    pub(crate) fn new(
        name: String,
        kind: &'static Kind,
        ext: Rc<dyn Extension>,
        uppers: Vec<Upper>,
        over: Vec<u64>,
    ) -> Instance {
        Instance {
            name,
            kind,
            ext,
            uppers,
            over,
            violations: Cell::new(0),
            generated: Cell::new(0),
            unusable: RefCell::default(),
            strict: Cell::new(false),
            work: Cell::default(),
            place: Cell::default(),
        }
    }

    /// Counts a broken contract and says it as an error.
    #[cold]
    pub(crate) fn violation(&self, what: std::fmt::Arguments<'_>) -> BioError {
        self.violations.set(self.violations.get() + 1);
        BioError::invalid(format!("{} {what}", self.name))
    }

    /// Whether it may send a request of its own, or a part of one, to its lower device `lower`.
    fn may_send(&self, lower: usize) -> bool {
        let routes = &self.kind.routes;
        let is_forward = (0..self.uppers.len()).any(|port| routes.forward.has(port, lower));
        self.kind.role != Role::Accessor && (is_forward || routes.generate.has(0, lower))
    }
}

/// A layer at its place.
pub(crate) struct Slot {
    pub instance: Rc<Instance>,
    pub uppers: Vec<VolumeId>,
    pub lowers: Vec<VolumeId>,
    /// Lower device 0.
    pub first: VolumeId,
    /// What the loop needs at every hop, at hand: the instance's code, and whether it looks at answers.
    pub ext: Rc<dyn Extension>,
    pub completes: bool,
    /// Whether it may send a failed request again.
    pub retries: bool,
    pub cost: Nanos,
    /// The hop of a request that this slot sends to its lower device 0.
    pub after: usize,
}

impl Slot {
    pub(crate) fn new(instance: Rc<Instance>, uppers: Vec<VolumeId>, lowers: Vec<VolumeId>) -> Slot {
        let cost = instance.kind.cost;
        let ext: Rc<dyn Extension> = match &*instance.unusable.borrow() {
            Some(unusable) => Rc::new(Refusing(unusable.why.clone())),
            None => instance.ext.clone(),
        };
        let (completes, retries) = (ext.completes(), ext.retries());
        Slot { completes, retries, ext, cost, instance, uppers, first: lowers[0], lowers, after: 0 }
    }

    /// Bytes of an upper port, if they may change: `below` is what lower device 0 has.
    fn size(&self, port: u16, below: Option<u64>) -> Option<u64> {
        self.ext.sizing().map(|sizing| sizing.size(port)).or(below.filter(|_| self.instance.kind.transparent))
    }
}

/// A device at the bottom, with a queue per admission class.
pub(crate) struct Leaf {
    pub name: String,
    pub kind: &'static Kind,
    pub device: Rc<dyn Device>,
    credits: [Credits; Class::COUNT],
}

impl Leaf {
    pub(crate) fn new(name: String, kind: &'static Kind, device: Rc<dyn Device>) -> Leaf {
        let depth = u64::from(device.depth().max(1));
        Leaf { name, kind, device, credits: std::array::from_fn(|_| Credits::new(depth)) }
    }

    #[inline]
    pub(crate) fn credits(&self, class: Class) -> &Credits {
        &self.credits[class as usize]
    }
}

pub(crate) struct Snapshot {
    pub shared: Rc<Shared>,
    pub slots: Vec<Slot>,
    pub leaves: Vec<(VolumeId, Rc<Leaf>)>,
    /// By volume; `None` for numbers that this snapshot does not have.
    limits: Vec<Option<RefCell<Limits>>>,
    pub hops: Hops,
    /// As long as the snapshot is there, its volumes keep their numbers.
    _numbers: Vec<Rc<Number>>,
}

impl Snapshot {
    /// `slots` stand top-down. `numbers` are those of all volumes in it, and `volumes` is one more than the largest.
    /// Sizes are those of the beginning until they are noted.
    pub(crate) fn new(
        shared: Rc<Shared>,
        mut slots: Vec<Slot>,
        leaves: Vec<(VolumeId, Rc<Leaf>)>,
        numbers: Vec<Rc<Number>>,
        volumes: usize,
    ) -> Snapshot {
        let mut limits: Vec<Option<RefCell<Limits>>> = vec![None; volumes];
        let mut met = Vec::with_capacity(leaves.len() + slots.len());
        for (index, (volume, leaf)) in leaves.iter().enumerate() {
            let built = leaf.device.limits();
            met.push((*volume, Hop::leaf(leaf_fence(&shared, built), index as u16)));
            limits[volume.0 as usize] = Some(RefCell::new(built.clone()));
        }
        for (index, slot) in slots.iter().enumerate().rev() {
            for (port, (volume, upper)) in slot.uppers.iter().zip(&slot.instance.uppers).enumerate() {
                met.push((*volume, Hop::slot(LimitsCheck::new(&upper.limits), index as u16, port as u16)));
                limits[volume.0 as usize] = Some(RefCell::new(upper.limits.clone()));
            }
        }
        let hops = Hops::new(met, volumes);
        for (index, slot) in slots.iter_mut().enumerate() {
            slot.after = hops.at(index as u16 + 1, slot.first);
        }
        Snapshot { shared, slots, leaves, limits, hops, _numbers: numbers }
    }

    /// The number of the hop of a request at `position` that is addressed to `volume`.
    #[inline]
    pub(crate) fn hop_at(&self, position: u16, volume: VolumeId) -> usize {
        self.hops.at(position, volume)
    }

    #[inline]
    pub(crate) fn hop(&self, number: usize) -> &Hop {
        self.hops.get(number)
    }

    /// What requests to a volume must keep to now.
    pub(crate) fn limits(&self, volume: VolumeId) -> Option<Ref<'_, Limits>> {
        Some(self.limits.get(volume.0 as usize)?.as_ref()?.borrow())
    }

    /// It takes effect: tells each layer where it stands, and which of its upper ports must keep their sizes.
    pub(crate) fn place(&self) {
        (0..).zip(&self.slots).for_each(|(index, slot)| slot.instance.place.set(index));
        let mut keepers: Vec<Option<&str>> = vec![None; self.limits.len()];
        // What stands on a slot comes before it.
        for slot in &self.slots {
            let above = |volume: &VolumeId| keepers[volume.0 as usize];
            let by: Vec<Option<&str>> = slot.uppers.iter().map(above).collect();
            let sizing = slot.instance.ext.sizing();
            sizing.inspect(|sizing| (0..).zip(&by).for_each(|(port, by)| sizing.kept(port, *by)));
            let instance = &slot.instance;
            let keeper = if instance.kind.transparent { by[0] } else { Some(instance.name.as_str()) };
            for lower in &slot.lowers {
                let kept = &mut keepers[lower.0 as usize];
                *kept = kept.or(keeper);
            }
        }
    }

    /// One more than the largest number of its volumes.
    pub(crate) fn volumes(&self) -> usize {
        self.limits.len()
    }

    /// The slot of a layer in the snapshot that took effect last, if it stands there.
    pub(crate) fn slot_of(&self, instance: &Rc<Instance>) -> Option<u16> {
        let index = instance.place.get();
        let slot = self.slots.get(usize::from(index))?;
        Rc::ptr_eq(&slot.instance, instance).then_some(index)
    }

    /// Asks for all sizes. A volume that is about to be cut has its end where `cut` says. Whether one has changed.
    pub(crate) fn note_sizes(&self, cut: Option<Cut>) -> bool {
        let mut is_new = false;
        for (volume, leaf) in &self.leaves {
            is_new |= self.set_size(*volume, leaf.device.size(), cut);
        }
        for index in (0..self.slots.len()).rev() {
            is_new |= self.note_slot(index as u16, cut);
        }
        is_new
    }

    /// The same for the upper ports of one slot; what is below it is known.
    pub(crate) fn note_slot(&self, index: u16, cut: Option<Cut>) -> bool {
        let slot = &self.slots[usize::from(index)];
        let mut is_new = false;
        for (port, (volume, upper)) in (0..).zip(slot.uppers.iter().zip(&slot.instance.uppers)) {
            let below = self.limits(slot.first).map(|lower| lower.size);
            let size = slot.size(port, below).unwrap_or(upper.limits.size);
            is_new |= self.set_size(*volume, size, cut);
        }
        is_new
    }

    /// The volumes that refuse every change: by themselves, or because everything below them does.
    pub(crate) fn read_only(&self) -> BTreeSet<VolumeId> {
        let leaves = self.leaves.iter().filter(|(_, leaf)| leaf.device.is_read_only());
        let mut fixed: BTreeSet<VolumeId> = leaves.map(|(volume, _)| *volume).collect();
        for slot in self.slots.iter().rev() {
            let is_below_fixed = slot.lowers.iter().all(|lower| fixed.contains(lower));
            let uppers = (0..).zip(&slot.uppers);
            let sizing = slot.instance.ext.sizing();
            let refuses = |port| sizing.is_some_and(|sizing| sizing.is_read_only(port));
            let refusing = uppers.filter(|(port, _)| is_below_fixed || refuses(*port));
            fixed.extend(refusing.map(|(_, upper)| *upper).collect::<Vec<_>>());
        }
        fixed
    }

    fn set_size(&self, volume: VolumeId, bytes: u64, cut: Option<Cut>) -> bool {
        let end = cut.filter(|cut| cut.volume == volume).map_or(u64::MAX, |cut| cut.bytes);
        let limits = self.limits[volume.0 as usize].as_ref().expect("it has a hop, so it has limits");
        let before = std::mem::replace(&mut limits.borrow_mut().size, bytes.min(end));
        if before == bytes.min(end) {
            return false;
        }
        self.hops.set_size(volume, bytes.min(end));
        true
    }
}

/// A volume that is about to become smaller, and its new end in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    pub volume: VolumeId,
    pub bytes: u64,
}

/// Where arrivals are counted, nothing simply passes the fence of a leaf: the full check is where they are seen.
fn leaf_fence(shared: &Shared, limits: &Limits) -> LimitsCheck {
    if shared.watch.what.get().handlers { LimitsCheck::closed() } else { LimitsCheck::new(limits) }
}

impl Submit for Snapshot {
    fn submit_below(self: Rc<Self>, slot: u16, bio: Bio) -> Step<Done> {
        let at = &self.slots[slot as usize];
        let instance = &at.instance;
        instance.generated.set(instance.generated.get() + 1);
        match at.lowers.iter().position(|volume| *volume == bio.dest) {
            Some(lower) if instance.may_send(lower) => {}
            found => return Step::Now(refuse(instance, found, bio)),
        }
        self.shared.watch.left(&instance.name);
        InFlightRequest::fresh(Handle(self), slot + 1, Some(bio)).into_step()
    }

    fn lowers_of(&self, slot: u16) -> &[VolumeId] {
        &self.slots[slot as usize].lowers
    }

    fn note_change(&self, slot: u16, port: u16, range: ByteRange) {
        self.shared.exports.mark(self, self.slots[usize::from(slot)].uppers[usize::from(port)], range);
    }
}

/// The answer to a request of an extension that its declaration rules out.
#[cold]
fn refuse(instance: &Instance, lower: Option<usize>, bio: Bio) -> Done {
    let error = match lower {
        None => instance.violation(format_args!("sent a request to volume {}, which is not below it", bio.dest.0)),
        Some(_) if instance.kind.role == Role::Accessor => {
            instance.violation(format_args!("sent a request of its own, but its kind declares that it only looks"))
        }
        Some(lower) => instance
            .violation(format_args!("sent a request to its lower device {lower}, against its kind's declaration")),
    };
    bio.fail(error)
}

/// A counted reference to a snapshot. A type of ours, so that it can be a [`Route`] without touching the count.
#[derive(Clone)]
pub(crate) struct Handle(Rc<Snapshot>);

impl Handle {
    pub(crate) fn new(snapshot: Snapshot) -> Handle {
        Handle(Rc::new(snapshot))
    }

    /// Whether both are one snapshot.
    #[inline]
    pub(crate) fn is(&self, other: &Handle) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// What the loop lends the slots of one request, one after the other.
    #[inline]
    pub(crate) fn ctx(&self) -> Ctx<'_> {
        Ctx::new(&self.shared.rt, &self.shared.pool, self)
    }
}

impl Deref for Handle {
    type Target = Snapshot;
    fn deref(&self) -> &Snapshot {
        &self.0
    }
}

impl Route for Handle {
    fn below(&self, slot: u16) -> Below {
        Below::new(self.0.clone(), slot)
    }
}
