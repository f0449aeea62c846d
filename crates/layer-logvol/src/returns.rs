//! Dead nodes of the map, which no tree has any more: what they refer to is given back in the background, so that a
//! deletion takes no time for what it deletes.
//!
//! Until then their blocks count as live. So dead nodes are given back at once before a checkpoint, which frees what is
//! dead, and before a writer hears that there is no space.

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{LayerHandle, WorkPermit};
use esker_layer_kit::Then;

use crate::volume::Volume;

/// Nodes that are given back at once: so few that no request waits for long.
const AT_ONCE: usize = 64;

/// Gives dead nodes back in the background, until the volume leaves its stack.
pub(crate) async fn run(volume: Rc<Volume>, handle: LayerHandle) {
    let due = || volume.map.borrow().has_dead().then_some((Nanos::ZERO, ()));
    let work = async |_job: WorkPermit, ()| {
        volume.give_back_all().await;
        // Segments may be dead now.
        volume.note_space();
        volume.checkpoints.wake();
        Then::Again
    };
    volume.returns.run((volume.rt(), Some(&volume.latch)), &handle, due, work).await;
}

impl Volume {
    /// Gives back all dead nodes, a few at a time.
    pub(crate) async fn give_back_all(&self) {
        while self.give_back_some() {
            self.rt().yield_now().await;
        }
    }

    /// Gives back a few dead nodes. False if there are no others.
    pub(crate) fn give_back_some(&self) -> bool {
        let released = self.segments.borrow().released();
        let mut map = self.map.borrow_mut();
        map.give_back(AT_ONCE, &mut |change| self.count(change));
        // Most of what a copied leaf refers to lives on in the other copy: the collector is not to look for it.
        self.segments.borrow_mut().limit_released(released + AT_ONCE as u64);
        map.has_dead()
    }
}
