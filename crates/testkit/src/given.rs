//! A device of a stack text that a test made before: for stacks whose lower devices a test has in its hands.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use esker_block::{Build, Device, Env, Kind, KindError, Make};
use esker_dev::memory;

/// The manifest. The devices of a text get those of the environment in the order in which they are built, which is
/// that of the text.
pub static GIVEN: Kind = Kind {
    name: "given",
    summary: "Is a device that the test has made.",
    params: &[],
    needs_bytes: false,
    stats: &[],
    build: Build::Device(build),
    ..memory::KIND
};

/// The devices that are left.
struct Given(RefCell<VecDeque<Rc<dyn Device>>>);

/// The environment of a stack whose devices of kind [`GIVEN`] are these.
pub fn given(devices: impl IntoIterator<Item = Rc<dyn Device>>) -> Env {
    Env::of(Given(RefCell::new(devices.into_iter().collect())))
}

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let next = make.env.get::<Given>().and_then(|given| given.0.borrow_mut().pop_front());
    next.ok_or_else(|| KindError::Outside(format!("no device is given for {}", make.name)))
}

#[cfg(test)]
mod tests {
    use esker_dev::{Defer, Media, MemoryDevice};
    use esker_rt::{Sim, SimConfig};

    use super::*;
    use crate::bench;

    static KINDS: &[&Kind] = &[&GIVEN];

    #[test]
    fn a_stack_uses_the_devices_that_it_is_given() {
        let sim = Sim::new(SimConfig::seeded(1));
        let media = [Media::new(8192), Media::new(4096)];
        let device = |media: &Rc<Media>| -> Rc<dyn Device> {
            Rc::new(MemoryDevice::over(&sim.rt(), media.clone(), 512, Defer::Never))
        };
        let vol = bench::open_with(&sim.rt(), KINDS, "vol = given; b = given", &given(media.iter().map(device)));
        assert_eq!(vol.limits().size, 8192);
        sim.block_on(async move { bench::write(&vol, 512, &[7; 512]).await });
        assert_eq!(media[0].bytes(esker_base::span(512, 512)), [7; 512]);
        assert!(bench::try_open(&sim.rt(), KINDS, "vol = given").is_err_and(|why| why.contains("no device is given")));
    }
}
