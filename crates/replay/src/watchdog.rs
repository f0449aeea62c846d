//! Looks whether anything happens, and ends a replay in which nothing does: a call may wait for a peer that never comes.

use esker_base::Nanos;
use esker_rt::{JoinHandle, Rt};
use esker_trace::ThreadId;

use crate::replay::{Session, State};

/// How often it looks.
const LOOK: Nanos = Nanos(20_000_000);
/// How long a replay that was stopped may take to end.
const GRACE: Nanos = Nanos(2_000_000_000);

/// A replay that was stopped, and what every thread was at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// How long nothing had happened.
    pub patience: Nanos,
    /// A line for each thread that was not at its end.
    pub threads: Vec<String>,
    /// Whether some call could not be ended: its thread was left behind.
    pub abandoned: bool,
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "nothing happened for {:.1} s: {}", self.patience.as_secs_f64(), self.threads.join("; "))?;
        if self.abandoned { f.write_str("; some calls could not be ended") } else { Ok(()) }
    }
}

/// Waits until all players have ended; stops them if nothing happens for as long as `patience`.
pub async fn watch(rt: &Rt, session: &Session, joins: &[JoinHandle<()>], patience: Nanos) -> Option<Stuck> {
    let mut pulse = session.pulse();
    let mut since = rt.now();
    while !all_done(joins) {
        rt.sleep(LOOK).await;
        let now = session.pulse();
        if now != pulse {
            (pulse, since) = (now, rt.now());
        } else if rt.now().since(since) >= patience && !sleeps(session) {
            let threads = describe(session);
            session.stop();
            let abandoned = !ends(rt, joins).await;
            return Some(Stuck { patience, threads, abandoned });
        }
    }
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

/// Whether somebody sleeps on purpose.
fn sleeps(session: &Session) -> bool {
    (0..session.players()).any(|player| session.doing(player).is_some_and(|(_, state)| state == State::Sleeping))
}

/// A line for each player that is not at its end.
fn describe(session: &Session) -> Vec<String> {
    let line = |player| session.doing(player).map(|(action, state)| describe_one(session, action, state));
    (0..session.players()).filter_map(line).collect()
}

fn describe_one(session: &Session, action: u32, state: State) -> String {
    let script = &session.script;
    let place = script.place(action);
    let whose = crate::outcome::thread_name(script.program(), place.thread);
    let call = crate::outcome::call_text(script, action);
    if state != State::Waiting {
        return format!("{whose} is in action {action}, {call}, whose peer never came");
    }
    match script.schedule().waits(action).iter().find(|wait| !session.is_met(**wait)) {
        Some(wait) => {
            let first = script.program().actions(ThreadId(wait.thread))[((wait.until - 1) / 2) as usize];
            format!("{whose} waits with action {action}, {call}, for action {first}")
        }
        None => format!("{whose} is before action {action}, {call}"),
    }
}
