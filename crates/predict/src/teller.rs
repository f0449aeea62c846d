//! Counts the requests of a part of a comparison, and reports them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::Progress;

use crate::plan::Watch;

/// What is counted.
pub(crate) const REQUESTS: &str = "requests";

/// The requests of one part: a probe of the search for a speed, or the runs of a candidate.
pub(crate) struct Teller {
    watch: Watch,
    part: RefCell<String>,
    done: Cell<u64>,
    total: u64,
}

impl Teller {
    /// A part that plays so many requests.
    pub(crate) fn new(watch: &Watch, part: impl Into<String>, total: u64) -> Rc<Teller> {
        Rc::new(Teller { watch: watch.clone(), part: RefCell::new(part.into()), done: Cell::new(0), total })
    }

    /// Of a part that plays nothing.
    pub(crate) fn silent() -> Rc<Teller> {
        Teller::new(&(std::sync::Arc::new(|_: Progress<'_>| {}) as Watch), "", 0)
    }

    /// So many more are played.
    pub(crate) fn more(&self, more: u64) {
        self.done.set(self.done.get() + more);
        (self.watch)(Progress::of(&self.part.borrow(), REQUESTS, self.done.get(), self.total));
    }

    /// What is at hand, in the place of the part's name.
    pub(crate) fn at(&self, part: &str) {
        self.part.replace(part.to_string());
    }

    /// All of it is done, also what did not have to be played.
    pub(crate) fn end(&self) {
        self.more(self.total.saturating_sub(self.done.get()));
    }
}
