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
        let above = snapshot.above(volume);
        tracked.for_each(|(slot, changes)| match above.get(usize::from(slot.on.get().0)).copied().flatten() {
            None => {}
            Some(true) => changes.mark(range),
            Some(false) => changes.mark_all(),
        });
    }

    /// The map of an export that stands on `volume`, if there is one.
    fn map_on(&self, volume: VolumeId) -> Option<Rc<ChangeMap>> {
        self.0.borrow().values().filter(|slot| slot.on.get() == volume).find_map(|slot| slot.own.get().cloned())
    }

    /// Finds out anew which exports stand on which others.
    pub(crate) fn relate(&self, snapshot: &Snapshot) {
        let slots = self.0.borrow();
        slots.values().for_each(|slot| slot.kin.borrow_mut().clear());
        let is_tracked = |slot: &&Rc<ExportSlot>| slot.own.get().is_some();
        for low in slots.values().filter(is_tracked) {
            let above = snapshot.above(low.on.get());
            for high in slots.values().filter(is_tracked).filter(|high| high.on != low.on) {
                let is_same = above.get(usize::from(high.on.get().0)).copied().flatten();
                is_same.into_iter().for_each(|is_same| connect(low, high, is_same));
            }
        }
    }
}

/// A change through either of the two is one of the other, too.
fn connect(low: &ExportSlot, high: &ExportSlot, is_same: bool) {
    for (slot, other) in [(low, high), (high, low)] {
        let map = other.own.get().cloned();
        map.into_iter().for_each(|map| slot.kin.borrow_mut().push((map, is_same)));
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
        let exports = &self.stack().shared.exports;
        let shared = exports.map_on(slot.on.get());
        let changes = shared.unwrap_or_else(|| Rc::new(ChangeMap::new(self.size())));
        slot.own.get_or_init(|| changes.clone());
        exports.relate(&self.stack().snapshot.borrow());
        Some(changes)
    }
}
