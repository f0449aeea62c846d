//! One thread of a replay: waits for what an action depends on, sleeps what was computed, makes the call, tells the
//! others.
//!
//! Source: ROOT's main loop. Pacing is absolute: each thread keeps the instant at which it would be free if the replay
//! cost nothing, and computation begins there, so neither late sleeps nor the replayer's own work add up.

use esker_trace_calls::Call;
use esker_trace_order::rules::reduce::{completed, issued};

use crate::check::{Verdict, compare};
use crate::kernel::{Answer, Turn};
use crate::progress::Stopped;
use crate::script::Script;
use crate::target::Target;

/// When an action was issued and ended, in nanoseconds since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The action.
    pub action: u32,
    /// Whether a call was made.
    pub called: bool,
    /// Issue.
    pub issue_ns: u64,
    /// End.
    pub done_ns: u64,
}

/// What came out otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// The action.
    pub action: u32,
    /// The result.
    pub answer: Answer,
    /// Why it is tolerated, if it is.
    pub tolerated: Option<&'static str>,
}

/// What a player did.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// Its actions in order.
    pub stamps: Vec<Stamp>,
    /// Results that differ.
    pub deviations: Vec<Deviation>,
    /// Nanoseconds waiting for other threads.
    pub waiting_ns: u64,
    /// Nanoseconds of computation that was slept.
    pub delay_ns: u64,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// Plays part number `player` of `script` on `target`.
pub async fn play<T: Target>(script: &Script, player: u32, target: &mut T) -> Played {
    let part = &script.parts()[player as usize];
    let mut play = Play {
        script,
        target,
        start_ns: 0,
        free_ns: 0,
        played: Played { stamps: Vec::with_capacity(part.len()), ..Played::default() },
    };
    play.played.stopped = play.run(part).await.is_err();
    play.played
}

struct Play<'a, T> {
    script: &'a Script,
    target: &'a mut T,
    start_ns: u64,
    /// When this thread would be free if the replay cost nothing.
    free_ns: u64,
    played: Played,
}

impl<T: Target> Play<'_, T> {
    async fn run(&mut self, part: &[u32]) -> Result<(), Stopped> {
        self.start_ns = self.target.start().await?;
        self.free_ns = self.start_ns;
        for action in part {
            self.action(*action).await?;
        }
        Ok(())
    }

    async fn action(&mut self, action: u32) -> Result<(), Stopped> {
        let script = self.script;
        let step = script.step(action);
        let place = script.place(action);
        let process = script.program().players()[place.thread as usize].process.0;
        self.target.begin(action);
        self.wait(action).await?;
        let turn = Turn { process, step };
        self.target.prepare(&turn);
        let due_ns = self.delay(action).await?;
        if script.tells_issue() {
            self.target.reach(place.thread, issued(place.local));
        }
        let issue_ns = self.target.now_ns();
        let answer = self.target.perform(&turn).await;
        let done_ns = self.target.now_ns();
        let spent_ns = answer.call_ns.unwrap_or_else(|| (done_ns - issue_ns).saturating_sub(self.target.cost_ns()));
        let call_ns = spent_ns.saturating_sub(self.target.sharing_ns());
        self.free_ns = due_ns.map_or(done_ns, |due_ns| due_ns + call_ns);
        if answer.skipped.is_some() {
            // The thread that a call makes begins before it returns: a parent may even wait until its child executes.
            if script.program().instant(action).begins {
                self.target.reach(place.thread, completed(place.local));
            }
            self.hold_for_traced_time(action).await?;
        }
        self.target.reach(place.thread, completed(place.local));
        let start = self.start_ns;
        let called = answer.skipped.is_none();
        self.played.stamps.push(Stamp { action, called, issue_ns: issue_ns - start, done_ns: done_ns - start });
        let tolerated = match compare(step, script.program().about().platform, &answer) {
            Verdict::Same => return Ok(()),
            Verdict::Tolerated(why) => Some(why),
            Verdict::Differs => None,
        };
        self.played.deviations.push(Deviation { action, answer, tolerated });
        Ok(())
    }

    /// Waits for what the action depends on. A thread that was held back is free only then.
    async fn wait(&mut self, action: u32) -> Result<(), Stopped> {
        let script = self.script;
        let mut since = None;
        for wait in script.schedule().waits(action) {
            if !self.target.is_met(*wait) {
                since = since.or(Some(self.target.now_ns()));
                self.target.wait(*wait).await?;
            }
        }
        if let Some(since) = since {
            let now = self.target.now_ns();
            self.played.waiting_ns += now - since;
            self.free_ns = self.free_ns.max(now);
        }
        Ok(())
    }

    /// Sleeps what the trace computed before the action; gives the instant at which it is due.
    async fn delay(&mut self, action: u32) -> Result<Option<u64>, Stopped> {
        let Some(span) = self.script.speed().span_ns(self.script.schedule().predelay(action).0) else {
            return Ok(None);
        };
        self.sleep(span).await
    }

    /// A call that is not made takes the time that it took in the trace, as computation does, but for what it waited
    /// for there: that has been waited for here. One that submits requests to a ring and waits for them takes none: the
    /// requests are calls of their own.
    async fn hold_for_traced_time(&mut self, action: u32) -> Result<(), Stopped> {
        if let Call::UringEnter { submit: 0, .. } = self.script.step(action).call {
            return Ok(());
        }
        let instant = self.script.program().instant(action);
        let span = (instant.leave - instant.enter).saturating_sub(self.script.schedule().held(action).0);
        if let Some(span) = self.script.speed().span_ns(span) {
            self.free_ns = self.sleep(span).await?.expect("a span was slept");
        }
        Ok(())
    }

    async fn sleep(&mut self, span_ns: u64) -> Result<Option<u64>, Stopped> {
        let due_ns = self.free_ns + span_ns;
        let now = self.target.now_ns();
        if due_ns > now {
            self.target.sleep_until(due_ns).await?;
            self.played.delay_ns += due_ns - now;
        }
        Ok(Some(due_ns))
    }
}
