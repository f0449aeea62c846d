//! The races of online migration (M1 to M19 of the design of movers), as scripted schedules in virtual time over any
//! layer that moves blocks. The lower devices do what the script says: they keep requests waiting, fail them, or are
//! lost. After each schedule, the layer is opened again over every state that a crash at any event could have left.
//!
//! Reading order: [`Subject`] (what is judged), [`valve`] (a lower device under a script), [`stage`] (what scripts are
//! written with), `copying`, `ending` and `crashing` (the scripts), [`plain`] (the least subject there is).

mod copying;
mod crashing;
mod ending;
pub mod plain;
mod random;
pub mod stage;
pub mod valve;

use std::rc::Rc;

use esker_base::Nanos;
use esker_block::split::LowerAddress;
use esker_block::step::LocalFuture;
use esker_block::store::SparseStore;
use esker_block::{BioError, Device};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_layer_kit::mover::{Grain, Outcome};
use esker_rt::{Rt, Sim, SimConfig};

use crate::crash::{self, Bound, Count, Image};
use crate::power::content;
use crate::promise::Promise;
use crate::recorder::{Journal, Recorder, bytes_of};

use stage::Stage;
use valve::{Valve, Valved};

/// A kind of layer that moves blocks between two lower devices.
pub trait Subject {
    /// What reports call it.
    fn name(&self) -> String;

    /// Bytes of its lower devices, whose blocks have 512 bytes.
    fn lowers(&self) -> [u64; 2];

    /// What one of its records switches.
    fn grain(&self) -> Grain;

    /// Opens it over its lower devices, whether they are blank, were left in good order or by a crash. On blank
    /// devices all its extents lie on the first. A kind of a stack text finds them as [`GIVEN`](crate::GIVEN).
    fn open(&self, rt: Rt, lowers: [Rc<dyn Device>; 2]) -> LocalFuture<Result<Rc<dyn Mobile>, String>>;
}

/// An open layer that moves blocks. Its copies are of class Background, its records of class Metadata and on the first
/// lower device.
pub trait Mobile {
    /// What its clients use.
    fn device(&self) -> Rc<dyn Device>;

    /// Bytes that move together: at least two units.
    fn extent(&self) -> u64;

    /// Bytes that are copied together: at least two blocks.
    fn unit(&self) -> u64;

    /// Where a byte lies now.
    fn place(&self, at: u64) -> LowerAddress;

    /// Moves an extent to the lower device that it is not on.
    fn start(&self, extent: u64) -> LocalFuture<Outcome>;

    /// The longest time for which it holds changes before it gives a hold up.
    fn hold_max(&self) -> Nanos;

    /// Cancels all moves; those that start later go on.
    fn cancel(&self);

    /// Extents for which there is room that a move may take now.
    fn free(&self) -> usize;

    /// Ends all moves and makes everything durable, as before a stop.
    fn settle(&self) -> LocalFuture<Result<(), BioError>>;
}

/// A schedule.
pub struct Race {
    /// Its number in the design.
    pub name: &'static str,
    /// What must hold.
    pub rule: &'static str,
    script: fn(Rc<Stage>) -> LocalFuture<()>,
}

/// All schedules.
pub static RACES: &[&[Race]] = &[copying::RACES, ending::RACES, crashing::RACES, random::RACES];

/// Runs one schedule on a subject, and then opens the subject over what crashes leave: at most `states_max` states of
/// each event, none with 0. Prints how many there were.
///
/// # Panics
/// If the subject breaks the rule or a promise, or there is no such schedule.
pub fn check(subject: &dyn Subject, name: &str, states_max: u64) -> Count {
    let race = RACES.iter().copied().flatten().find(|race| race.name == name);
    let race = race.unwrap_or_else(|| panic!("there is no race {name}"));
    let what = format!("{name}, {}: {}", subject.name(), race.rule);
    println!("{what}");
    let (journal, sim) = (Journal::default(), Sim::new(SimConfig::seeded(1)));
    let stage = raise(subject, &journal, &sim);
    let (first, script) = (journal.points(), race.script);
    let on = stage.clone();
    sim.block_on(async move {
        script(on.clone()).await;
        on.check_content().await;
    });
    if states_max == 0 {
        return Count::default();
    }
    let crashed = Crashed { subject, stage: &stage, what: &what };
    let (log, top) = (journal.top(), SparseStore::default());
    let mut promise = Promise::of(&log, first);
    let bound = Bound { states_max, seed: 1 };
    let count = crash::for_each_state_at(&journal, first..=journal.points(), bound, |point, images| {
        if promise.point() != point {
            promise = Promise::of(&log, point);
        }
        let after = crashed.reopened(point, images);
        let window = esker_base::span(0, stage.size());
        promise.judge(window, &|range| bytes_of(&top, range), &|range| bytes_of(&after, range))
    });
    let count = count.unwrap_or_else(|lost| panic!("{what}: {lost}"));
    println!("{} crash states", count.states);
    count
}

/// Opens a subject over blank devices and fills it.
fn raise(subject: &dyn Subject, journal: &Journal, sim: &Sim) -> Rc<Stage> {
    let rt = sim.rt();
    let valves = [Valve::new(&rt), Valve::new(&rt)];
    let lower = |i: usize| -> Rc<dyn Device> {
        let (media, latency) = (Media::new(subject.lowers()[i]), Nanos::micros(10 + 10 * i as u64));
        let leaf = Recorder::leaf(journal, &rt, &media, 512, Defer::Always(latency));
        Valved::over(leaf, &valves[i])
    };
    let opened = sim.block_on(subject.open(rt.clone(), [lower(0), lower(1)]));
    let mobile = opened.unwrap_or_else(|error| panic!("{}: it cannot be opened: {error}", subject.name()));
    let vol = Recorder::above(journal, mobile.device(), SparseStore::default());
    let stage = Rc::new(Stage::new(rt, valves, mobile, vol, subject.grain()));
    let on = stage.clone();
    sim.block_on(async move { on.fill().await });
    stage.lowers.iter().for_each(|valve| valve.forget());
    stage
}

/// What is judged after crashes.
struct Crashed<'a> {
    subject: &'a dyn Subject,
    stage: &'a Stage,
    what: &'a str,
}

impl Crashed<'_> {
    /// What the subject holds over `images`. All room is free that its extents do not need.
    fn reopened(&self, point: u64, images: &[Image]) -> SparseStore {
        let sim = Sim::new(SimConfig::seeded(0));
        let lower = |i: usize| -> Rc<dyn Device> {
            let media = Media::of(self.subject.lowers()[i], images[i].over(&SparseStore::default()));
            Rc::new(MemoryDevice::over(&sim.rt(), media, 512, Defer::Never))
        };
        let fail = |why: String| panic!("{}: crash before event {point}: {why}", self.what);
        let mobile = sim.block_on(self.subject.open(sim.rt(), [lower(0), lower(1)])).unwrap_or_else(fail);
        let free = mobile.free() + stage::split_extents(&*mobile);
        if free < self.stage.free_at_first() {
            fail(format!("{free} places are free or half used, {} before", self.stage.free_at_first()));
        }
        let windows = vec![esker_base::span(0, self.stage.size())];
        content(&sim, mobile.device(), windows).unwrap_or_else(|error| panic!("{}: {point}: {error}", self.what))
    }
}

#[cfg(test)]
mod tests;
