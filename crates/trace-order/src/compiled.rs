//! A compiled trace: everything that a replay needs, for every mode and rule set, in one file.
//!
//! A [`Program`] is built by [`crate::model::compile()`], becomes bytes by [`Program::encode`] and comes back by
//! [`Program::decode`]. It keeps *touches*, not edges: edges depend on the rules, which are chosen at replay, and deriving them
//! again takes less time than reading them. [`Program::schedule`] derives, reduces, and gives each action its waits.
//!
//! In its calls every descriptor number is a *slot*, one for each descriptor that ever was: numbers that were used
//! again, by whichever process, are different slots. Paths are absolute, or relative to a slot; working directories and
//! masks of permission bits are already worked in.
//!
//! The bytes are described in `docs/reference/formats/compiled-trace.md`. Reading order: this file, [`step`] (one
//! action), [`about`] (what the compiler tells of its work), [`inspect`] (edges for people), [`left_out`] (I/O that no
//! call holds), `read`, `write`.

pub mod about;
pub mod inspect;
mod layout;
pub mod left_out;
mod read;
pub mod step;
mod write;

#[cfg(test)]
mod tests;

use esker_trace_calls::FinalTree;
use esker_trace_calls::action::{ProcessId, ThreadId};
use esker_trace_calls::call::Fd;
use esker_trace_calls::name::{PathBytes, Word};
use esker_trace_calls::snapshot::Snapshot;
use esker_trace_calls::words::{FileKind, OpenFlags};
use serde::Serialize;

use crate::rules::{Instant, Order, Outline, Schedule};

pub use about::{About, Losses, RepairKind, Repairs};
pub use left_out::LeftOut;
pub use read::CompiledError;
pub use step::{Notes, SlotEffect, Step};

/// A thread that is replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Player {
    /// Its number on the traced system.
    pub tid: u32,
    /// Its process.
    pub process: ProcessId,
    /// Number of its process on the traced system.
    pub pid: u32,
    /// What the system called it.
    pub name: Word,
    /// The thread whose call made it.
    pub parent: Option<ThreadId>,
}

/// A descriptor that ever was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// Its number in the traced process.
    pub number: i32,
    /// How many descriptors of that process have had the number so far, with this one.
    pub generation: u32,
    /// The process.
    pub process: ProcessId,
}

/// A descriptor that was open before the first action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Opened {
    /// Its slot, as calls name it.
    pub slot: Fd,
    /// What it is open on.
    pub kind: FileKind,
    /// The path, if it has one.
    pub path: Option<PathBytes>,
    /// How it was opened.
    pub flags: OpenFlags,
    /// Its offset.
    pub offset: u64,
    /// Descriptors with the same number above 0 share one open file description.
    pub group: u32,
    /// Whether only its use told that it was open.
    pub inferred: bool,
}

/// A compiled trace.
#[derive(Debug, Clone, Default)]
pub struct Program {
    pub(crate) about: About,
    pub(crate) players: Vec<Player>,
    pub(crate) snapshot: Snapshot,
    pub(crate) after: Option<FinalTree>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) opened: Vec<Opened>,
    pub(crate) outline: Outline,
    /// Actions of each thread.
    pub(crate) actions: Vec<Vec<u32>>,
    /// Names by their number, of resources too: those of steps share their bytes.
    pub(crate) names: Vec<PathBytes>,
    pub(crate) steps: Vec<Step>,
}

impl Program {
    /// What the compiler tells of the trace and of its work.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The threads, by [`ThreadId`].
    pub fn players(&self) -> &[Player] {
        &self.players
    }

    /// The tree before the first action, with what only the trace implied.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The tree after the last action, if the recorder looked at it.
    pub fn after(&self) -> Option<&FinalTree> {
        self.after.as_ref()
    }

    /// Every descriptor that ever was: its index is the number that calls use.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Descriptors to open before the start.
    pub fn opened(&self) -> &[Opened] {
        &self.opened
    }

    /// What the rules need to know.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Number of actions. They are numbered in the order of the trace; where the results of overlapping calls
    /// contradict the order of their entries, in that of their effects.
    pub fn len(&self) -> usize {
        self.outline.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.outline.is_empty()
    }

    /// The numbers of a thread's actions, in its order: what a replay thread plays.
    pub fn actions(&self, thread: ThreadId) -> &[u32] {
        &self.actions[thread.0 as usize]
    }

    /// Time and thread of an action.
    pub fn instant(&self, action: u32) -> &Instant {
        &self.outline.instants()[action as usize]
    }

    /// One action.
    pub fn step(&self, action: u32) -> &Step {
        &self.steps[action as usize]
    }

    /// All actions, by their numbers.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What each action waits for in an order.
    pub fn schedule(&self, order: Order) -> Schedule {
        Schedule::new(&self.outline, order)
    }

    /// Finds out which actions are whose, once the outline is complete.
    pub(crate) fn index(&mut self) {
        self.actions = vec![Vec::new(); self.players.len()];
        for (id, instant) in self.outline.instants().iter().enumerate() {
            self.actions[instant.thread as usize].push(id as u32);
        }
    }
}
