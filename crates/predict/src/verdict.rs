//! Which candidate is best, and why.
//!
//! The rule: of the candidates that keep up (not saturated, no failed request) and whose 99th percentile over all
//! requests is at most the target, the cheapest; of equally cheap ones the fastest. If none meets the target, the one
//! with the lowest 99th percentile among those that keep up, or among all if none does.

use esker_base::Nanos;
use serde::Serialize;

use crate::outcome::{CandidateRun, DeviceRun};

/// Which candidate is best, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Index of the best run.
    pub winner: usize,
    /// Its name.
    pub name: String,
    /// The target for the 99th percentile of all requests.
    pub target_p99_ns: u64,
    /// Whether the winner meets it.
    pub met: bool,
    /// The outcome in one sentence.
    pub headline: String,
    /// Why: a sentence for each candidate.
    pub reasons: Vec<String>,
    /// What would change it.
    pub changes: Vec<String>,
}

impl Verdict {
    /// Judges runs (at least one) by their 99th percentile against `target`; `remark` says at which load, unless it is
    /// the recorded one.
    pub fn of(runs: &[CandidateRun], target: Nanos, remark: Option<&str>) -> Verdict {
        let winner = choose(runs, target);
        let run = &runs[winner];
        let met = meets(run, target);
        Verdict {
            winner,
            name: run.name.clone(),
            target_p99_ns: target.0,
            met,
            headline: headline(run, target, met, remark),
            reasons: runs.iter().enumerate().map(|(at, other)| reason(other, run, at == winner, target)).collect(),
            changes: changes(runs, target),
        }
    }
}

fn keeps_up(run: &CandidateRun) -> bool {
    run.saturated.is_none() && run.failed == 0
}

pub(crate) fn meets(run: &CandidateRun, target: Nanos) -> bool {
    keeps_up(run) && run.all.p99() <= target
}

/// An unknown price counts as the highest.
fn price(run: &CandidateRun) -> f64 {
    run.price_usd.unwrap_or(f64::INFINITY)
}

fn choose(runs: &[CandidateRun], target: Nanos) -> usize {
    let all = || 0..runs.len();
    let p99 = |at: &usize| runs[*at].all.p99();
    let cheapest = all().filter(|at| meets(&runs[*at], target));
    let cheapest = cheapest.min_by(|a, b| price(&runs[*a]).total_cmp(&price(&runs[*b])).then(p99(a).cmp(&p99(b))));
    let fastest = || all().filter(|at| keeps_up(&runs[*at])).min_by_key(p99);
    cheapest.or_else(fastest).or_else(|| all().min_by_key(p99)).expect("there is at least one run")
}

fn money(run: &CandidateRun) -> String {
    run.price_usd.map_or("an unknown price".to_string(), |usd| format!("${usd:.0}"))
}

fn headline(run: &CandidateRun, target: Nanos, met: bool, remark: Option<&str>) -> String {
    let (name, what, p99) = (&run.name, &run.what, run.all.p99());
    let remark = remark.map_or(String::new(), |remark| format!(", {remark}"));
    match met {
        true => format!(
            "{name} ({what}): the cheapest candidate whose p99 is at most {target}{remark}; p99 {p99} for {}{}.",
            money(run),
            bears(run)
        ),
        false if keeps_up(run) => {
            format!(
                "{name} ({what}): no candidate has a p99 of at most {target}{remark}; this one is nearest, with {p99}."
            )
        }
        false => {
            format!("{name} ({what}): no candidate keeps up with the load{remark}; this one has the lowest p99, {p99}.")
        }
    }
}

/// How many times the load it bears, after a comma.
fn bears(run: &CandidateRun) -> String {
    run.headroom.map_or(String::new(), |headroom| format!(", {}", headroom.sentence()))
}

/// The 99th percentile of each kind of request that occurs.
fn by_operation(run: &CandidateRun) -> String {
    let kinds = [("reads", &run.reads), ("writes", &run.writes), ("flushes", &run.flushes)];
    let known = kinds.iter().filter(|(_, latency)| latency.requests > 0);
    known.map(|(name, latency)| format!("{name} {}", latency.p99())).collect::<Vec<_>>().join(", ")
}

/// Why this candidate was chosen or not.
fn reason(run: &CandidateRun, winner: &CandidateRun, is_winner: bool, target: Nanos) -> String {
    let facts = format!("{}: p99 {} ({}), {}{}", run.name, run.all.p99(), by_operation(run), money(run), bears(run));
    let judged = match (&run.saturated, run.failed) {
        _ if is_winner => "chosen".to_string(),
        (Some(why), _) => format!("not chosen: saturated, {why}"),
        (None, failed) if failed > 0 => {
            format!("not chosen: {failed} requests failed ({})", run.first_failure.as_deref().unwrap_or("unknown"))
        }
        _ if run.all.p99() > target => {
            format!("not chosen: its p99 is above the target of {target} by {}", run.all.p99() - target)
        }
        _ if run.price_usd.is_none() && winner.price_usd.is_some() => {
            format!("not chosen: meets the target too, but its price is not known to be below that of {}", winner.name)
        }
        _ if price(run) > price(winner) && price(run) < 1.1 * price(winner) => {
            let more = price(run) - price(winner);
            format!(
                "not chosen: meets the target too, but costs ${more:.0} more than {}{}",
                winner.name,
                beside(run, winner)
            )
        }
        _ if price(run) > price(winner) => format!(
            "not chosen: meets the target too, but costs {:.1} times as much as {}{}",
            price(run) / price(winner),
            winner.name,
            beside(run, winner)
        ),
        _ => format!("not chosen: costs the same as {}, but its p99 is higher", winner.name),
    };
    format!("{facts}; {judged}.")
}

/// That a candidate has the winner's devices, which suffice, and others beside them.
fn beside(run: &CandidateRun, winner: &CandidateRun) -> String {
    let profiles = |run: &CandidateRun| {
        let profile = |device: &DeviceRun| Some(device.product.as_ref()?.profile.clone());
        run.devices.iter().map(profile).collect::<Option<Vec<_>>>()
    };
    let (Some(mut all), Some(enough)) = (profiles(run), profiles(winner)) else { return String::new() };
    let mut has = |profile: &String| all.iter().position(|one| one == profile).map(|at| all.swap_remove(at)).is_some();
    let holds_all = !enough.is_empty() && enough.iter().all(&mut has);
    match holds_all && !all.is_empty() {
        true => format!(", whose devices suffice without {}", all.join(" and ")),
        false => String::new(),
    }
}

/// The targets at which another candidate would win: the choice is constant between the candidates' percentiles.
fn changes(runs: &[CandidateRun], target: Nanos) -> Vec<String> {
    let mut steps: Vec<Nanos> = runs.iter().filter(|run| keeps_up(run)).map(|run| run.all.p99()).collect();
    steps.sort();
    steps.dedup();
    let mut now = choose(runs, target);
    let mut told = Vec::new();
    for step in steps.iter().filter(|step| **step > target) {
        let then = choose(runs, *step);
        if then != now {
            told.push(format!("A target of {step} or more would choose {} ({}).", runs[then].name, money(&runs[then])));
            now = then;
        }
    }
    now = choose(runs, target);
    for step in steps.iter().rev().filter(|step| **step <= target) {
        let below = Nanos(step.0.saturating_sub(1));
        let then = choose(runs, below);
        if then != now {
            told.push(format!("A target below {step} would choose {} ({}).", runs[then].name, money(&runs[then])));
            now = then;
        }
    }
    if told.is_empty() {
        told.push("No target would change the choice.".to_string());
    }
    told
}

#[cfg(test)]
mod tests;
