//! The desk: threads, the clock and the table of descriptors. Scripts wait for their threads; calls overlap where their
//! scripts and threads allow it.

use std::collections::{BTreeMap, BTreeSet};

use esker_base::{Stream, Time};

use super::scripts::{Script, Slot, Step};
use crate::action::{Action, Outcome, ProcessId, ThreadId};
use crate::call::{Call, Fd};
use crate::name::{PathBytes, Word};
use crate::snapshot::{Entry, EntryKind};
use crate::trace::{Platform, Process, Thread, Trace};
use crate::words::CloneFlags;

/// The lowest number that `open` gives: 0 to 2 were there before, and the desk never uses them.
const FD_FIRST: i32 = 3;

/// A script on its way.
struct Playing {
    script: Script,
    next: usize,
    /// When its last call returned.
    ready: u64,
    /// Live descriptors of its slots.
    slots: BTreeMap<Slot, Fd>,
}

pub(super) struct ScriptRunner {
    trace: Trace,
    playing: Vec<Playing>,
    /// When each thread's last call returned.
    free: Vec<u64>,
    open: BTreeSet<i32>,
    /// Descriptors whose close has not returned.
    closing: Vec<(u64, i32)>,
    rng: Stream,
}

impl ScriptRunner {
    pub(super) fn new(threads: u32, rng: Stream) -> ScriptRunner {
        let mut trace = Trace::new(Platform::Mac, "generated");
        trace.processes.push(Process { pid: 100, parent: None, cwd: PathBytes::from("/"), umask: 0o022 });
        for number in 0..threads {
            let parent = (number > 0).then_some(ThreadId(0));
            trace.threads.push(Thread { tid: 100 + number, process: ProcessId(0), parent, name: Word::default() });
        }
        let free = vec![0; threads as usize];
        ScriptRunner { trace, playing: Vec::new(), free, open: BTreeSet::new(), closing: Vec::new(), rng }
    }

    /// Puts a script on the desk, with the files that it needs.
    pub(super) fn add(&mut self, script: Script) {
        for (path, entry) in &script.files {
            self.put_file(path, entry.clone());
        }
        self.playing.push(Playing { script, next: 0, ready: 0, slots: BTreeMap::new() });
    }

    fn put_file(&mut self, path: &str, entry: Entry) {
        let entries = &mut self.trace.snapshot.entries;
        for (at, _) in path.match_indices('/').filter(|(at, _)| *at > 0) {
            let parent = PathBytes::from(&path[..at]);
            entries.entry(parent).or_insert_with(|| Entry::plain(EntryKind::Directory));
        }
        entries.insert(PathBytes::from(path), entry);
    }

    /// Plays all scripts to their ends.
    pub(super) fn play(mut self, tell: &mut dyn FnMut(u64)) -> Trace {
        self.start_threads();
        let mut now = self.free[0];
        let waits = |playing: &Playing| playing.next < playing.script.steps.len();
        // Scripts before this one are at their ends.
        let mut first = 0;
        loop {
            let ended = self.playing[first..].iter().take_while(|playing| !waits(playing)).count();
            if ended > 0 {
                first += ended;
                tell(first as u64);
            }
            let waiting = self.playing.iter().enumerate().skip(first).filter(|(_, playing)| waits(playing));
            // The one that can go first; of equal ones the first on the desk. Not all are begun at once.
            let able = waiting.take(2 * self.free.len()).map(|(at, playing)| {
                let thread = playing.script.steps[playing.next].thread as usize;
                (playing.ready.max(self.free[thread]), at)
            });
            let Some((ready, at)) = able.min() else { break };
            now = now.max(ready) + 1 + self.rng.below(2000);
            self.step(at, now);
        }
        self.trace.actions.sort_by_key(|action| action.enter);
        self.trace
    }

    /// The first thread makes the others.
    fn start_threads(&mut self) {
        let flags = CloneFlags::CLONE_THREAD | CloneFlags::CLONE_FILES | CloneFlags::CLONE_FS | CloneFlags::CLONE_VM;
        for number in 1..self.free.len() {
            let tid = i64::from(self.trace.threads[number].tid);
            let call = Call::Clone { flags, child: Some(ThreadId(number as u32)) };
            let enter = self.free[0] + 1000;
            self.record(0, enter, enter + 5000, call, Outcome::Done(tid));
            self.free[number] = enter + 5000;
        }
    }

    /// Issues the next call of a script.
    fn step(&mut self, at: usize, now: u64) {
        self.end_closing(now);
        let playing = &mut self.playing[at];
        let Step { thread, mut call, mut outcome, slot, slow } = playing.script.steps[playing.next].clone();
        playing.next += 1;
        let duration = 1000 + self.rng.below(8000) + if slow { self.rng.below(8_000_000) } else { 0 };
        let leave = now + duration;
        let slots = playing.slots.clone();
        // In scripts descriptors are slots: numbers that no kernel gives.
        call.change_fds(&mut |fd| *fd = slots.get(&Slot(fd.0)).copied().unwrap_or(*fd));
        if let Call::Close { fd } = call {
            self.closing.push((leave, fd.0));
        }
        if let Some(slot) = slot {
            let fd = (FD_FIRST..).find(|fd| !self.open.contains(fd)).expect("numbers do not end");
            self.open.insert(fd);
            self.playing[at].slots.insert(slot, Fd(fd));
            outcome = Outcome::Done(i64::from(fd));
        }
        self.playing[at].ready = leave + self.rng.below(20_000);
        self.free[thread as usize] = leave + self.rng.below(20_000);
        self.record(thread, now, leave, call, outcome);
    }

    fn end_closing(&mut self, now: u64) {
        let open = &mut self.open;
        self.closing.retain(|(leave, fd)| {
            let is_over = *leave < now;
            is_over.then(|| open.remove(fd));
            !is_over
        });
    }

    fn record(&mut self, thread: u32, enter: u64, leave: u64, call: Call, outcome: Outcome) {
        self.free[thread as usize] = self.free[thread as usize].max(leave);
        let (thread, enter, leave) = (ThreadId(thread), Time(enter), Time(leave));
        self.trace.actions.push(Action { thread, enter, leave, call, outcome });
    }
}
