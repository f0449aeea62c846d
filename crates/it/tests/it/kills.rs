//! Devices with a medium of their own keep what they answered, whenever their world is killed and the power cut.

use std::rc::Rc;

use esker_base::{Nanos, Stream};
use esker_block::Device;
use esker_block::conformance::Options;
use esker_dev::{Defer, MemoryDevice};
use esker_dev_sim::disk_model::{Disk, DiskModel, DiskSetup, DiskSpec};
use esker_dev_sim::{Content, Setup};
use esker_rt::Rt;
use esker_testkit::kill::{self, Medium};

const SIZE: u64 = 1 << 20;

/// Kills the world of `fresh` media at each event of several runs.
fn check<M: Medium>(fresh: impl Fn() -> M, states_min: u64) {
    let states =
        |seed| kill::check(&fresh, Options::power_cuts(seed)).unwrap_or_else(|broken| panic!("{broken}")).states;
    let states: u64 = (1..=6).map(states).sum();
    println!("{states} states");
    assert!(states >= states_min, "only {states} states");
}

struct Memory(Rc<esker_dev::Media>);

impl Medium for Memory {
    fn open(&self, rt: &Rt) -> Rc<dyn Device> {
        Rc::new(MemoryDevice::over(rt, self.0.clone(), 512, Defer::Always(Nanos::micros(5))))
    }

    fn cut(&self, _: &mut Stream) {}
}

#[test]
fn memory_keeps_what_it_answered() {
    check(|| Memory(esker_dev::Media::new(SIZE)), 500);
}

struct ModelledDisk {
    media: Rc<esker_dev_sim::media::Media>,
    cache: bool,
}

impl Medium for ModelledDisk {
    fn open(&self, rt: &Rt) -> Rc<dyn Device> {
        let content = Content::Memory(self.media.clone());
        let common = Setup { size: SIZE, block: 512, depth: 8, cache: self.cache, content };
        let parts = DiskSpec::profile("hdd-7200-2021").expect("a profile").parts().expect("its numbers fit");
        Rc::new(Disk::new(rt, DiskModel::new(parts), DiskSetup { common, age_max: Nanos::millis(500) }))
    }

    fn cut(&self, rng: &mut Stream) {
        self.media.power_cut(rng);
    }
}

#[test]
fn the_disk_model_keeps_what_it_promised_with_and_without_its_cache() {
    for cache in [true, false] {
        check(|| ModelledDisk { media: Rc::new(esker_dev_sim::media::Media::new(512)), cache }, 500);
    }
}
