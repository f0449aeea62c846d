//! Plays a whole trace on the model: from a [`Trace`] to a [`Program`].
//!
//! Actions are played in the order of their entries. One whose result the model refuses, while others that overlap it
//! are still to come, is put off behind them: the trace has the time at which calls began, not when they took effect.
//! So is one that makes or removes a name as long as others need it as it is (see `ahead`), and one that waits for the
//! end of a process until that has ended. One that gets a lock, or is woken, takes effect when it returns. When none is
//! left, the model is repaired.

use std::collections::{BTreeMap, VecDeque};

use esker_base::Errno;
use esker_trace_calls::action::{Action, Outcome, ProcessId, ThreadId};
use esker_trace_calls::call::Call;
use esker_trace_calls::final_tree::FinalTree;
use esker_trace_calls::name::PathBytes;
use esker_trace_calls::snapshot::{EntryKind, Snapshot};
use esker_trace_calls::trace::{Inherited, Process, Trace};
use esker_trace_calls::wire::NameTable;
use esker_trace_calls::words::AccessMode;

use crate::compiled::{About, Losses, Notes, Opened, Player, Program, RepairKind, Repairs, Step};
use crate::rules::{Instant, Looks};

use super::act::Intent;
use super::killed::Killed;
use super::locks::gets_lock;
use super::prune::finish;
pub use super::refused::CompileError;
use super::repair::told;
use super::resource::{ResourceKind, Role};
use super::rewrite::{has_copies, instant, name_made};
use super::rings::Submitters;
use super::tree::{Inode, InodeId};
use super::wakes::Wakes;
use super::world::{Answer, Description, ROOT_INODE, World};

/// Actions between two reports of progress.
const PROGRESS_EVERY: u64 = 4096;
/// Repairs of one action at most: a deep path whose directories are all unknown needs one for each.
const REPAIRS_MAX: usize = 64;
/// Actions put off at most at one time.
const PUT_OFF_MAX: usize = 256;
/// Actions of a trace at most: marks of threads are 32 bits.
pub(super) const ACTIONS_MAX: usize = 1 << 30;
/// Threads of a trace at most: what each knows of each other one is kept while edges are reduced.
pub const THREADS_MAX: usize = 1 << 14;

/// Compiles a trace. `progress` hears how many actions are done.
///
/// # Errors
/// The trace contradicts itself. Contradictions between trace and files are repaired and counted instead.
pub fn compile(trace: Trace, progress: &mut dyn FnMut(u64)) -> Result<Program, CompileError> {
    let mut compiler = Compiler::begin(&trace)?;
    let mut last = 0;
    let mut actions = trace.actions.into_iter();
    let mut number = 0;
    while let Some(action) = actions.next() {
        if (action.thread.0 as usize) >= compiler.players.len() {
            let threads = compiler.players.len();
            return Err(CompileError::NoThread { action: number, thread: action.thread.0, threads });
        }
        if action.enter.0 < last {
            return Err(CompileError::Unsorted { action: number });
        }
        last = action.enter.0;
        compiler.take(action, actions.as_slice());
        if (number as u64).is_multiple_of(PROGRESS_EVERY) {
            progress(number as u64);
        }
        number += 1;
    }
    compiler.expire(u64::MAX);
    Ok(finish(compiler))
}

/// An action whose turn has not come yet.
struct PutOff {
    action: Action,
    /// How many actions are taken up before it is tried again.
    until: usize,
}

/// A compilation under way.
pub(super) struct Compiler {
    pub world: World,
    pub players: Vec<Player>,
    pub about: About,
    pub snapshot: Snapshot,
    pub after: Option<FinalTree>,
    /// Paths of the entries that only the trace implied.
    pub implied: Vec<PathBytes>,
    pub opened: Vec<Opened>,
    pub names: NameTable,
    pub steps: Vec<Step>,
    /// Numbers of steps that may copy or close many slots: which of these matter is only known at the end.
    pub late: Vec<u32>,
    pub instants: Vec<Instant>,
    /// Touches as resource and role in one word; each action's end at its number in `touch_ends`.
    pub touches: Vec<u32>,
    pub touch_ends: Vec<u32>,
    /// Whether anything names a slot.
    pub used: Vec<bool>,
    put_off: VecDeque<PutOff>,
    /// Actions that were taken up so far.
    taken: usize,
    killed: Killed,
    submitters: Submitters,
    wakes: Wakes,
    /// The first thread of each process, by its number on the system.
    by_pid: BTreeMap<i64, ThreadId>,
}

impl Compiler {
    pub(super) fn begin(trace: &Trace) -> Result<Compiler, CompileError> {
        if trace.actions.len() > ACTIONS_MAX {
            return Err(CompileError::TooLong { actions: trace.actions.len() });
        }
        if trace.threads.len() > THREADS_MAX {
            return Err(CompileError::TooManyThreads { threads: trace.threads.len() });
        }
        let lost = Losses::of(&trace.warnings);
        let about = About { platform: trace.platform, source: trace.source.clone(), lost, ..About::default() };
        let mut compiler = Compiler {
            world: World::new(&trace.snapshot),
            players: Vec::new(),
            about,
            snapshot: trace.snapshot.clone(),
            after: trace.after.clone(),
            implied: Vec::new(),
            opened: Vec::new(),
            names: NameTable::new(),
            steps: Vec::with_capacity(trace.actions.len()),
            late: Vec::new(),
            instants: Vec::with_capacity(trace.actions.len()),
            touches: Vec::new(),
            touch_ends: Vec::with_capacity(trace.actions.len()),
            used: Vec::new(),
            put_off: VecDeque::new(),
            taken: 0,
            killed: Killed::of(trace),
            submitters: Submitters::default(),
            wakes: Wakes::default(),
            by_pid: BTreeMap::new(),
        };
        compiler.add_threads(trace)?;
        compiler.submitters = Submitters::of(&trace.threads, &mut compiler.world.ledger);
        compiler.wakes = Wakes::of(trace, &mut compiler.world.ledger);
        let mut groups = BTreeMap::new();
        for inherited in &trace.inherited {
            compiler.inherit(inherited, &mut groups);
        }
        compiler.world.ledger.begin();
        Ok(compiler)
    }

    /// One table and one context for each process; children get theirs when they are made.
    fn add_threads(&mut self, trace: &Trace) -> Result<(), CompileError> {
        let mut first: BTreeMap<ProcessId, ThreadId> = BTreeMap::new();
        for (number, thread) in trace.threads.iter().enumerate() {
            let missing = || CompileError::NoProcess {
                thread: number,
                process: thread.process.0,
                processes: trace.processes.len(),
            };
            let process = trace.processes.get(thread.process.0 as usize).ok_or_else(missing)?;
            let cwd = self.start_directory(process);
            let id = self.world.add_process(thread.process, cwd, process.umask);
            match first.get(&thread.process) {
                Some(leader) => self.world.join(id, *leader),
                None => {
                    first.insert(thread.process, id);
                    self.by_pid.insert(i64::from(process.pid), id);
                }
            }
            self.players.push(Player {
                tid: thread.tid,
                process: thread.process,
                pid: process.pid,
                name: thread.name.clone(),
                parent: thread.parent,
            });
        }
        Ok(())
    }

    fn start_directory(&mut self, process: &Process) -> InodeId {
        if process.cwd.is_empty() {
            return ROOT_INODE;
        }
        if let Some(id) = self.world.inode_at(&process.cwd) {
            return id;
        }
        let id = self.world.tree.add(Inode::new(esker_trace_calls::words::FileKind::Directory));
        self.world.plant(&process.cwd, id);
        self.imply(id, process.cwd.clone(), EntryKind::Directory);
        id
    }

    /// A descriptor that was open when recording began.
    fn inherit(&mut self, inherited: &Inherited, groups: &mut BTreeMap<u32, usize>) {
        let Some(task) = self.world.tasks.iter().find(|task| task.process == inherited.process) else { return };
        let table = task.table;
        let shared = groups.get(&inherited.group).copied().filter(|_| inherited.group > 0);
        let description = shared.unwrap_or_else(|| {
            let inode = self.inherited_inode(inherited);
            let (flags, offset) = (inherited.flags, inherited.offset);
            self.world.descriptions.push(Description { inode, flags, offset, users: 0 });
            self.world.count_open(inode, flags);
            self.world.descriptions.len() - 1
        });
        groups.insert(inherited.group, description);
        let cloexec = inherited.flags.contains(esker_trace_calls::words::OpenFlags::O_CLOEXEC);
        let slot = self.world.install(table, inherited.fd.0, description, cloexec);
        self.opened.push(Opened {
            slot,
            kind: inherited.kind,
            path: inherited.path.clone(),
            flags: inherited.flags,
            offset: inherited.offset,
            group: inherited.group,
            inferred: false,
        });
    }

    fn inherited_inode(&mut self, inherited: &Inherited) -> InodeId {
        let path = inherited.path.as_ref().filter(|path| path.first() == Some(&b'/'));
        if let Some(id) = path.and_then(|path| self.world.inode_at(path)) {
            return id;
        }
        let id = self.world.tree.add(Inode::new(inherited.kind));
        if let Some(path) = path
            && self.world.plant(path, id)
        {
            let kind = super::repair::entry_kind(path, inherited.kind, PathBytes::default());
            self.imply(id, path.clone(), kind);
        }
        id
    }

    /// Plays the next action, after those that cannot wait for it any longer. `later` are those behind it.
    pub(super) fn take(&mut self, mut action: Action, later: &[Action]) {
        self.expire(action.enter.0);
        self.world.resolve_aliases(action.thread, &mut action.call);
        if action.outcome.value().is_some() {
            self.world.turn_vmsplice(action.thread, &mut action.call);
        }
        self.taken += 1;
        let patient = self.put_off.len() < PUT_OFF_MAX && action.leave > action.enter;
        let at_return = gets_lock(&action) || self.wakes.is_woken(&action);
        if patient && (at_return || self.waits_for_a_child(&action)) {
            let until = if at_return { usize::MAX } else { self.taken };
            self.put_off.push_back(PutOff { action, until });
            return;
        }
        if let Some(behind) = if patient { self.world.behind(&action, later) } else { None } {
            self.put_off.push_back(PutOff { action, until: self.taken + behind });
            return;
        }
        match self.play(action, patient, Notes::empty()) {
            Some(action) => self.put_off.push_back(PutOff { action, until: self.taken }),
            None => self.retry(),
        }
    }

    /// Those that returned before `enter` can wait no longer.
    pub(super) fn expire(&mut self, enter: u64) {
        while let Some(at) = self.put_off.iter().position(|put_off| put_off.action.leave.0 <= enter) {
            let PutOff { action, .. } = self.put_off.remove(at).expect("its place was just found");
            self.play(action, false, Notes::empty());
            self.retry();
        }
    }

    /// Those that were put off may be possible now.
    fn retry(&mut self) {
        let mut at = 0;
        while at < self.put_off.len() {
            if self.put_off[at].until > self.taken || self.waits_for_a_child(&self.put_off[at].action) {
                at += 1;
                continue;
            }
            let PutOff { action, until } = self.put_off.remove(at).expect("the place of one of them");
            let (number, text) = (self.instants.len() as u32, action.call.clone());
            match self.play(action, true, Notes::DEFERRED) {
                Some(action) => {
                    self.put_off.insert(at, PutOff { action, until });
                    at += 1;
                }
                None => {
                    if !matches!(text, Call::Wait { .. }) {
                        self.about.repairs.add(RepairKind::OrderChanged, number, || told(&text));
                    }
                    at = 0;
                }
            }
        }
    }

    /// Whether an action waits for the end of a process that still has something to do: it takes effect behind that.
    fn waits_for_a_child(&self, action: &Action) -> bool {
        let child = self.waited_for(&action.call, action.outcome);
        child.is_some_and(|child| self.world.tasks[child.0 as usize].alive)
    }

    /// The process for whose end a call waited.
    fn waited_for(&self, call: &Call, outcome: Outcome) -> Option<ThreadId> {
        let Call::Wait { .. } = call else { return None };
        outcome.value().and_then(|pid| self.by_pid.get(&pid).copied())
    }

    /// Plays an action. What contradicts it is repaired, unless the compiler is patient: then the action comes back,
    /// and nothing has happened.
    fn play(&mut self, action: Action, patient: bool, mut notes: Notes) -> Option<Action> {
        let number = self.instants.len() as u32;
        let thread = action.thread;
        if patient && self.world.is_taken(thread, &action.call, action.outcome) {
            return Some(action);
        }
        let mut call = action.call.clone();
        let intent = match action.outcome {
            Outcome::Done(value) => Intent::Follow(value),
            Outcome::Failed(_) => Intent::Try,
            Outcome::Unknown if matches!(call, Call::Exit { .. }) => Intent::Free,
            Outcome::Unknown => Intent::Try,
        };
        let (mut mapped, mut waits) = (self.world.rewritten(thread, &call), self.world.may_wait(thread, &call));
        let mut looks = self.world.looks(thread, &call);
        let mut answer = self.world.act(thread, &call, intent);
        if patient && contradicts(action.outcome, answer) {
            return Some(action);
        }
        for _ in 0..REPAIRS_MAX {
            let Some(errno) = answer.err().filter(|_| matches!(intent, Intent::Follow(_))) else { break };
            let Some((kind, what)) = self.mend(thread, &mut call, errno, &mut notes) else { break };
            self.about.repairs.add(kind, number, || what);
            (mapped, waits) = (self.world.rewritten(thread, &call), self.world.may_wait(thread, &call));
            looks = self.world.looks(thread, &call);
            answer = self.world.act(thread, &call, intent);
        }
        self.judge(number, &action, answer, &mut notes);
        self.learn(&call, action.outcome);
        if let Call::Wait { .. } = call {
            let child = self.waited_for(&call, action.outcome);
            // A wait touches only its child's thread, and never fails here.
            let _ = self.world.wait(child);
        }
        let waits = waits && !self.wakes.is_cause(&action);
        notes.set(Notes::WAITS, waits);
        notes.set(Notes::MADE_UP, self.world.lists_made_up(thread, &call));
        let looks = self.world.looked_on(&call, looks);
        self.submitters.touch(&action, &mut self.world.ledger);
        self.wakes.touch(&action, &mut self.world.ledger);
        name_made(&mut mapped, self.world.effects());
        self.world.fit_made_up(thread, &action, &mut mapped);
        let is_last = self.killed.is_last(self.players[thread.0 as usize].process);
        if is_last {
            self.world.end(thread, true);
        }
        // A process that ends with a call closes its descriptors, too.
        let looks = if is_last { Looks::empty() } else { looks };
        let has_many = is_last || has_copies(&call);
        let slots = self.world.effects().to_vec();
        let instant = instant(&action, waits, looks);
        self.record(instant, Step { call: mapped, outcome: action.outcome, notes, slots }, has_many);
        None
    }

    /// Counts what could not be brought into agreement.
    fn judge(&mut self, number: u32, action: &Action, answer: Answer<i64>, notes: &mut Notes) {
        let repairs: &mut Repairs = &mut self.about.repairs;
        if !World::is_modelled(&action.call) {
            *notes |= Notes::UNMODELLED;
            repairs.add(RepairKind::Unmodelled, number, || told(&action.call));
        }
        match (action.outcome, answer) {
            (Outcome::Done(_), Err(errno)) => {
                *notes |= Notes::SUCCESS_UNEXPLAINED;
                repairs.add(RepairKind::SuccessUnexplained, number, || format!("{}: {errno}", told(&action.call)));
                for (fd, cloexec) in action.call.fds_made(action.outcome) {
                    self.world.make_unknown_fd(action.thread, fd, cloexec);
                }
            }
            (Outcome::Failed(errno), answer) if answer != Err(errno) => {
                let kind = if explains(errno) { RepairKind::FailureUnexplained } else { RepairKind::FailureForeign };
                *notes |= Notes::FAILURE_UNEXPLAINED;
                repairs.add(kind, number, || {
                    let expected = answer.map_or_else(|errno| errno.to_string(), |_| "success".to_string());
                    format!("{} = {errno}, expected {expected}", told(&action.call))
                });
            }
            _ => (),
        }
    }

    /// What an action tells of unlisted files.
    fn learn(&mut self, call: &Call, outcome: Outcome) {
        let number = self.instants.len() as u32;
        for id in std::mem::take(&mut self.world.grown) {
            let inode = self.world.tree.inode(id);
            let (size, implied, node) = (inode.size, inode.implied, inode.node);
            let path = self.world.tree.path(node);
            match implied {
                Some(at) => self.enlarge(&self.implied[at as usize].clone(), size),
                None if self.world.is_made_up(id) => self.enlarge(&path, size),
                None => self.about.repairs.add(RepairKind::SizeGrown, number, || path.to_string()),
            }
        }
        if let (Call::Stat { seen: Some(status), .. }, Some(id)) = (call, self.world.object) {
            let inode = self.world.tree.inode_mut(id);
            if let Some(at) = inode.implied.filter(|_| inode.kind == status.kind) {
                inode.size = status.size;
                self.enlarge(&self.implied[at as usize].clone(), status.size);
            }
        }
        if matches!(outcome, Outcome::Done(_)) {
            self.make_runnable(call);
        }
    }

    /// What a program runs, or is told that it may, can be run.
    fn make_runnable(&mut self, call: &Call) {
        let runs = match call {
            Call::Exec { .. } => true,
            Call::Access { mode, .. } => mode.contains(AccessMode::X_OK),
            _ => false,
        };
        if runs
            && let Some(at) = self.world.object.and_then(|id| self.world.tree.inode(id).implied)
            && let Some(entry) = self.snapshot.entries.get_mut(&self.implied[at as usize])
        {
            entry.mode |= 0o111;
        }
    }

    /// A file is at first as large as the trace tells.
    fn enlarge(&mut self, path: &PathBytes, now: u64) {
        let entry = self.snapshot.entries.get_mut(path);
        if let Some(EntryKind::File { size }) = entry.map(|entry| &mut entry.kind) {
            *size = (*size).max(now);
        }
    }

    /// Keeps an action for the program; `has_many` if it may copy or close many descriptors.
    fn record(&mut self, instant: Instant, mut step: Step, has_many: bool) {
        let number = self.instants.len() as u32;
        self.about.elapsed_ns = self.about.elapsed_ns.max(instant.leave);
        self.instants.push(instant);
        for touch in self.world.ledger.touches() {
            self.touches.push(touch.resource << 2 | touch.role as u32);
            let resource = self.world.ledger.resources()[touch.resource as usize];
            // A look-up that failed tells that its last name was absent, but not which of the directories before it
            // was.
            let told = match resource.kind {
                ResourceKind::Path => true,
                ResourceKind::Absence => {
                    touch.role != Role::Use || self.world.looked == Some((resource.key as u32, true))
                }
                _ => false,
            };
            if told {
                self.world.tree.node_mut(resource.key as u32).known = true;
            }
        }
        self.touch_ends.push(u32::try_from(self.touches.len()).expect("fewer touches than 2^32"));
        self.mark_used(&step);
        if step.slots.is_empty() || !has_many {
            self.names.share(&mut step.call);
        } else {
            self.late.push(number);
        }
        self.steps.push(step);
    }

    fn mark_used(&mut self, step: &Step) {
        self.used.resize(self.world.slots.len(), false);
        let mut call = step.call.clone();
        call.change_fds(&mut |fd| {
            if let Some(used) = usize::try_from(fd.0).ok().and_then(|slot| self.used.get_mut(slot)) {
                *used = true;
            }
        });
        for effect in &step.slots {
            if let crate::compiled::SlotEffect::Made(fd) = effect {
                self.used[fd.0 as usize] = true;
            }
        }
    }
}

/// Whether the model's answer is not what the trace tells, in a matter that the model knows.
pub(super) fn contradicts(told: Outcome, answer: Answer<i64>) -> bool {
    match told {
        Outcome::Done(_) => answer.is_err(),
        Outcome::Failed(errno) => answer != Err(errno) && explains(errno),
        Outcome::Unknown => false,
    }
}

/// Whether files and descriptors alone decide about such a failure.
fn explains(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ENOENT
            | Errno::EEXIST
            | Errno::ENOTDIR
            | Errno::EISDIR
            | Errno::ENOTEMPTY
            | Errno::ELOOP
            | Errno::EBADF
            | Errno::ENAMETOOLONG
    )
}
