//! Fetches under way: a frame that two readers miss is read once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use esker_rt::sync::Notify;
use esker_vfs::Ino;

use crate::frames::{FrameId, ids};

/// One fetch of adjacent frames. Its readers wait for it.
#[derive(Default)]
pub(crate) struct Fetch(Notify);

impl Fetch {
    /// Waits for the end of the fetch, whatever came of it.
    pub(crate) async fn ended(&self) {
        self.0.wait().await;
    }

    pub(crate) fn end(&self) {
        self.0.notify_all();
    }
}

/// The fetch that reads each frame. A frame that is written or discarded meanwhile is taken out: what its fetch brings
/// is old then.
#[derive(Default)]
pub(crate) struct Fetches(BTreeMap<FrameId, Rc<Fetch>>);

impl Fetches {
    pub(crate) fn begin(&mut self, ino: Ino, nrs: &Range<u64>) -> Rc<Fetch> {
        let fetch = Rc::new(Fetch::default());
        self.0.extend(nrs.clone().map(|nr| (FrameId { ino, nr }, fetch.clone())));
        fetch
    }

    pub(crate) fn of(&self, id: FrameId) -> Option<Rc<Fetch>> {
        self.0.get(&id).cloned()
    }

    /// Whether `fetch` still reads the frame; afterwards it does not.
    pub(crate) fn take(&mut self, id: FrameId, fetch: &Rc<Fetch>) -> bool {
        let is_its = self.0.get(&id).is_some_and(|known| Rc::ptr_eq(known, fetch));
        if is_its {
            self.0.remove(&id);
        }
        is_its
    }

    /// What fetches bring of these frames is old.
    pub(crate) fn outdate(&mut self, ino: Ino, nrs: &Range<u64>) {
        let old = self.0.range(ids(ino, nrs)).map(|(id, _)| *id).collect::<Vec<_>>();
        for id in old {
            self.0.remove(&id);
        }
    }
}
