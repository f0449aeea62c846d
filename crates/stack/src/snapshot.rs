//! One fixed arrangement of slots and leaves. A request keeps the snapshot under which it entered.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use esker_block::ext::Submit;
use esker_block::{Below, Bio, Class, Ctx, Device, Done, Extension, Kind, Limits, Route, Step, Upper, VolumeId};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sync::Credits;

use crate::run::Run;

/// What all snapshots of one stack share.
pub(crate) struct Shared {
    pub rt: Rt,
    pub pool: Pool,
    dead: Cell<bool>,
    cause: RefCell<String>,
}

impl Shared {
    pub fn new(rt: Rt, pool: Pool) -> Shared {
        Shared { rt, pool, dead: Cell::new(false), cause: RefCell::default() }
    }

    /// Refuses everything from now on. The first cause stays.
    #[cold]
    pub fn latch(&self, cause: impl Into<String>) {
        if !self.dead.replace(true) {
            *self.cause.borrow_mut() = cause.into();
            self.rt.log(esker_rt::Level::Error, format_args!("the stack is dead: {}", self.cause.borrow()));
        }
    }

    pub fn is_dead(&self) -> bool {
        self.dead.get()
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
}

/// A layer at its place.
pub(crate) struct Slot {
    pub instance: Rc<Instance>,
    pub uppers: Vec<VolumeId>,
    pub lowers: Vec<VolumeId>,
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

pub(crate) struct Snapshot {
    pub shared: Rc<Shared>,
    pub slots: Vec<Slot>,
    pub leaves: Vec<(VolumeId, Rc<Leaf>)>,
    /// By volume; `None` for names that this snapshot does not have.
    limits: Vec<Option<Limits>>,
    /// `[position × volumes + volume]`: the first slot at or after the position whose upper ends hold the volume.
    next: Vec<Target>,
}

impl Snapshot {
    /// `slots` stand top-down. `volumes` is one more than the largest volume number.
    pub fn new(shared: Rc<Shared>, slots: Vec<Slot>, leaves: Vec<(VolumeId, Rc<Leaf>)>, volumes: usize) -> Snapshot {
        let mut limits = vec![None; volumes];
        let mut row = vec![Target::Nowhere; volumes];
        for (i, (volume, leaf)) in leaves.iter().enumerate() {
            limits[volume.0 as usize] = Some(leaf.device.limits().clone());
            row[volume.0 as usize] = Target::Leaf(i as u16);
        }
        let mut rows = vec![row.clone()];
        for (index, slot) in slots.iter().enumerate().rev() {
            for (port, volume) in slot.uppers.iter().enumerate() {
                limits[volume.0 as usize] = Some(slot.instance.uppers[port].limits.clone());
                row[volume.0 as usize] = Target::Slot { index: index as u16, port: port as u16 };
            }
            rows.push(row.clone());
        }
        let next = rows.into_iter().rev().flatten().collect();
        Snapshot { shared, slots, leaves, limits, next }
    }

    #[inline]
    pub fn next(&self, position: u16, volume: VolumeId) -> Target {
        let volumes = self.limits.len();
        match (volume.0 as usize) < volumes {
            true => self.next[position as usize * volumes + volume.0 as usize],
            false => Target::Nowhere,
        }
    }

    #[inline]
    pub fn limits(&self, volume: VolumeId) -> Option<&Limits> {
        self.limits.get(volume.0 as usize)?.as_ref()
    }
}

/// A counted reference to a snapshot. A type of ours, so that it can be a [`Route`] without touching the count.
#[derive(Clone)]
pub(crate) struct Handle(Rc<Snapshot>);

impl Handle {
    pub fn new(snapshot: Snapshot) -> Handle {
        Handle(Rc::new(snapshot))
    }

    /// What the loop lends slot `index` for one request.
    #[inline]
    pub fn ctx<'a>(&'a self, index: u16, port: u16, scratch: &'a mut u64) -> Ctx<'a> {
        let lowers = &self.slots[index as usize].lowers;
        Ctx::new(&self.shared.rt, &self.shared.pool, scratch, port, lowers, self, index)
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

impl Submit for Snapshot {
    fn submit_below(self: Rc<Self>, slot: u16, bio: Bio) -> Step<Done> {
        Run::new(Handle(self), slot + 1).start(bio).into_step()
    }
}
