//! The races of online migration on this layer. Item 4.

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::split::LowerAddress;
use esker_block::step::LocalFuture;
use esker_block::{BioError, Device};
use esker_layer_kit::Io;
use esker_layer_kit::mover::{Grain, Outcome};
use esker_rt::Rt;
use esker_stack::Export;
use esker_testkit::races::{self, Mobile, RACES, Subject};
use esker_testkit::{bench, given};

use super::{KINDS, Sink};
use crate::engine::{HOLD_MAX, RELIEF_HOLD_MAX, Tier};
use crate::queue::Why;

const EXTENT: u64 = 4096;
/// Bytes of the map of a tier as small as this one, and of a label.
const MAP: u64 = 24 << 10;
const LABEL: u64 = 8 << 10;
/// Three extents on the first end.
const TEXT: &str = "a = given; b = given; vol = tier devices=\"ssd; sata\" extent=4KiB size=12KiB plan=none \
    throttle=false share=1 on a, b";

/// Moves with this grain: planned ones switch whole extents, relief switches units.
struct TierSubject(Grain);

impl Subject for TierSubject {
    fn name(&self) -> String {
        format!("tier with grain {:?}", self.0)
    }

    fn lowers(&self) -> [u64; 2] {
        [MAP + 4 * EXTENT, LABEL + 3 * EXTENT]
    }

    fn grain(&self) -> Grain {
        self.0
    }

    fn open(&self, rt: Rt, lowers: [Rc<dyn Device>; 2]) -> LocalFuture<Result<Rc<dyn Mobile>, String>> {
        let grain = self.0;
        Box::pin(async move {
            let sink = Sink::default();
            let vol = bench::open_with(&rt, KINDS, TEXT, &given(lowers).with(sink.clone()));
            vol.stack().opened().await;
            let why = || vol.stack().stats().into_iter().find_map(|part| part.unusable).unwrap_or_default();
            let tier = sink.tier().ok_or_else(why)?;
            Ok(Rc::new(Running { vol, tier, grain }) as Rc<dyn Mobile>)
        })
    }
}

struct Running {
    vol: Export,
    tier: Rc<Tier>,
    grain: Grain,
}

impl Mobile for Running {
    fn device(&self) -> Rc<dyn Device> {
        Rc::new(self.vol.clone())
    }

    fn extent(&self) -> u64 {
        EXTENT
    }

    fn unit(&self) -> u64 {
        self.tier.config.unit
    }

    fn place(&self, at: u64) -> LowerAddress {
        self.tier.placing.borrow().locate(at).place
    }

    fn start(&self, extent: u64) -> LocalFuture<Outcome> {
        let (tier, extent) = (self.tier.clone(), extent as u32);
        let why = if self.grain == Grain::Unit { Why::Relief } else { Why::Ordered };
        Box::pin(async move {
            let to = 1 - tier.placing.borrow().end_of(extent);
            tier.carry(extent, to, why).await
        })
    }

    fn hold_max(&self) -> Nanos {
        if self.grain == Grain::Unit { RELIEF_HOLD_MAX } else { HOLD_MAX }
    }

    fn cancel(&self) {
        self.tier.cancel_all();
    }

    fn free(&self) -> usize {
        let placing = self.tier.placing.borrow();
        (0..2).map(|end| placing.free(end) as usize).sum()
    }

    fn settle(&self) -> LocalFuture<Result<(), BioError>> {
        let tier = self.tier.clone();
        Box::pin(async move {
            tier.cancel_all();
            tier.moved.wait_until(|| tier.moving.borrow().is_empty()).await;
            let permit = tier.handle.get().unwrap().enter().await.expect("the stack goes on");
            tier.quiesce(&Io::new(&tier.rt, &tier.pool, permit.below().clone())).await
        })
    }
}

fn check_all(grain: Grain) {
    for race in RACES.iter().copied().flatten() {
        let states_max = if race.name == "random" { 0 } else { 12 };
        let count = races::check(&TierSubject(grain), race.name, states_max);
        assert!(states_max == 0 || count.states > 5, "{}: {count:?}", race.name);
    }
}

#[test]
fn every_race_of_whole_extents() {
    check_all(Grain::Whole);
}

#[test]
fn every_race_of_units() {
    check_all(Grain::Unit);
}
