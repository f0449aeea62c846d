//! Which candidates no other one beats in everything.

use crate::outcome::CandidateRun;

/// Price, 99th percentile, time per request and energy per request: less is better. What is unknown counts as the
/// worst.
fn figures(run: &CandidateRun) -> [f64; 4] {
    let per_request = |x: f64| x / run.all.requests.max(1) as f64;
    [
        run.price_usd.unwrap_or(f64::INFINITY),
        run.all.p99_ns as f64,
        if run.requests_per_s > 0.0 { run.requests_per_s.recip() } else { f64::INFINITY },
        run.energy_j.map_or(f64::INFINITY, per_request),
    ]
}

fn beats(one: &CandidateRun, other: &CandidateRun) -> bool {
    let pairs = || figures(one).into_iter().zip(figures(other));
    pairs().all(|(a, b)| a <= b) && pairs().any(|(a, b)| a < b)
}

/// Names of the runs that keep up and that no other such run beats (V. Pareto, *Manuale di economia politica*, 1906).
pub(crate) fn front(runs: &[CandidateRun]) -> Vec<String> {
    let sound = || runs.iter().filter(|run| run.saturated.is_none() && run.failed == 0);
    sound().filter(|run| !sound().any(|other| beats(other, run))).map(|run| run.name.clone()).collect()
}
