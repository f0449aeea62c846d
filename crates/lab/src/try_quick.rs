//! `try-quick`: the main job on a part of its default input, twice.
//!
//! What it shows: that the comparison is deterministic, how fast virtual time passes, and what the verdict rests on.

use std::sync::Arc;
use std::time::Instant;

use esker_predict::{Comparison, ComparisonPlan, Limit, PredictError, Watch};

use crate::experiment::{Experiment, Figure, LabError, Options};

/// The record.
pub const EXPERIMENT: Experiment = Experiment {
    name: "try-quick",
    summary: "The default `esker try` on a prefix of its traces: verdict, determinism, speed of virtual time",
    source: "the project's main job; traces: blkreplay's linux-mysql and linux-webserver-2",
    simulated: true,
    rivals: &[],
    run,
};

/// Requests of each trace that the quick run plays.
const PREFIX: u64 = 20_000;

fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, LabError> {
    let mut plan = ComparisonPlan::embedded();
    plan.seed = options.seed;
    if options.quick {
        plan.limit = Limit { requests: Some(PREFIX), ..Limit::default() };
    }
    progress("first run");
    let start = Instant::now();
    let first = compare(&plan)?;
    let took = start.elapsed().as_secs_f64();
    progress("second run");
    let again = compare(&plan)?;
    Ok(figures(&first, took, first.to_json() == again.to_json()))
}

fn compare(plan: &ComparisonPlan) -> Result<Comparison, PredictError> {
    let watch: Watch = Arc::new(|_, _| {});
    plan.clone().compare(&watch)
}

fn figures(comparison: &Comparison, took: f64, same: bool) -> Vec<Figure> {
    let requests: u64 = comparison.runs.iter().map(|r| r.all.requests).sum();
    let slowest = comparison.runs.iter().map(|r| r.all.p99_ns).max().unwrap_or(0);
    let winner = comparison.winner();
    vec![
        Figure::alone("candidates", comparison.runs.len() as f64, "stacks"),
        Figure::alone("requests_played", requests as f64, "requests"),
        Figure::alone("first_candidate_busy", comparison.runs[0].busy.unwrap_or(0.0), "share of virtual time"),
        Figure::alone("winner_p99_ms", winner.all.p99_ns as f64 / 1e6, "ms (simulated)"),
        Figure::alone("worst_p99_ms", slowest as f64 / 1e6, "ms (simulated)"),
        Figure::alone("same_result_twice", f64::from(u8::from(same)), "1 if both runs agree byte for byte"),
        Figure::alone("elapsed_s", took, "s of real time"),
    ]
}
