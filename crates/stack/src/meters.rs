//! Meters at the upper ports of parts. A meter is a slot of its own whose upper port is its lower device, so the loop
//! knows nothing of it, and a stack that is not measured pays nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::Nanos;
use esker_block::{
    Bio, Ctx, Done, Extension, Flow, Kind, KindError, Layer, Limits, Make, Meter, Reading, Step, Upper, VolumeId,
};

use crate::build::arrange;
use crate::live::LiveError;
use crate::snapshot::{Instance, Slot};
use crate::stack::Stack;

/// Which parts of a stack are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Measure {
    /// None.
    #[default]
    Off,
    /// The devices at the bottom.
    Devices,
    /// Devices and every upper port of every layer.
    All,
}

impl Measure {
    /// Whether a leaf, or else a layer, is measured.
    pub(crate) fn covers(self, is_leaf: bool) -> bool {
        match self {
            Measure::Off => false,
            Measure::Devices => is_leaf,
            Measure::All => true,
        }
    }

    /// Its word in commands and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Measure::Off => "off",
            Measure::Devices => "devices",
            Measure::All => "all",
        }
    }
}

/// Latencies are exact to a sixteenth.
pub(crate) const DIGITS: u8 = 1;

/// As measured for the layer `stats`.
static KIND: Kind = Kind { cost: Nanos(150), ..Kind::layer("meter", "Measures an upper port.", &[], refuse) };

fn refuse(_: &Make<'_>) -> Result<Layer, KindError> {
    Err(KindError::Unfit("meters are placed by the stack, not by its text".into()))
}

struct Gauge(Rc<Meter>);

impl Extension for Gauge {
    #[inline]
    fn issue(&self, ctx: &mut Ctx<'_>, bio: &mut Bio) -> Step<Flow> {
        ctx.scratch = self.0.begin(bio, ctx.rt.now());
        Step::Now(Flow::Down)
    }

    #[inline]
    fn complete(&self, ctx: &mut Ctx<'_>, done: &mut Done) {
        self.0.end(ctx.scratch, ctx.rt.now(), done.result.is_err());
    }
}

impl Stack {
    /// Chooses which parts are measured from now on.
    ///
    /// # Errors
    /// [`LiveError`]; the stack is then as before.
    pub async fn measure(&self, what: Measure, patience: Nanos) -> Result<(), LiveError> {
        if self.measured() == what {
            return Ok(());
        }
        let snapshot = arrange(&self.shared, &self.parts.borrow(), &self.spec(), what)?;
        self.drain(patience).await?;
        self.adopt(snapshot);
        self.measure.set(what);
        self.shared.admission.open();
        Ok(())
    }
}

/// The meters of a stack by the volume that they stand on. One that was made stays until its part is gone: requests may
/// still be inside, and its counts go on when it is put in again.
#[derive(Default)]
pub(crate) struct Meters(RefCell<BTreeMap<String, Placed>>);

/// A meter and the layer that it stands in a stack as.
type Placed = (Rc<Meter>, Rc<Instance>);

impl Meters {
    /// A slot that measures `volume`.
    pub(crate) fn slot(&self, name: &str, volume: VolumeId, limits: &Limits) -> Slot {
        let mut meters = self.0.borrow_mut();
        let (_, instance) = meters.entry(name.to_string()).or_insert_with(|| gauge(name, limits));
        Slot::new(instance.clone(), vec![volume], vec![volume])
    }

    /// What the meter on that volume has seen.
    pub(crate) fn reading(&self, name: &str) -> Option<Reading> {
        self.0.borrow().get(name).map(|(meter, _)| meter.reading())
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Forgets the meter of a volume that is gone.
    pub(crate) fn forget(&self, name: &str) {
        self.0.borrow_mut().remove(name);
    }
}

fn gauge(name: &str, limits: &Limits) -> (Rc<Meter>, Rc<Instance>) {
    let meter = Rc::new(Meter::new(DIGITS));
    let instance = see_through(format!("meter of {name}"), &KIND, Rc::new(Gauge(meter.clone())), limits);
    (meter, Rc::new(instance))
}

/// A layer whose one upper port is like its lower device, which has these limits.
pub(crate) fn see_through(name: String, kind: &'static Kind, ext: Rc<dyn Extension>, limits: &Limits) -> Instance {
    let uppers = vec![Upper { port: String::new(), limits: limits.clone() }];
    Instance::new(name, kind, ext, uppers, vec![limits.size])
}
