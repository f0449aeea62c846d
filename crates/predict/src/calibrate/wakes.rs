//! How late a task wakes that slept in the kernel.

use esker_base::Nanos;

use super::median;
use crate::calibration::times::{GROUPS, WHOLE};
use crate::error::PredictError;
use crate::measure::Latencies;
use crate::world::World;

/// Sleeps of a round, and how long each is: long enough that the reactor does not spin for all of it.
const SLEEPS: u32 = 400;
const SPAN: Nanos = Nanos::micros(250);

/// The lateness of each round, by group.
#[derive(Default)]
pub struct WakeBench(Vec<Vec<f64>>);

impl WakeBench {
    /// Sleeps once more.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn round(&mut self, seed: u64) -> Result<(), PredictError> {
        let world = World::real(seed)?;
        let rt = world.rt();
        let late = world.run("wakes", async move {
            let mut late = Latencies::new(3);
            for _ in 0..SLEEPS {
                let due = rt.now() + SPAN;
                rt.sleep_until(due).await;
                late.record(rt.now().since(due));
            }
            late
        })?;
        self.0.push(late.group_means(&GROUPS, WHOLE));
        Ok(())
    }

    /// The medians over the rounds.
    pub fn late(&self) -> Vec<f64> {
        (0..GROUPS.len()).map(|group| median(self.0.iter().map(|round| round[group])).round()).collect()
    }
}
