//! From what players did to a report.

use std::collections::BTreeMap;

use esker_trace_calls::wire::Field;
use esker_trace_order::compiled::{Notes, Program};
use esker_trace_order::rules::Order;

use crate::check::{expected, told};
use crate::kernel::{ExchangeBy, FsyncMeans, KernelOptions};
use crate::player::{Deviation, Played, Stamp};
use crate::replay::Finished;
use crate::report::behaviour::Behaviour;
use crate::report::measure::{self, Span};
use crate::report::{
    Adapted, How, Initialised, LISTED_MAX, Mismatch, Mismatches, Report, Target, ThreadTime, TreeDifferences, VERSION,
};
use crate::script::Script;

/// Longest call in a report, in characters.
const CALL_MAX: usize = 200;

/// What a report says beside what was measured.
pub struct Heading {
    /// Name of the trace.
    pub trace: String,
    /// The run directory.
    pub dir: String,
    /// How the tree was made.
    pub init: Option<Initialised>,
    /// The choices of the target.
    pub options: KernelOptions,
    /// How the tree differs from the one that the program left.
    pub tree_differences: TreeDifferences,
}

/// The report of a finished replay.
pub fn report(finished: &Finished, heading: &Heading) -> Report {
    let script = &finished.script;
    let spans: Vec<Span> = finished.played.iter().flat_map(|played| spans(script, &played.stamps)).collect();
    let first_ns = spans.iter().map(|span| span.issue_ns).min().unwrap_or(0);
    let elapsed_ns = spans.iter().map(|span| span.done_ns).max().unwrap_or(0) - first_ns;
    let sum = |of: fn(&Span) -> u64| spans.iter().map(of).sum::<u64>();
    let (busy_ns, traced_busy_ns) = (sum(|span| span.done_ns - span.issue_ns), sum(|span| span.traced_ns));
    let traced_ns = traced_ns(script.program());
    let from_start: Vec<Span> = spans
        .iter()
        .map(|span| Span { issue_ns: span.issue_ns - first_ns, done_ns: span.done_ns - first_ns, ..*span })
        .collect();
    let mut adapted = finished.tally.list();
    adapted.extend(tolerated(&finished.played));
    adapted.extend(heading.init.iter().flat_map(|init| init.adapted.clone()));
    Report {
        version: VERSION,
        trace: heading.trace.clone(),
        target: Target { dir: heading.dir.clone(), file_system: finished.file_system.clone() },
        how: how(script, heading.options),
        init: heading.init.clone(),
        elapsed_ns,
        traced_ns,
        repeats_ns: vec![elapsed_ns],
        threads: threads(script, &finished.played, elapsed_ns),
        calls: measure::by_call(&spans),
        categories: measure::by_category(&spans),
        behaviour: Behaviour::of(&from_start, elapsed_ns),
        outstanding_mean: measure::outstanding_mean(busy_ns, elapsed_ns),
        traced_outstanding_mean: measure::outstanding_mean(traced_busy_ns, traced_ns),
        outstanding: measure::outstanding(&from_start, elapsed_ns),
        mismatches: mismatches(script, &finished.played),
        tree_differences: heading.tree_differences.clone(),
        adapted,
        stopped: finished.stuck.as_ref().map(ToString::to_string),
        resident_bytes: resident_bytes(),
        simulated: None,
        prediction: None,
        no_prediction: None,
        left_out: script.left_out(),
    }
    .with_prediction()
}

fn how(script: &Script, options: KernelOptions) -> How {
    let rules = match script.order() {
        Order::Root(rules) => rules.to_string(),
        _ => "none".to_string(),
    };
    let fsync = match options.fsync {
        FsyncMeans::Durable => "durable",
        FsyncMeans::Device => "device",
    };
    let exchange = match options.exchange {
        ExchangeBy::Link => "link",
        ExchangeBy::Rename => "atomic",
    };
    How {
        mode: script.order().name().to_string(),
        rules,
        speed: script.speed().to_string(),
        fsync: fsync.to_string(),
        exchange: exchange.to_string(),
    }
}

/// From the first entry to the last return.
fn traced_ns(program: &Program) -> u64 {
    let instants = program.outline().instants();
    let first = instants.iter().map(|instant| instant.enter).min().unwrap_or(0);
    instants.iter().map(|instant| instant.leave).max().unwrap_or(0) - first
}

/// Calls that were made.
fn spans<'a>(script: &'a Script, stamps: &'a [Stamp]) -> impl Iterator<Item = Span> + 'a {
    stamps.iter().filter(|stamp| stamp.called).map(|stamp| {
        let (step, instant) = (script.step(stamp.action), script.program().instant(stamp.action));
        Span {
            call: step.call.name(),
            category: step.call.category(),
            waits: step.notes.contains(Notes::WAITS),
            issue_ns: stamp.issue_ns,
            done_ns: stamp.done_ns,
            traced_ns: instant.leave - instant.enter,
        }
    })
}

fn threads(script: &Script, played: &[Played], elapsed_ns: u64) -> Vec<ThreadTime> {
    let time = |(player, played): (usize, &Played)| {
        let called = || played.stamps.iter().filter(|stamp| stamp.called);
        let busy_ns = called().map(|stamp| stamp.done_ns - stamp.issue_ns).sum();
        let thread = match script.order() {
            Order::Single => "all".to_string(),
            _ => thread_name(script.program(), player as u32),
        };
        let spent = busy_ns + played.waiting_ns + played.delay_ns;
        ThreadTime {
            thread,
            actions: played.stamps.len() as u64,
            busy_ns,
            waiting_ns: played.waiting_ns,
            delay_ns: played.delay_ns,
            idle_ns: elapsed_ns.saturating_sub(spent),
            first_ns: called().map(|stamp| stamp.issue_ns).min().unwrap_or(0),
            last_ns: called().map(|stamp| stamp.done_ns).max().unwrap_or(0),
        }
    };
    played.iter().enumerate().map(time).collect()
}

/// What the trace calls a thread.
pub fn thread_name(program: &Program, thread: u32) -> String {
    let player = &program.players()[thread as usize];
    match player.name.as_bytes() {
        b"" => player.tid.to_string(),
        _ => format!("{} {}", player.tid, player.name),
    }
}

/// An action's call for people, cut if it is long.
pub fn call_text(script: &Script, action: u32) -> String {
    let mut text = String::new();
    script.step(action).call.render(&mut text);
    if let Some((end, _)) = text.char_indices().nth(CALL_MAX) {
        text.truncate(end);
        text.push_str("...");
    }
    text
}

fn mismatches(script: &Script, played: &[Played]) -> Mismatches {
    let made = played.iter().flat_map(|played| &played.stamps).filter(|stamp| stamp.called).count();
    let all = played.iter().flat_map(|played| &played.deviations);
    let mut differing: Vec<&Deviation> = all.filter(|deviation| deviation.tolerated.is_none()).collect();
    differing.sort_by_key(|deviation| deviation.action);
    let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
    for deviation in &differing {
        *calls.entry(script.step(deviation.action).call.name()).or_default() += 1;
    }
    let mut by_call: Vec<(String, u64)> = calls.into_iter().map(|(call, count)| (call.to_string(), count)).collect();
    by_call.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let listed = differing.iter().take(LISTED_MAX).map(|deviation| mismatch(script, deviation)).collect();
    Mismatches { count: differing.len() as u64, compared: made as u64, by_call, listed }
}

fn mismatch(script: &Script, deviation: &Deviation) -> Mismatch {
    let step = script.step(deviation.action);
    let answer = deviation.answer;
    Mismatch {
        action: deviation.action.into(),
        thread: thread_name(script.program(), script.place(deviation.action).thread),
        call: call_text(script, deviation.action),
        expected: expected(step),
        actual: told(answer.result, answer.seen),
    }
}

/// Differences that the table of quirks explains.
fn tolerated(played: &[Played]) -> Vec<Adapted> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for why in played.iter().flat_map(|played| &played.deviations).filter_map(|deviation| deviation.tolerated) {
        *counts.entry(why).or_default() += 1;
    }
    counts.into_iter().map(|(why, count)| Adapted { what: format!("tolerated: {why}"), count }).collect()
}

/// Memory of this process that is in RAM; 0 where the kernel does not tell.
fn resident_bytes() -> u64 {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let mut text = [0; 256];
    let read = rustix::fs::open(c"/proc/self/statm", flags, rustix::fs::Mode::empty())
        .and_then(|file| rustix::io::read(&file, &mut text));
    let text = String::from_utf8_lossy(&text[..read.unwrap_or(0)]).into_owned();
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
