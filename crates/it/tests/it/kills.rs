//! Devices with a medium of their own keep what they answered, whenever their world is killed and the power cut.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::{Nanos, Stream};
use esker_block::conformance::Options;
use esker_block::{Args, Device, Make};
use esker_dev::{Defer, MemoryDevice};
use esker_dev_sim::array_model::{self, Array};
use esker_dev_sim::disk_model::{Disk, DiskModel, DiskSetup, DiskSpec};
use esker_dev_sim::nvm_model::{Nvm, NvmModel, NvmSpec};
use esker_dev_sim::ssd_model::ftl::{Cleaner, Moved};
use esker_dev_sim::ssd_model::{FtlSetup, Ssd, SsdModel, SsdSpec};
use esker_dev_sim::{Content, Setup};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_testkit::kill::{self, Medium};

const SIZE: u64 = 1 << 20;

/// Kills the world of `fresh` media at each event of so many runs.
fn check<M: Medium>(fresh: impl Fn() -> M, runs: u64) {
    let states =
        |seed| kill::check(&fresh, Options::power_cuts(seed)).unwrap_or_else(|broken| panic!("{broken}")).states;
    let states: u64 = (1..=runs).map(states).sum();
    println!("{states} states");
    assert!(states >= 83 * runs, "only {states} states of {runs} runs");
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
    check(|| Memory(esker_dev::Media::new(SIZE)), 6);
}

/// Builds a device of the setup, whose content is the media.
type Build = Rc<dyn Fn(&Rt, Setup) -> Rc<dyn Device>>;

/// A modelled device over media, and how much of what it wrote could be lost when the power was cut.
struct Modelled {
    media: Rc<esker_dev_sim::media::Media>,
    build: Build,
    cache: bool,
    lost_at_most: Rc<Cell<usize>>,
}

impl Medium for Modelled {
    fn open(&self, rt: &Rt) -> Rc<dyn Device> {
        let content = Content::Memory(self.media.clone());
        (self.build)(rt, Setup { size: SIZE, block: 512, depth: 8, cache: self.cache, content })
    }

    fn cut(&self, rng: &mut Stream) {
        self.lost_at_most.set(self.lost_at_most.get() + self.media.unsettled());
        self.media.power_cut(rng);
    }
}

/// Kills a modelled device with and without a volatile cache. One that loses no more with it than without has none.
fn check_model(runs: u64, build: impl Fn(&Rt, Setup) -> Rc<dyn Device> + 'static) {
    let build: Build = Rc::new(build);
    let [with, without] = [true, false].map(|cache| {
        let lost_at_most = Rc::new(Cell::new(0));
        let fresh = || Modelled {
            media: Rc::new(esker_dev_sim::media::Media::new(512)),
            build: build.clone(),
            cache,
            lost_at_most: lost_at_most.clone(),
        };
        check(fresh, runs);
        lost_at_most.get()
    });
    println!("{with} blocks could be lost with the cache, {without} without it");
    assert!(with > 2 * without, "the volatile cache loses nothing: {with} blocks with it, {without} without");
}

#[test]
fn the_disk_model_keeps_what_it_promised_with_and_without_its_cache() {
    check_model(6, |rt, common| {
        let parts = DiskSpec::profile("hdd-7200-2021").expect("a profile").parts().expect("its numbers fit");
        Rc::new(Disk::new(rt, DiskModel::new(parts), DiskSetup { common, age_max: Nanos::millis(500) }))
    });
}

/// A drive of few blocks, so that it collects while it is tried.
fn small_drive(rt: &Rt, setup: Setup) -> Rc<dyn Device> {
    let whole = SsdSpec::profile("ssd-sata-2021").expect("a profile");
    let spec = SsdSpec { capacity: 4 << 20, channels: 2, dies: 1, page: 16 << 10, erase_block: 64 << 10, ..whole };
    let spec = SsdSpec { spare: 0.3, buffer: 64 << 10, ..spec };
    let ftl = FtlSetup { cleaner: Cleaner::Greedy, moved: Moved::Apart, fill: 1.0, rng: Stream::seeded(1) };
    Rc::new(Ssd::new(rt, SsdModel::new(spec).expect("its numbers fit"), &ftl, setup, false))
}

#[test]
fn the_ssd_model_keeps_what_it_promised_with_and_without_its_cache() {
    check_model(3, |rt, setup| small_drive(rt, setup));
}

#[test]
fn the_nvm_model_keeps_what_it_promised_with_and_without_caches_above_it() {
    check_model(3, |rt, setup| {
        let spec = NvmSpec::profile("nvm-optane-2019").expect("a profile");
        Rc::new(Nvm::new(rt, NvmModel::new(spec).expect("its numbers fit"), setup))
    });
}

#[test]
fn the_array_model_keeps_what_it_promised_with_and_without_caches_in_its_members() {
    // Making its members takes more time than trying it.
    check_model(1, |rt, setup| {
        let cache = if setup.cache { "on" } else { "off" };
        let texts = [("size", "1MiB"), ("block", "512"), ("cache", cache), ("chunk", "4KiB"), ("members", "2")];
        let given = texts.map(|(name, value)| (name.to_string(), value.to_string()));
        let args = Args::read(&array_model::KIND, &BTreeMap::from(given)).expect("arguments that it has");
        let make = Make {
            rt,
            pool: &Pool::new(0),
            name: "array",
            args: &args,
            lowers: &[],
            created: &esker_block::Created::default(),
            env: &esker_block::Env::default(),
        };
        Rc::new(Array::new(&make, Some(setup.content)).expect("its numbers fit"))
    });
}
