//! `try-quick`: the main job on a part of its default input, twice. Then the program runs once as a user runs it.
//!
//! What it shows: that the comparison is deterministic, how fast virtual time passes, and what the verdict rests on.

use esker_predict::{Comparison, ComparisonPlan, Limit};

use crate::played::silent;
use esker_lab_kit::{
    Figure, Lab, LabError, peer,
    timing::{seconds, timed},
};

/// Requests of each trace that the quick run plays.
const PREFIX: u64 = 20_000;

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let mut plan = ComparisonPlan::embedded();
    plan.seed = lab.seed;
    if lab.quick {
        plan.limit = Limit { requests: Some(PREFIX), ..Limit::default() };
    }
    lab.say("first run");
    let (took, first) = timed(|| plan.clone().compare(&silent()));
    let first = first?;
    lab.say("second run");
    let again = plan.compare(&silent())?;
    lab.say("`esker try` by itself");
    let folder = lab.folder()?;
    let default_s = seconds(|| peer::own(&["try"], folder.path()).map(drop))?;
    let mut figures = figures(&first, took, first.to_json() == again.to_json());
    figures.push(Figure::alone("default_seconds", default_s, "s of real time"));
    Ok(figures)
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
