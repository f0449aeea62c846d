//! Exports whose changes are tracked: requests mark the map of the export by which they come in, orders those of all exports on
//! what they change.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use esker_block::{Bio, ChangeMap, Device, VolumeId};

use crate::snapshot::Snapshot;
use crate::stack::{End, Export};

/// What an export keeps about changes, if it is tracked.
#[derive(Default)]
pub(crate) struct Changes {
    own: OnceCell<Rc<ChangeMap>>,
    /// Maps of exports of other volumes that stand on this one or below it, and whether their bytes lie at the same places.
    kin: RefCell<Vec<(Rc<ChangeMap>, bool)>>,
}

impl Changes {
    /// Notes what a request through the export is about to change.
    #[inline]
    pub fn note(&self, bio: &Bio) {
        let Some(own) = self.own.get() else { return };
        if bio.changes_data() {
            own.note(bio);
            self.kin.borrow().iter().for_each(|(kin, is_same)| if *is_same { kin.note(bio) } else { kin.mark_all() });
        }
    }
}

/// The ends of a stack that have a map of changes.
#[derive(Default)]
pub(crate) struct Tracked(RefCell<Vec<Rc<End>>>);

impl Tracked {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Calls `act` with the volume to which each end leads now, and its map.
    pub fn each(&self, act: impl Fn(VolumeId, &ChangeMap)) {
        for end in self.0.borrow().iter() {
            end.changes.own.get().into_iter().for_each(|changes| act(end.volume.get(), changes));
        }
    }

    /// The map of an end that leads to `volume`, if there is one.
    fn of(&self, volume: VolumeId) -> Option<Rc<ChangeMap>> {
        self.0.borrow().iter().find(|end| end.volume.get() == volume)?.changes.own.get().cloned()
    }

    /// Finds out anew which exports stand on which others.
    pub fn relate(&self, snapshot: &Snapshot) {
        let ends = self.0.borrow();
        ends.iter().for_each(|end| end.changes.kin.borrow_mut().clear());
        for low in ends.iter() {
            let above = snapshot.above(low.volume.get());
            for high in ends.iter().filter(|high| high.volume != low.volume) {
                let is_same = above.get(high.volume.get().0 as usize).copied().flatten();
                is_same.into_iter().for_each(|is_same| connect(low, high, is_same));
            }
        }
    }
}

/// A change through either of the two is one of the other, too.
fn connect(low: &End, high: &End, is_same: bool) {
    for (end, other) in [(low, high), (high, low)] {
        let map = other.changes.own.get().cloned();
        map.into_iter().for_each(|map| end.changes.kin.borrow_mut().push((map, is_same)));
    }
}

impl Export {
    /// The map of what is changed from now on: by requests through this export, whichever front end they come from, by
    /// requests through other tracked exports of the same volume or of one above or below it, and by orders to what is below.
    /// It lasts over live changes of layers. Requests of layers to what is below them are none of these.
    pub fn track_changes(&self) -> Rc<ChangeMap> {
        let tracked = &self.stack().shared.tracked;
        let made = || tracked.of(self.end.volume.get()).unwrap_or_else(|| Rc::new(ChangeMap::new(self.size())));
        if let Some(changes) = self.end.changes.own.get() {
            return changes.clone();
        }
        let changes = self.end.changes.own.get_or_init(made).clone();
        tracked.0.borrow_mut().push(self.end.clone());
        tracked.relate(&self.stack().snapshot.borrow());
        changes
    }
}
