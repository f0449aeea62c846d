//! The conformance suite with a crash at every event, for a device that has a medium of its own.

use std::rc::Rc;

use esker_base::Stream;
use esker_block::Device;
use esker_block::conformance::{self, Options};
use esker_rt::{Rt, Sim, SimConfig};

use crate::crash::Count;
use crate::power::{Broken, content};
use crate::promise::{Lost, Promise};
use crate::recorder::{Journal, Recorder, bytes_of};

/// A medium, which outlives the worlds that write it, and the device over it.
pub trait Medium {
    /// The device, in a new world.
    fn open(&self, rt: &Rt) -> Rc<dyn Device>;

    /// Cuts the power after the last world was killed.
    fn cut(&self, rng: &mut Stream);
}

/// Runs the suite's plan once for each event of it, each time on a fresh medium. It kills the world at that event, cuts
/// the power and opens the device in a new world. Each block in the suite's windows must hold what was promised up to
/// then.
///
/// # Errors
/// The first broken promise; its point is the number of the event.
pub fn check<M: Medium>(fresh: impl Fn() -> M, options: Options) -> Result<Count, Broken> {
    let events = killed_at(&fresh(), options, u64::MAX)?;
    (0..=events).try_for_each(|event| killed_at(&fresh(), options, event).map(drop))?;
    Ok(Count { points: events + 1, exhaustive: 0, states: events + 2 })
}

/// One run, up to `event` at most, and what it left. Returns how many events happened.
fn killed_at(medium: &impl Medium, options: Options, event: u64) -> Result<u64, Broken> {
    let (seed, journal, sim) = (options.seed, Journal::default(), Sim::new(SimConfig::seeded(options.seed)));
    let device = medium.open(&sim.rt());
    let windows = conformance::windows(device.limits(), options.window);
    let before = content(&sim, device.clone(), windows.clone()).expect("a device that was just made can be read");
    let top = Recorder::above(&journal, device, before.clone());
    let start = sim.events();
    sim.stop_at_event(start.saturating_add(event));
    if let Ok(suite) = sim.try_block_on(conformance::run(sim.rt(), top, options)) {
        suite?;
    }
    let events = sim.events() - start;
    sim.kill();
    drop(sim);

    medium.cut(&mut Stream::named(seed, &format!("power cut at event {event}")));
    let sim = Sim::new(SimConfig::seeded(0));
    let after = content(&sim, medium.open(&sim.rt()), windows.clone());
    let after = after.map_err(|error| Broken::Unreadable { seed, point: event, error })?;
    let (before, after) = (|range| bytes_of(&before, range), |range| bytes_of(&after, range));
    let log = journal.top();
    // Nothing below counts events: all that is in the log happened before the kill.
    let promise = Promise::of(&log, 0);
    let judged = windows.iter().try_for_each(|window| promise.judge(*window, &before, &after));
    judged.map_err(|lost| Broken::Lost { seed, lost: Lost { point: event, ..lost } })?;
    Ok(events)
}
