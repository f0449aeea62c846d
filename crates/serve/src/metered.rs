//! Meters at the doors of exports: what clients ask, and how long they wait, whichever way they come.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_block::{Bio, BioError, Device, Done, Limits, Meter, Reading, Step};
use esker_stack::Export;

/// Latencies are exact to a sixteenth.
const DIGITS: u8 = 1;

/// The meters of a stack's exports, by name.
#[derive(Default)]
pub(crate) struct Meters(RefCell<BTreeMap<String, Rc<Meter>>>);

impl Meters {
    /// `export` with the meter of its name.
    pub fn on(&self, name: &str, export: Export) -> Metered {
        let mut meters = self.0.borrow_mut();
        let meter = meters.entry(name.to_string()).or_insert_with(|| Rc::new(Meter::new(DIGITS)));
        Metered { export, meter: meter.clone() }
    }

    /// What the meter of an export has seen.
    pub fn reading(&self, name: &str) -> Reading {
        self.0.borrow().get(name).map(|meter| meter.reading()).unwrap_or_default()
    }
}

/// An export whose requests are counted and timed from the moment at which a front end has them.
pub struct Metered {
    export: Export,
    meter: Rc<Meter>,
}

impl Metered {
    /// Whether changes are refused.
    pub fn is_read_only(&self) -> bool {
        self.export.is_read_only()
    }
}

impl Device for Metered {
    fn limits(&self) -> &Limits {
        self.export.limits()
    }

    fn size(&self) -> u64 {
        self.export.size()
    }

    fn is_read_only(&self) -> bool {
        self.export.is_read_only()
    }

    fn can_resize(&self) -> bool {
        self.export.can_resize()
    }

    fn resize(&self, bytes: u64) -> Step<Result<(), BioError>> {
        self.export.resize(bytes)
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        let rt = self.export.stack().rt();
        let mark = self.meter.begin(&bio, rt.now());
        match self.export.submit(bio) {
            Step::Now(done) => {
                self.meter.end(mark, rt.now(), done.result.is_err());
                Step::Now(done)
            }
            step => {
                let (meter, rt) = (self.meter.clone(), rt.clone());
                Step::later(async move {
                    let done = step.await;
                    meter.end(mark, rt.now(), done.result.is_err());
                    done
                })
            }
        }
    }
}
