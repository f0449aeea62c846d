//! One fixed arrangement of slots and leaves. A request keeps the snapshot under which it entered.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::ext::Submit;
use esker_block::{
    Below, Bio, BioError, Class, Ctx, Device, Done, Extension, Kind, Limits, Role, Route, Step, Upper, VolumeId,
};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::Credits;

use crate::contract::Fence;
use crate::door::Door;
use crate::run::{Run, note_answer};
use crate::station::Unusable;
use crate::watch::{Watch, Work};

/// What all snapshots of one stack share.
pub(crate) struct Shared {
    pub rt: Rt,
    pub pool: Pool,
    pub door: Door,
    pub watch: Rc<Watch>,
    dead: Cell<bool>,
    /// Whether requests of clients are to be looked at when they come: the stack is dead, or who handles them is watched.
    special: Cell<bool>,
    cause: RefCell<String>,
    /// Requests that ended, kept so that the next ones need no allocation.
    #[expect(clippy::vec_box, reason = "a request stays in its box when it is reused")]
    spare: RefCell<Vec<Box<Run>>>,
    spare_max: Cell<usize>,
}

/// Ended requests that are kept.
const SPARE_MAX: usize = 256;

impl Shared {
    pub fn new(rt: Rt, pool: Pool) -> Shared {
        Shared {
            rt,
            pool,
            door: Door::default(),
            watch: Rc::default(),
            dead: Cell::new(false),
            special: Cell::new(false),
            cause: RefCell::default(),
            spare: RefCell::default(),
            spare_max: Cell::new(SPARE_MAX),
        }
    }

    /// Refuses everything from now on. The first cause stays.
    #[cold]
    pub fn latch(&self, cause: impl Into<String>) {
        if !self.dead.replace(true) {
            self.special.set(true);
            *self.cause.borrow_mut() = cause.into();
            self.rt.log(esker_rt::Level::Error, format_args!("the stack is dead: {}", self.cause.borrow()));
        }
    }

    /// A request for `volume` about to enter `snapshot` at its top.
    #[inline(always)]
    pub fn run(&self, snapshot: &Handle, volume: VolumeId, bio: &mut Option<Bio>) -> Box<Run> {
        let spare = self.spare.borrow_mut().pop();
        let mut run = spare.unwrap_or_else(|| Box::new(Run::fresh(snapshot.clone(), 0, None)));
        run.renew(snapshot, volume, bio);
        run
    }

    /// A request of a client has its answer.
    #[inline]
    pub fn left(&self, class: Class, done: &Done) {
        self.door.leave(class);
        note_answer(&self.rt, done);
    }

    /// Keeps an ended request for reuse.
    #[inline]
    pub fn spare(&self, run: Box<Run>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < self.spare_max.get() {
            spare.push(run);
        }
    }

    /// Lets go of the arrangements that ended requests still hold.
    pub fn forget_spare(&self) {
        drop(self.spare.take());
    }

    /// As [`Shared::forget_spare`], for good: requests that end later are not kept, because they would hold what keeps
    /// them.
    pub fn keep_no_spare(&self) {
        self.spare_max.set(0);
        self.forget_spare();
    }

    pub fn is_dead(&self) -> bool {
        self.dead.get()
    }

    #[inline]
    pub fn is_special(&self) -> bool {
        self.special.get()
    }

    /// What is watched has changed.
    pub fn mark_special(&self) {
        self.special.set(self.dead.get() || self.watch.what.get().handlers);
    }

    pub fn cause(&self) -> String {
        self.cause.borrow().clone()
    }
}

/// A built layer: outlives the snapshots that it stands in.
pub(crate) struct Instance {
    pub name: String,
    pub kind: &'static Kind,
    pub ext: Rc<dyn Extension>,
    pub uppers: Vec<Upper>,
    /// How often it broke the contract (a destination outside its lower ends, a lost buffer).
    pub violations: Cell<u64>,
    /// Requests that it created, or parts of requests.
    pub generated: Cell<u64>,
    /// Why it cannot be used, if opening it failed.
    pub unusable: RefCell<Option<String>>,
    /// Whether its text demands that it be held to its kind's declaration.
    pub strict: Cell<bool>,
    /// What it did while its work was watched.
    pub work: Cell<Work>,
}

impl Instance {
    pub fn new(name: String, kind: &'static Kind, ext: Rc<dyn Extension>, uppers: Vec<Upper>) -> Instance {
        Instance {
            name,
            kind,
            ext,
            uppers,
            violations: Cell::new(0),
            generated: Cell::new(0),
            unusable: RefCell::default(),
            strict: Cell::new(false),
            work: Cell::default(),
        }
    }

    /// Counts a broken contract and says it as an error.
    #[cold]
    pub fn violation(&self, what: std::fmt::Arguments<'_>) -> BioError {
        self.violations.set(self.violations.get() + 1);
        BioError::invalid(format!("{} {what}", self.name))
    }

    /// Whether it may send a request of its own, or a part of one, to its lower end `lower`.
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
    /// Lower end 0.
    pub first: VolumeId,
    /// What the loop needs at every hop, at hand: the instance's code, and whether it looks at answers.
    pub ext: Rc<dyn Extension>,
    pub completes: bool,
    pub cost: Nanos,
    /// The hop of a request that this slot sends to its lower end 0.
    pub after: usize,
}

impl Slot {
    pub fn new(instance: Rc<Instance>, uppers: Vec<VolumeId>, lowers: Vec<VolumeId>) -> Slot {
        let cost = instance.kind.cost;
        let ext: Rc<dyn Extension> = match &*instance.unusable.borrow() {
            Some(why) => Rc::new(Unusable(why.clone())),
            None => instance.ext.clone(),
        };
        Slot { completes: ext.completes(), ext, cost, instance, uppers, first: lowers[0], lowers, after: 0 }
    }

    /// Bytes of an upper end, if they may change: `below` is what lower end 0 has.
    fn size(&self, port: u16, below: Option<u64>) -> Option<u64> {
        self.ext.size(port).or(below.filter(|_| self.instance.kind.transparent))
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
    pub fn new(name: String, kind: &'static Kind, device: Rc<dyn Device>) -> Leaf {
        let depth = u64::from(device.depth().max(1));
        Leaf { name, kind, device, credits: std::array::from_fn(|_| Credits::new(depth)) }
    }

    #[inline]
    pub fn credits(&self, class: Class) -> &Credits {
        &self.credits[class as usize]
    }
}

/// Where a request goes next.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    Slot { index: u16, port: u16 },
    Leaf(u16),
    Nowhere,
}

/// What a request meets at one position when it is addressed to one volume.
#[derive(Clone, Copy)]
pub(crate) struct Hop {
    pub fence: Fence,
    pub target: Target,
}

/// Nothing keeps to the contract of a volume that is not there.
const NOWHERE: Hop = Hop { fence: Fence::CLOSED, target: Target::Nowhere };

pub(crate) struct Snapshot {
    pub shared: Rc<Shared>,
    pub slots: Vec<Slot>,
    pub leaves: Vec<(VolumeId, Rc<Leaf>)>,
    /// By volume; `None` for names that this snapshot does not have.
    limits: Vec<Option<Limits>>,
    /// `[position × volumes + volume]`: the first slot at or after the position whose upper ends hold the volume, else
    /// its leaf. The last element is nowhere.
    hops: Vec<Hop>,
}

impl Snapshot {
    /// `slots` stand top-down. `volumes` is one more than the largest volume number. A volume that is about to be cut has its
    /// end where `cut` says.
    pub fn new(
        shared: Rc<Shared>,
        mut slots: Vec<Slot>,
        leaves: Vec<(VolumeId, Rc<Leaf>)>,
        volumes: usize,
        cut: Option<Cut>,
    ) -> Snapshot {
        let mut limits: Vec<Option<Limits>> = vec![None; volumes];
        let mut row = vec![NOWHERE; volumes];
        for (i, (volume, leaf)) in leaves.iter().enumerate() {
            let now = sized(leaf.device.limits(), *volume, leaf.device.size(), cut);
            row[volume.0 as usize] = Hop { fence: leaf_fence(&shared, &now), target: Target::Leaf(i as u16) };
            limits[volume.0 as usize] = Some(now);
        }
        let mut rows = vec![row.clone()];
        for (index, slot) in slots.iter().enumerate().rev() {
            for (port, volume) in slot.uppers.iter().enumerate() {
                let below = limits[slot.first.0 as usize].as_ref().map(|lower| lower.size);
                let built = &slot.instance.uppers[port].limits;
                let size = slot.size(port as u16, below).unwrap_or(built.size);
                let upper = sized(built, *volume, size, cut);
                let target = Target::Slot { index: index as u16, port: port as u16 };
                row[volume.0 as usize] = Hop { fence: Fence::new(&upper), target };
                limits[volume.0 as usize] = Some(upper);
            }
            rows.push(row.clone());
        }
        let hops: Vec<Hop> = rows.into_iter().rev().flatten().chain([NOWHERE]).collect();
        for (index, slot) in slots.iter_mut().enumerate() {
            slot.after = (index + 1) * volumes + slot.first.0 as usize;
        }
        Snapshot { shared, slots, leaves, limits, hops }
    }

    /// The number of the hop of a request at `position` that is addressed to `volume`.
    #[inline]
    pub fn hop_at(&self, position: u16, volume: VolumeId) -> usize {
        let volumes = self.limits.len();
        match (volume.0 as usize) < volumes {
            true => position as usize * volumes + volume.0 as usize,
            false => self.hops.len() - 1,
        }
    }

    #[inline]
    pub fn hop(&self, number: usize) -> &Hop {
        &self.hops[number]
    }

    pub fn limits(&self, volume: VolumeId) -> Option<&Limits> {
        self.limits.get(volume.0 as usize)?.as_ref()
    }

    /// Bytes of each volume.
    pub fn sizes(&self) -> impl Iterator<Item = Option<u64>> {
        self.limits.iter().map(|limits| limits.as_ref().map(|limits| limits.size))
    }
}

/// A volume that is about to become smaller, and its new end in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    pub volume: VolumeId,
    pub bytes: u64,
}

/// Limits as they were built, with the size that the volume has now.
fn sized(built: &Limits, volume: VolumeId, size: u64, cut: Option<Cut>) -> Limits {
    let end = cut.filter(|cut| cut.volume == volume).map_or(u64::MAX, |cut| cut.bytes);
    Limits { size: size.min(end), ..built.clone() }
}

/// Where arrivals are counted, nothing simply passes the fence of a leaf: the full check is where they are seen.
fn leaf_fence(shared: &Shared, limits: &Limits) -> Fence {
    if shared.watch.what.get().handlers { Fence::CLOSED } else { Fence::new(limits) }
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
        Run::fresh(Handle(self), slot + 1, Some(bio)).into_step()
    }

    fn lowers_of(&self, slot: u16) -> &[VolumeId] {
        &self.slots[slot as usize].lowers
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
        Some(lower) => {
            instance.violation(format_args!("sent a request to its lower end {lower}, against its kind's declaration"))
        }
    };
    bio.fail(error)
}

/// A counted reference to a snapshot. A type of ours, so that it can be a [`Route`] without touching the count.
#[derive(Clone)]
pub(crate) struct Handle(Rc<Snapshot>);

impl Handle {
    pub fn new(snapshot: Snapshot) -> Handle {
        Handle(Rc::new(snapshot))
    }

    /// Whether both are one snapshot.
    #[inline]
    pub fn is(&self, other: &Handle) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// What the loop lends the slots of one request, one after the other.
    #[inline]
    pub fn ctx(&self) -> Ctx<'_> {
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
