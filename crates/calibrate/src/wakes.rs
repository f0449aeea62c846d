//! How late a task wakes that waited for an instant.

use esker_base::{Nanos, Stream};
use esker_predict::calibration::Wake;
use esker_predict::{Latencies, PredictError};
use esker_rt::Rt;
use esker_rt::real::{Reactor, RealConfig};

use super::{Round, pooled_groups};

/// Mean waits of a round, and how many of each. They are drawn as gaps between independent arrivals are, because
/// kernels and hosts learn from equal waits when to stay awake.
const WAITS: [(Nanos, u32); 4] =
    [(Nanos::micros(100), 600), (Nanos::micros(400), 300), (Nanos::micros(1600), 100), (Nanos::micros(6400), 40)];
/// Waits up to this are told together, from the end of the row before; the first ones are those without the kernel. The
/// longer a CPU was idle, the later it is back.
const UP_TO: [Nanos; 5] =
    [Nanos::micros(50), Nanos::micros(200), Nanos::micros(800), Nanos::micros(3200), Nanos::micros(12_800)];

/// The lateness of each round, by row of [`UP_TO`].
#[derive(Default)]
pub(crate) struct WakeBench(Vec<Vec<Latencies>>);

impl WakeBench {
    /// Steps of a round.
    pub(crate) const STEPS: usize = WAITS.len();

    /// Waits once more; each step is told to `watch` before.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn round(&mut self, round: Round, watch: &mut dyn FnMut(&str)) -> Result<(), PredictError> {
        let world = Reactor::new(RealConfig::seeded(round.seed))?;
        // As models do, which these are for.
        world.rt().use_precise_timers();
        let mut rows = no_rows();
        for (mean, times) in WAITS {
            watch("wakes");
            let waits = || waits(world.rt(), Stream::named(round.seed ^ mean.0, "wakes"), mean, times);
            let late = round.sample(|| Ok::<_, PredictError>(world.block_on(waits())))?;
            for (all, more) in rows.iter_mut().zip(late) {
                all.add(&more);
            }
        }
        self.0.push(rows);
        Ok(())
    }

    /// Over all rounds.
    pub(crate) fn wakes(&self) -> Vec<Wake> {
        let row =
            |at: usize| Wake { span_ns: UP_TO[at].0 / 2, late_ns: pooled_groups(self.0.iter().map(|rows| &rows[at])) };
        (0..UP_TO.len()).map(row).collect()
    }
}

fn no_rows() -> Vec<Latencies> {
    UP_TO.iter().map(|_| Latencies::new(3)).collect()
}

async fn waits(rt: Rt, mut random: Stream, mean: Nanos, times: u32) -> Vec<Latencies> {
    let mut rows = no_rows();
    for _ in 0..times {
        let span = Nanos((random.exponential() * mean.0 as f64) as u64).min(UP_TO[UP_TO.len() - 1]);
        let due = rt.now() + span;
        rt.sleep_until(due).await;
        rows[UP_TO.partition_point(|bound| *bound < span)].record(rt.now().since(due));
    }
    rows
}
