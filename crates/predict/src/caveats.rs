//! What to know before quoting a figure of a comparison.

use esker_base::Nanos;

use crate::facts::{Facts, REPEAT_WINDOW};
use crate::feed::{Limit, Warm};
use crate::load::Load;
use crate::outcome::CandidateRun;

/// Repeats above this share of a trace are worth a word.
const REPEATS_NOTED: f64 = 0.01;

/// What was played, and what came of it.
pub(crate) struct Told<'a> {
    pub load: Load,
    pub limit: &'a Limit,
    pub fill: f64,
    /// How many times as fast as recorded the traces were played.
    pub factor: f64,
    /// Candidates whose layers learn.
    pub learning: Vec<&'a str>,
    pub facts: &'a [Facts],
    pub runs: &'a [CandidateRun],
}

/// A sentence or two for each thing to know.
pub(crate) fn of(told: &Told<'_>) -> Vec<String> {
    let (facts, runs) = (&Facts::of_traces(told.facts), told.runs);
    let mut out = vec![
        "All times, energies and prices are simulated in virtual time. How far such predictions were from the truth is told \
         for each class of devices."
            .to_string(),
        load(&told.load).to_string(),
        writes(facts).to_string(),
        drives(told.fill),
    ];
    out.extend(told.limit.warm.map(warm));
    out.extend(learning(told));
    out.extend(rest(told));
    out.extend(facts.iter().filter_map(|facts| timing(facts, &told.load)));
    out.extend(facts.iter().filter(|facts| !facts.has_operations).map(|facts| {
        format!("{}: {} tells no operations; all requests are played as reads.", facts.name, facts.format)
    }));
    out.extend(facts.iter().filter_map(unaligned));
    out.extend(facts.iter().filter_map(|facts| repeats(facts, told.limit)));
    let damage = |facts: &Facts| facts.damage.as_ref().map(|damage| format!("{}: {damage}", facts.name));
    out.extend(facts.iter().filter_map(damage));
    let fitted = |run: &CandidateRun| Some(run.fitted.text()).filter(|text| !text.is_empty());
    out.extend(runs.iter().filter_map(|run| Some(format!("{}: requests {}.", run.name, fitted(run)?))));
    out.extend(headroom(runs));
    out
}

fn load(load: &Load) -> &'static str {
    match load {
        Load::Open => {
            "Open loop: requests come at their recorded times divided by the speed, however slow the answers are. A real \
             program that waits for answers would ask for less when a device is slow."
        }
        Load::Steady { .. } => {
            "Open loop at a steady rate: requests come evenly, however slow the answers are. Real requests come in bursts, \
             which need more of a device."
        }
        Load::Closed { .. } => {
            "Closed loop: a request comes when an earlier one is answered, so recorded times do not matter, and a faster \
             stack is asked for more. Latencies count from the sending."
        }
    }
}

fn writes(facts: &[Facts]) -> &'static str {
    match facts.iter().any(|facts| facts.flushes > 0) {
        true => {
            "Writes are answered from volatile write caches; a flush waits until what was written before it is durable. Data \
             that a cache still holds at the end is not written out."
        }
        false => {
            "Writes are answered from volatile write caches, and the traces hold no flush: programs that wait until writes \
             are durable wait longer. Data that a cache still holds at the end is not written out."
        }
    }
}

fn drives(fill: f64) -> String {
    match fill {
        0.0 => "Solid-state drives are new unless a stack says otherwise: no write waits for collected blocks yet. --fill 1 \
                predicts drives that were written in full before."
            .to_string(),
        fill => format!(
            "Solid-state drives had {:.0} % of their capacity written before, unless a stack says otherwise.",
            fill * 100.0
        ),
    }
}

fn warm(warm: Warm) -> String {
    let played = match warm {
        Warm::Span(span) => format!("Requests before {span} of recorded time were"),
        Warm::Once => "Each trace was played twice; the first time was".to_string(),
    };
    format!("{played} played to warm up, and no figure counts them, but the failed ones and those that did not fit.")
}

/// That layers which learn have seen the traces before.
fn learning(told: &Told<'_>) -> Option<String> {
    let names = told.learning.join(", ");
    (told.limit.warm.is_none() && !names.is_empty()).then(|| {
        format!("{names}: the traces were played twice, and only the second time counts, because their layers learn.")
    })
}

/// That disks rest less than at the recorded speed.
fn rest(told: &Told<'_>) -> Option<String> {
    (told.factor > 1.0 && !told.learning.is_empty()).then(|| {
        format!(
            "Energy is that at {:.3} times the recorded speed, at which disks rest less. Judge layers that let disks rest with --speed 1.",
            told.factor
        )
    })
}

fn timing(facts: &Facts, load: &Load) -> Option<String> {
    match (facts.time_step_ns, load) {
        (None, Load::Closed { .. }) => Some(format!(
            "{}: {} has no times, so each request was sent after the answer to an earlier one; --rate N plays N requests a \
             second.",
            facts.name, facts.format
        )),
        (Some(step), Load::Open) if step >= Nanos::secs(1).0 => Some(format!(
            "{}: {} has times in steps of {}; the requests of one step were spread evenly over it.",
            facts.name,
            facts.format,
            Nanos(step)
        )),
        _ => None,
    }
}

fn headroom(runs: &[CandidateRun]) -> Option<String> {
    let requests = runs.iter().find_map(|run| run.headroom?.requests)?;
    Some(format!("Headroom was searched on the first {requests} requests of each trace."))
}

fn repeats(facts: &Facts, limit: &Limit) -> Option<String> {
    let share = facts.share(facts.repeats);
    let handled = match limit.dedup_window {
        None => "They were played as recorded; --dedup-window 1ms leaves them out.",
        Some(_) => "They remain although repeats inside the window were left out.",
    };
    (share > REPEATS_NOTED).then(|| {
        format!(
            "{}: {} of {} requests ({:.1} %) repeat range and operation of one less than {REPEAT_WINDOW} before, which is \
             typical of a converter that kept both the queueing and the dispatch of a request. {handled}",
            facts.name,
            facts.repeats,
            facts.requests,
            share * 100.0
        )
    })
}

fn unaligned(facts: &Facts) -> Option<String> {
    (facts.unaligned > 0).then(|| {
        format!(
            "{}: {} of {} requests ({:.1} %) do not begin and end at multiples of 4 KiB, the block of the models unless they \
             are told another. Over such blocks an unaligned read takes the whole blocks around it, and an unaligned write \
             pays for reading, changing and writing back those that it fills in part.",
            facts.name,
            facts.unaligned,
            facts.requests,
            facts.share(facts.unaligned) * 100.0
        )
    })
}
