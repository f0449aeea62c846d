//! `growth`: how costs grow with the work.
//!
//! Each of the main jobs is done at several sizes. The figure is the exponent of its cost over the size: the slope of
//! a line through the logarithms of both, by least squares. A cost is CPU time, which other programs hardly change,
//! and of several repetitions the least one counts, so that a busy host does not decide. Nothing is subtracted; the
//! smallest size takes some milliseconds, so that what does not grow hardly counts. 1 is linear; a job whose last
//! half costs more than its first half for each piece is above 1.15.
//!
//! - `try_overload_cpu`, `try_overload_unaligned_cpu`: `esker try` with requests that come all at once, over their
//!   number.
//! - `try_requests_cpu`: the same with requests that a device can serve as they come.
//! - `serve_layers_cpu`, `serve_exports_cpu`: the start of `esker serve`, over layers in chains of 32, and over
//!   exports.
//! - `live_changes_cpu`, `live_changes_memory`: layers that are put into a served stack and taken out, over their
//!   number.
//! - `volumes_create_cpu`, `volumes_list_cpu`: volumes that are made, and a list of them, over their number.
//! - `compose_12_seconds`: the best order of twelve extensions, each over all of eight volumes, and its explanation.

mod composed;
mod named;
mod served;
mod tried;

use std::collections::BTreeMap;

use crate::ingens::thread_cpu;
use esker_lab_kit::{Figure, Lab, LabError, timing};

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let rounds = lab.scale(3, 9);
    let tried = tried::figures(rounds, lab)?;
    let others = [served::starts(rounds, lab)?, served::changes(rounds, lab)?, named::figures(rounds, lab)?];
    let composed = composed::figure(rounds, lab)?;
    Ok(tried.into_iter().chain(others.into_iter().flatten()).chain([composed]).collect())
}

/// What a job costs at each size: the least that was seen.
#[derive(Default)]
struct Series(BTreeMap<u64, f64>);

impl Series {
    /// The costs of a job, done so often at each size.
    fn of(rounds: u32, sizes: &[u64], cost: impl Fn(u64) -> Result<f64, LabError>) -> Result<Series, LabError> {
        let mut series = Series::default();
        for size in (0..rounds).flat_map(|_| sizes) {
            series.note(*size, cost(*size)?);
        }
        Ok(series)
    }

    /// Notes what the job has cost once.
    fn note(&mut self, size: u64, cost: f64) {
        let least = self.0.entry(size).or_insert(cost);
        *least = least.min(cost);
    }

    /// The slope of the line through the logarithms of sizes and costs (least squares).
    ///
    /// # Panics
    /// If there are fewer than two sizes, or a size or cost is not above zero.
    fn exponent(&self) -> f64 {
        timing::exponent(&self.0.iter().map(|(size, cost)| (*size as f64, *cost)).collect::<Vec<_>>())
    }

    /// The exponent as a figure; the costs are told, in `unit`.
    fn figure(&self, id: &'static str, unit: &str, lab: &Lab<'_>) -> Figure {
        let costs: Vec<String> = self.0.iter().map(|(size, cost)| format!("{size}: {cost:.3}")).collect();
        let exponent = self.exponent();
        lab.say(format!("{id}: {exponent:.2}, from {} {unit}", costs.join(", ")));
        Figure::alone(id, exponent, "exponent")
    }
}

/// Milliseconds of this thread's CPU time that `work` takes.
fn cpu_ms<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let before = thread_cpu();
    let result = work();
    ((thread_cpu() - before).as_secs_f64() * 1e3, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(cost: impl Fn(f64) -> f64) -> Series {
        let mut series = Series::default();
        [1000, 2000, 4000, 8000].into_iter().for_each(|size| series.note(size, cost(size as f64)));
        series
    }

    #[test]
    fn the_exponent_of_a_power_is_its_exponent() {
        for exponent in [0.0, 0.5, 1.0, 1.6, 3.0] {
            let found = series(|size| 0.25 * size.powf(exponent)).exponent();
            assert!((found - exponent).abs() < 1e-9, "{exponent}: {found}");
        }
    }

    #[test]
    fn a_part_that_does_not_grow_lowers_the_exponent_and_one_that_grows_faster_lifts_it() {
        assert!(series(|size| 500.0 + size).exponent() < 0.9);
        assert!(series(|size| size + size * size / 8000.0).exponent() > 1.25);
        assert!((series(|size| size * size.log2()).exponent() - 1.125).abs() < 0.01, "sorting is within the bar");
    }

    #[test]
    fn of_several_costs_of_one_size_the_least_counts() {
        let mut series = series(|size| size);
        series.note(8000, 9000.0);
        assert!((series.exponent() - 1.0).abs() < 1e-9);
        series.note(8000, 4000.0);
        assert!(series.exponent() < 0.8);
    }

    #[test]
    fn cpu_time_is_that_of_the_work() {
        let (short, long) = (cpu_ms(|| spin(100_000)).0, cpu_ms(|| spin(10_000_000)).0);
        assert!(short > 0.0 && long > 2.0 * short, "{short} {long}");
    }

    fn spin(rounds: u64) -> u64 {
        (0..rounds).fold(1, |sum, round| std::hint::black_box(sum ^ round))
    }
}
