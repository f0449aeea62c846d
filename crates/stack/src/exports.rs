//! Slots of exports. In a served stack each export has a volume of its own with a slot on the device behind it. So has
//! each mount that lies on a device: here it is one more export, whose client is the file system.
//! Requests of clients pass that slot, whichever front end they come from: it counts and times them, and notes what
//! they change in the dirty maps of the export and of its kin.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::{ByteRange, Nanos};
use esker_block::{
    Bio, ChangeMap, Ctx, Device, Done, Extension, Flow, Kind, KindError, Layer, Make, Meter, Reading, Step, VolumeId,
};
use esker_rt::Rt;

use crate::build::{BuildError, NUMBERS_SPENT, arrange};
use crate::meters::{DIGITS, see_through};
use crate::numbers::Number;
use crate::snapshot::{Slot, Snapshot};
use crate::stack::{Export, Parts, Stack};
use crate::text::Outlet;
use crate::uses::Uses;

/// As measured for the layer `stats`.
static KIND: Kind = Kind { cost: Nanos(150), ..Kind::layer("export", "Watches an export.", &[], refuse) };

fn refuse(_: &Make<'_>) -> Result<Layer, KindError> {
    Err(KindError::Unfit("slots of exports are placed by the stack, not by its text".into()))
}

/// The slot of one export. It outlives the arrangements in which it stands, so its counts and its map last over live
/// changes.
pub(crate) struct ExportSlot {
    number: Rc<Number>,
    /// The volume on which it stands.
    on: Cell<VolumeId>,
    meter: Meter,
    /// What was changed, if changes are tracked.
    own: OnceCell<Rc<ChangeMap>>,
    /// Maps of exports of other volumes that stand on this one or below it, and whether their bytes lie at the same
    /// places.
    kin: RefCell<Vec<(Rc<ChangeMap>, bool)>>,
    /// The meter's mark of the request that enters now, if the meter saw it already while it waited outside.
    seen: Cell<Option<u64>>,
}

impl ExportSlot {
    fn new(number: Rc<Number>, on: VolumeId) -> ExportSlot {
        ExportSlot {
            number,
            on: Cell::new(on),
            meter: Meter::new(DIGITS),
            own: OnceCell::new(),
            kin: RefCell::default(),
            seen: Cell::new(None),
        }
    }

    /// The volume that clients address.
    pub(crate) fn volume(&self) -> VolumeId {
        self.number.volume()
    }

    /// The meter's mark of a request that has come.
    #[inline]
    pub(crate) fn see(&self, bio: &Bio, rt: &Rt) -> u64 {
        self.seen.take().unwrap_or_else(|| self.meter.begin(bio, rt.now()))
    }

    /// The next request that enters is the one that has this mark.
    pub(crate) fn enters(&self, mark: Option<u64>) {
        self.seen.set(mark);
    }

    /// Notes what a request is about to change.
    #[inline]
    fn note(&self, bio: &Bio) {
        let Some(own) = self.own.get() else { return };
        if bio.changes_data() {
            own.note(bio);
            self.kin.borrow().iter().for_each(|(kin, is_same)| if *is_same { kin.note(bio) } else { kin.mark_all() });
        }
    }
}

impl Extension for ExportSlot {
    #[inline]
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        ctx.scratch = self.see(bio, ctx.rt);
        self.note(bio);
        Step::Now(Flow::Down)
    }

    #[inline]
    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        self.meter.end(ctx.scratch, ctx.rt.now(), done.result.is_err());
    }
}

/// The slots of a stack's exports by name; none unless it is served.
#[derive(Default)]
pub(crate) struct ExportSlots(RefCell<BTreeMap<String, Rc<ExportSlot>>>);

impl ExportSlots {
    /// The slot of the export of that name.
    pub(crate) fn get(&self, name: &str) -> Option<Rc<ExportSlot>> {
        self.0.borrow().get(name).cloned()
    }

    /// The slot of an export in an arrangement, and the number of its volume.
    pub(crate) fn place(&self, outlet: Outlet<'_>, parts: &Parts) -> Option<(Slot, Rc<Number>)> {
        let slot = self.get(outlet.name)?;
        let limits = parts.limits(outlet.device)?;
        let (name, number) = (format!("export {}", outlet.name), slot.number.clone());
        let on = parts.volume(outlet.device)?;
        let instance = see_through(name, &KIND, slot, limits);
        Some((Slot::new(Rc::new(instance), vec![number.volume()], vec![on]), number))
    }

    /// Counts a request that its export's volume refuses.
    #[cold]
    pub(crate) fn refused(&self, bio: &Bio, rt: &Rt) {
        if let Some(slot) = self.0.borrow().values().find(|slot| slot.volume() == bio.dest) {
            slot.meter.end(slot.see(bio, rt), rt.now(), true);
        }
    }

    /// Marks in the map of each export on `volume` that these bytes of it are about to change. An export whose bytes
    /// may lie elsewhere is marked as a whole.
    pub(crate) fn mark(&self, snapshot: &Snapshot, volume: VolumeId, range: ByteRange) {
        let slots = self.0.borrow();
        let mut tracked = slots.values().filter_map(|slot| Some((slot, slot.own.get()?))).peekable();
        if tracked.peek().is_none() {
            return;
        }
        let above = Uses::of(snapshot).above(volume);
        tracked.for_each(|(slot, changes)| match above.get(&slot.on.get()) {
            None => {}
            Some(true) => changes.mark(range),
            Some(false) => changes.mark_all(),
        });
    }

    /// Gives a map to each of these slots, which are `size` large, unless it has one. Those of one volume share it.
    fn track<'a>(&self, wanted: impl Iterator<Item = (&'a ExportSlot, u64)>, snapshot: &Snapshot) {
        let mut maps = self.maps();
        for (slot, size) in wanted.filter(|(slot, _)| slot.own.get().is_none()) {
            let there = maps.entry(slot.on.get()).or_default();
            if there.is_empty() {
                there.push(Rc::new(ChangeMap::new(size)));
            }
            slot.own.get_or_init(|| there[0].clone());
        }
        self.relate(snapshot);
    }

    /// The maps by the volumes on which their exports stand. One volume has several where a live change has brought
    /// exports together.
    fn maps(&self) -> BTreeMap<VolumeId, Vec<Rc<ChangeMap>>> {
        let mut maps: BTreeMap<_, Vec<Rc<ChangeMap>>> = BTreeMap::new();
        for slot in self.0.borrow().values() {
            let Some(own) = slot.own.get() else { continue };
            let there = maps.entry(slot.on.get()).or_default();
            if !there.iter().any(|map| Rc::ptr_eq(map, own)) {
                there.push(own.clone());
            }
        }
        maps
    }

    /// Finds out anew which exports stand on which others. A change through either of two is one of the other, too.
    pub(crate) fn relate(&self, snapshot: &Snapshot) {
        let (maps, uses) = (self.maps(), Uses::of(snapshot));
        let mut kin: BTreeMap<VolumeId, Vec<(Rc<ChangeMap>, bool)>> = BTreeMap::new();
        for (low, own) in &maps {
            for (high, is_same) in uses.above(*low) {
                let others = maps.get(&high).into_iter().flatten();
                kin.entry(*low).or_default().extend(others.map(|map| (map.clone(), is_same)));
                if high != *low {
                    kin.entry(high).or_default().extend(own.iter().map(|map| (map.clone(), is_same)));
                }
            }
        }
        for slot in self.0.borrow().values() {
            let Some(own) = slot.own.get() else { continue };
            let is_other = |(map, is_same): &&(Rc<ChangeMap>, bool)| !(*is_same && Rc::ptr_eq(map, own));
            *slot.kin.borrow_mut() = kin.get(&slot.on.get()).into_iter().flatten().filter(is_other).cloned().collect();
        }
    }
}

impl Stack {
    /// Gives each export, and each mount that lies on a device, a volume of its own and a slot on the device behind it.
    pub(crate) fn place_exports(&self) -> Result<(), BuildError> {
        let (spec, parts) = (self.spec.borrow(), self.parts.borrow());
        for outlet in spec.outlets() {
            let number = parts.numbers.take();
            let number = number.ok_or_else(|| BuildError { at: outlet.at.clone(), what: NUMBERS_SPENT.to_string() })?;
            let on = parts.volume(outlet.device).expect("the device of an outlet was built");
            self.shared.exports.0.borrow_mut().insert(outlet.name.to_string(), Rc::new(ExportSlot::new(number, on)));
        }
        let snapshot = arrange(&self.shared, &parts, &spec, self.measured())?;
        drop((spec, parts));
        self.adopt(snapshot);
        Ok(())
    }

    /// [Tracks the changes](Export::track_changes) of several exports with the work of one.
    pub fn track_changes<'a>(&self, exports: impl IntoIterator<Item = &'a Export>) {
        let slots = exports.into_iter().filter_map(|export| Some((&**export.end.slot.as_ref()?, export.size())));
        self.shared.exports.track(slots, &self.snapshot.borrow());
    }

    /// Where requests for an export enter: the volume of its slot, which moves onto `on`, or `on` itself.
    pub(crate) fn entry(&self, export: &str, on: VolumeId) -> VolumeId {
        let Some(slot) = self.shared.exports.get(export) else { return on };
        slot.on.set(on);
        slot.volume()
    }
}

impl Export {
    /// What clients have asked of it, whichever front end they use. None unless the stack is built to be
    /// [served](Stack::build_served).
    pub fn reading(&self) -> Option<Reading> {
        Some(self.end.slot.as_ref()?.meter.reading())
    }

    /// The map of what is changed from now on. It lasts over live changes of layers. None unless the stack is built to
    /// be
    /// [served](Stack::build_served).
    ///
    /// Requests through this export mark it, from any front end. So do requests through other tracked exports of the
    /// same volume, or of a volume above or below it, and orders to layers below. Requests of layers to what is below
    /// them do not.
    pub fn track_changes(&self) -> Option<Rc<ChangeMap>> {
        let slot = self.end.slot.as_ref()?;
        if let Some(changes) = slot.own.get() {
            return Some(changes.clone());
        }
        self.stack().track_changes([self]);
        slot.own.get().cloned()
    }
}
