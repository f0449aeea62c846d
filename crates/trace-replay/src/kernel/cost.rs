//! What making a call costs a replay beside the call itself.

use std::cell::Cell;
use std::sync::atomic::AtomicBool;

use esker_sys::run_isolated;
use esker_trace_calls::{Call, Fd, Object, Outcome};
use esker_trace_order::compiled::Step;

use super::{CallExecutor, Nature, Turn};
use crate::clock;

/// Times system calls apart from what a replay does around them, if it is on.
#[derive(Debug, Default)]
pub(super) struct Stopwatch {
    on: bool,
    /// Of the call that is made, so far.
    spent_ns: Cell<Option<u64>>,
}

impl Stopwatch {
    pub(super) fn on() -> Stopwatch {
        Stopwatch { on: true, spent_ns: Cell::new(None) }
    }

    #[inline]
    pub(super) fn time<T>(&self, call: impl FnOnce() -> T) -> T {
        if !self.on {
            return call();
        }
        let start = clock::now_ns();
        let result = call();
        let spent = clock::now_ns() - start;
        self.spent_ns.set(Some(self.spent_ns.get().unwrap_or(0) + spent));
        result
    }

    /// What was timed since it was asked last.
    pub(super) fn taken(&self) -> Option<u64> {
        self.spent_ns.take()
    }
}

/// Rounds whose middle one counts: few enough to take no time, enough that an interrupt in some does not matter.
const ROUNDS: usize = 101;
/// How often a difference of two threads is measured.
const TURNS: usize = 5;
/// Rest before each span. Paced calls come after a wait, when the CPU has the code no longer as ready as in a loop.
const REST_NS: u64 = 10_000;
/// No slot: the handle is handed over.
const PROBE: Fd = Fd(-1);

impl CallExecutor<'_> {
    /// Nanoseconds by which a call that is performed takes longer, between two looks at the clock, than the system call
    /// itself. At natural speed they would add up to a drift. 0 where it cannot be measured.
    pub fn cost_ns(&mut self) -> u64 {
        let Ok(dir) = self.kernel.root.dir().try_clone_to_owned() else { return 0 };
        let handle = self.kernel.slots.handle(dir, Nature::File);
        let call = Call::Stat { file: Object::Fd(PROBE), seen: None };
        let step = Step { call, outcome: Outcome::Done(0), notes: Default::default(), slots: Vec::new() };
        let turn = Turn { process: 0, step: &step };
        let mut costs = [0; ROUNDS];
        for cost in &mut costs {
            let direct = span_ns(|| rustix::fs::fstat(&*handle));
            self.ready.set(Some((PROBE, handle.clone())));
            *cost = span_ns(|| self.perform(&turn)).saturating_sub(direct);
        }
        costs.sort_unstable();
        costs[ROUNDS / 2]
    }
}

/// Nanoseconds by which a call on a descriptor takes longer here than in a process with a single thread. Only where
/// threads share a table of descriptors, which all threads of a replay do, does the kernel count the users of one. For
/// a worker, which is one of several threads; 0 where it cannot be measured.
pub fn sharing_ns() -> u64 {
    let least = |told: fn() -> Option<String>| (0..TURNS).filter_map(|_| told()?.parse::<u64>().ok()).min();
    let (shared, alone) = (least(|| stat_ns(&[]).ok()), least(|| run_isolated(stat_ns, Vec::new()).ok()));
    shared.zip(alone).map_or(0, |(shared, alone)| shared.saturating_sub(alone))
}

/// What asking for the metadata of an open file takes in this thread, where little disturbs it: what others do only
/// adds.
fn stat_ns(_: &[String]) -> Result<String, i32> {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let dir = rustix::fs::open("/", flags, rustix::fs::Mode::empty()).map_err(|error| error.raw_os_error())?;
    let mut spans = [0; ROUNDS];
    for span in &mut spans {
        *span = span_ns(|| rustix::fs::fstat(&dir));
    }
    spans.sort_unstable();
    Ok(spans[ROUNDS / 10].to_string())
}

fn span_ns<T>(work: impl FnOnce() -> T) -> u64 {
    clock::sleep_until(clock::now_ns() + REST_NS, &AtomicBool::new(false));
    let start = clock::now_ns();
    let _result = work();
    clock::now_ns() - start
}
