//! Rules that turn touched resources into an order of actions.
//!
//! Source: ROOT (resource-oriented ordering for trace replay). An edge from A to B says that B is issued after A is
//! complete. Edges between actions of one thread are never made: a thread plays its actions in order.
//!
//! The source takes a trace for totally ordered; calls of several threads overlap in fact. Where both are known to be
//! apart, A comes before B if A returned before B was entered. Of two that overlap, the *sequential* rule orders
//! neither. *Stage* and *name* order a creation before what needs it, and uses before a removal, in the order in which
//! the compiler found the results possible. They do not order behind a call that waits for others (a read of a pipe, a
//! lock): its peer might never come.
//!
//! Names alone do not tell that a directory is empty, nor where the names in it lead. So *stage* on paths also orders
//! what looks for a name in a directory before the removal or the renaming of that directory. *Stage* on descriptors
//! orders the end of a lock before the next lock of the file that it kept waiting.
//!
//! The source's sequential rule orders reads of one file, too, though nothing passes from one to the other: a replay
//! then makes a thread wait for the thread that read before it in the trace. *Readers and writers*, ours, is sequential
//! without that: an action that only looks comes after the changes before it, and before those behind it.
//!
//! Reading order: this file (which rules there are), [`outline`] (what they need to know of a trace), [`derive`]
//! (edges), [`reduce`] (those that are implied by others go),
//! [`schedule`] (what each action waits for in a mode of replay), [`check`] (whether a replay kept to it).

pub mod check;
pub mod derive;
pub mod outline;
pub mod reduce;
pub mod schedule;

#[cfg(test)]
mod tests;

use std::fmt;

use bitflags::bitflags;

pub use check::{Violation, violations};
pub use derive::{Deriver, Edge};
pub use outline::{Instant, Looks, Outline};
pub use reduce::Wait;
pub use schedule::{Candidate, Order, RuleCount, Schedule};

bitflags! {
    /// A set of rules; in an [`Edge`], those that ask for it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Rules: u32 {
        /// All actions in the order of the trace.
        const PROGRAM_SEQ = 1 << 0;
        /// A thread's actions in order, and those of the thread before and behind the requests that it submits. Always
        /// on.
        const THREAD_SEQ = 1 << 1;
        /// Sequential on files that are no directories.
        const FILE_SEQ = 1 << 2;
        /// Stage on paths, and uses of a directory before its removal or renaming.
        const PATH_STAGE = 1 << 3;
        /// Name on paths.
        const PATH_NAME = 1 << 4;
        /// Stage on descriptors and on maps of files; the end of a lock before the next one.
        const FD_STAGE = 1 << 5;
        /// Sequential on descriptors.
        const FD_SEQ = 1 << 6;
        /// Stage on control blocks.
        const AIO_STAGE = 1 << 7;
        /// Stage on names that nothing has: a failed look-up comes before what makes the name, and after what removes
        /// it.
        const PATH_NEGATIVE = 1 << 8;
        /// Stage on files.
        const FILE_STAGE = 1 << 9;
        /// Sequential on paths.
        const PATH_SEQ = 1 << 10;
        /// Sequential on control blocks.
        const AIO_SEQ = 1 << 11;
        /// Name on control blocks.
        const AIO_NAME = 1 << 12;
        /// Sequential on directories.
        const DIR_SEQ = 1 << 13;
        /// Sequential on what threads synchronise on, in traces that tell.
        const SYNC_SEQ = 1 << 14;
        /// Stage on threads: a thread's actions come after the call that made it, a wait for its end after them.
        const THREAD_STAGE = 1 << 15;
        /// In the temporal order only: each action is issued after all earlier ones.
        const TRACE_ORDER = 1 << 16;
        /// Sequential on files that are no directories, but for calls that only look at them.
        const FILE_RW = 1 << 17;
        /// Sequential on descriptors, but for calls that only look at what is behind them.
        const FD_RW = 1 << 18;
        /// Stage on wakes: a wait that another thread ended comes after what ended it.
        const WAKE_STAGE = 1 << 19;
    }
}

/// Every rule that can be chosen: its name, its bits, and whether it is on unless it is switched off.
pub const NAMED: &[(&str, Rules, bool)] = &[
    ("program_seq", Rules::PROGRAM_SEQ, false),
    ("thread_seq", Rules::THREAD_SEQ, true),
    ("file_seq", Rules::FILE_SEQ, true),
    ("path_stage+", Rules::PATH_STAGE.union(Rules::PATH_NAME), true),
    ("fd_stage", Rules::FD_STAGE, true),
    ("fd_seq", Rules::FD_SEQ, true),
    ("aio_stage", Rules::AIO_STAGE, true),
    ("path_negative", Rules::PATH_NEGATIVE, true),
    ("wake_stage", Rules::WAKE_STAGE, true),
    ("file_rw", Rules::FILE_RW, false),
    ("fd_rw", Rules::FD_RW, false),
    ("file_stage", Rules::FILE_STAGE, false),
    ("path_seq", Rules::PATH_SEQ, false),
    ("aio_seq", Rules::AIO_SEQ, false),
    ("aio_name", Rules::AIO_NAME, false),
    ("dir_seq", Rules::DIR_SEQ, false),
    ("sync_seq", Rules::SYNC_SEQ, false),
    ("thread_stage", Rules::THREAD_STAGE, false),
];

/// Rules of which one says all that the other does: switching one on switches the other off.
const EITHER: [(Rules, Rules); 2] = [(Rules::FILE_SEQ, Rules::FILE_RW), (Rules::FD_SEQ, Rules::FD_RW)];

/// A choice of rules that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The order within a thread was to be given up.
    #[error("thread_seq cannot be switched off: no trace shows another order of the actions of one thread")]
    ThreadSeq,
    /// Only half of the joint rule of paths.
    #[error(
        "{0} cannot be chosen alone: stage and name hold on paths only together, as \"path_stage+\", because a replay has no other names to use"
    )]
    PathAlone(String),
    /// There is no such rule.
    #[error("there is no rule \"{name}\"; rules are {}", .known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Every name.
        known: Vec<&'static str>,
    },
}

impl Default for Rules {
    fn default() -> Rules {
        NAMED.iter().filter(|(_, _, on)| *on).fold(Rules::empty(), |all, (_, rule, _)| all | *rule)
    }
}

impl Rules {
    /// The rules of a name.
    ///
    /// # Errors
    /// There is none, or it is one half of a joint rule.
    pub fn named(name: &str) -> Result<Rules, RuleError> {
        let name = name.trim();
        match name {
            "path_stage" | "path_name" => Err(RuleError::PathAlone(name.to_string())),
            _ => match NAMED.iter().find(|(known, _, _)| *known == name) {
                Some((_, rules, _)) => Ok(*rules),
                None => {
                    let known = NAMED.iter().map(|(known, _, _)| *known).collect();
                    Err(RuleError::Unknown { name: name.to_string(), known })
                }
            },
        }
    }

    /// These rules and the named one, in place of one that goes further or not as far.
    ///
    /// # Errors
    /// As [`Rules::named`].
    pub fn with(self, name: &str) -> Result<Rules, RuleError> {
        let rule = Rules::named(name)?;
        let others = EITHER.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)]);
        let replaced = others.filter(|(one, _)| rule == *one).fold(Rules::empty(), |all, (_, other)| all | other);
        Ok((self - replaced) | rule)
    }

    /// These rules but the named one.
    ///
    /// # Errors
    /// As [`Rules::named`], and for `thread_seq`.
    pub fn without(self, name: &str) -> Result<Rules, RuleError> {
        match Rules::named(name)? {
            Rules::THREAD_SEQ => Err(RuleError::ThreadSeq),
            rules => Ok(self - rules),
        }
    }

    /// Refuses sets that no replay can keep.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn check(self) -> Result<Rules, RuleError> {
        if !self.contains(Rules::THREAD_SEQ) {
            return Err(RuleError::ThreadSeq);
        }
        match (self.contains(Rules::PATH_STAGE), self.contains(Rules::PATH_NAME)) {
            (true, false) => Err(RuleError::PathAlone("path_stage".into())),
            (false, true) => Err(RuleError::PathAlone("path_name".into())),
            _ => Ok(self),
        }
    }
}

/// Names in the order of the list; a half of a joint rule by its own name.
impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let halves =
            [("path_stage", Rules::PATH_STAGE), ("path_name", Rules::PATH_NAME), ("trace_order", Rules::TRACE_ORDER)];
        let named = NAMED.iter().map(|(name, rules, _)| (*name, *rules));
        let mut left = *self;
        let mut names = Vec::new();
        for (name, rules) in named.chain(halves) {
            if left.contains(rules) {
                left -= rules;
                names.push(name);
            }
        }
        f.write_str(&names.join(" "))
    }
}
