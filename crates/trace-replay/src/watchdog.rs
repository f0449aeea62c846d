//! Looks whether anything happens, and ends a replay in which nothing does: a call may wait for a peer that never
//! comes.
//!
//! A call that waits for others may do so as long as it did in the trace, and then for the replay's patience. A call
//! that waits for the target alone, such as an `fsync`, gets more: a device may be slow, spin up or try again, and is
//! not stuck.

use esker_base::{Nanos, Progress};
use esker_rt::{JoinHandle, Rt};
use esker_trace_calls::ThreadId;
use esker_trace_order::compiled::Notes;
use esker_trace_order::rules::Wait;

use crate::replay::{Session, State};
use crate::script::Script;

/// How often it looks.
const LOOK: Nanos = Nanos(20_000_000);
/// What is reported.
pub(crate) const ACTIONS: &str = "actions";
/// How many times the patience a call gets that waits for the target alone.
const TARGET: u64 = 6;
/// How long a replay that was stopped may take to end.
const GRACE: Nanos = Nanos(2_000_000_000);

/// A replay that was stopped, and what every thread was at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// How long nothing had happened; `None` in virtual time, where nothing could happen any more.
    pub silence: Option<Nanos>,
    /// A line for each thread that was not at its end.
    pub threads: Vec<String>,
    /// Whether some call could not be ended: its thread was left behind.
    pub abandoned: bool,
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.silence {
            Some(silence) => write!(f, "nothing happened for {:.1} s: ", silence.as_secs_f64())?,
            None => f.write_str("nothing can happen any more: ")?,
        }
        f.write_str(&self.threads.join("; "))?;
        if self.abandoned { f.write_str("; some calls could not be ended") } else { Ok(()) }
    }
}

/// Waits until all players have ended, and reports their actions as part `what`. Stops them if nothing happens for
/// longer than `patience` and their calls allow.
pub(crate) async fn watch(
    rt: &Rt,
    what: &str,
    session: &Session,
    joins: &[JoinHandle<()>],
    patience: Nanos,
) -> Option<Stuck> {
    let mut pulse = session.pulse();
    let mut since = rt.now();
    while !all_done(joins) {
        rt.sleep(LOOK).await;
        let now = session.pulse();
        if now != pulse {
            (pulse, since) = (now, rt.now());
            let (done, all) = session.actions();
            rt.progress(Progress::of(what, ACTIONS, done, all));
            continue;
        }
        let silence = rt.now().since(since);
        if silence >= patience && silence >= allowed(session, patience) && !sleeps(session) {
            let threads = describe(session);
            session.stop();
            let abandoned = !ends(rt, joins).await;
            return Some(Stuck { silence: Some(silence), threads, abandoned });
        }
    }
    let (_, all) = session.actions();
    rt.progress(Progress::of(what, ACTIONS, all, all));
    None
}

fn all_done(joins: &[JoinHandle<()>]) -> bool {
    joins.iter().all(JoinHandle::is_done)
}

/// Whether all come to their end in time.
async fn ends(rt: &Rt, joins: &[JoinHandle<()>]) -> bool {
    let stopped = rt.now();
    while !all_done(joins) && rt.now().since(stopped) < GRACE {
        rt.sleep(LOOK).await;
    }
    all_done(joins)
}

/// Whether a player sleeps on purpose.
fn sleeps(session: &Session) -> bool {
    (0..session.players()).any(|player| session.doing(player).is_some_and(|(_, state)| state == State::Sleeping))
}

/// How long the calls under way may keep all others waiting; calls that wait for other threads do not count.
fn allowed(session: &Session, patience: Nanos) -> Nanos {
    let calls = (0..session.players()).filter_map(|player| session.doing(player));
    let calls = calls.filter(|(_, state)| *state == State::Calling).map(|(action, _)| {
        let (program, step) = (session.script.program(), session.script.step(action));
        let instant = program.instant(action);
        (step.notes.contains(Notes::WAITS), instant.leave - instant.enter)
    });
    limit(patience, calls)
}

/// Of calls that may wait for others or not, and took so many nanoseconds in the trace.
fn limit(patience: Nanos, calls: impl Iterator<Item = (bool, u64)>) -> Nanos {
    let one = |(waits, traced_ns)| {
        let times = if waits { 1 } else { TARGET };
        patience.0.saturating_mul(times).saturating_add(traced_ns)
    };
    Nanos(calls.map(one).max().unwrap_or(patience.0))
}

/// A line for each player that is not at its end.
fn describe(session: &Session) -> Vec<String> {
    let is_met = |wait| session.is_met(wait);
    let line =
        |player| session.doing(player).map(|(action, state)| describe_one(&session.script, &is_met, action, state));
    (0..session.players()).filter_map(line).collect()
}

/// What a player is at, for people.
pub(crate) fn describe_one(script: &Script, is_met: &dyn Fn(Wait) -> bool, action: u32, state: State) -> String {
    let place = script.place(action);
    let whose = crate::outcome::thread_name(script.program(), place.thread);
    let call = crate::outcome::call_text(script, action);
    if state != State::Waiting {
        return format!("{whose} is in action {action}, {call}, whose peer never came");
    }
    match script.schedule().waits(action).iter().find(|wait| !is_met(**wait)) {
        Some(wait) => {
            let first = script.program().actions(ThreadId(wait.thread))[((wait.until - 1) / 2) as usize];
            format!("{whose} waits with action {action}, {call}, for action {first}")
        }
        None => format!("{whose} is before action {action}, {call}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_may_take_as_long_as_traced_and_a_device_longer_than_a_peer() {
        let check = |calls: &[(bool, u64)], limit_ns| assert_eq!(limit(Nanos(10), calls.iter().copied()).0, limit_ns);
        check(&[], 10);
        check(&[(true, 3)], 13);
        check(&[(false, 3)], 63);
        check(&[(true, 100), (false, 3), (true, 0)], 110);
    }
}
