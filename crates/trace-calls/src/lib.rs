//! Traces of system calls: what threads asked of the file system, and the formats that are read and written.
//!
//! Invariant: never opens a file and never makes a call: reads bytes that it is given.
//!
//! Reading order: [`name`] (paths and words as bytes), [`words`] (flags and choices under portable names),
//! [`call`] (the closed list of calls), [`action`], [`snapshot`], [`final_tree`], [`trace`] (all together),
//! [`warning`] (what is counted rather than refused), [`import`] (foreign formats).

#![forbid(unsafe_code)]

pub mod action;
pub mod anonymise;
pub mod call;
pub mod etrace;
pub mod final_tree;
pub mod generate;
pub mod import;
pub mod name;
pub mod snapshot;
pub mod trace;
pub mod warning;
pub mod wire;
pub mod words;

pub use action::{Action, Outcome, ProcessId, ThreadId};
pub use call::{AsyncOp, AsyncQueue, At, Call, Fd, Object, Status};
pub use esker_base::Errno;
pub use final_tree::FinalTree;
pub use name::{PathBytes, Word};
pub use snapshot::{Entry, EntryKind, Snapshot, Xattr};
pub use trace::{Inherited, Platform, Process, Thread, Trace};
pub use warning::{TracePosition, WarningKind, Warnings};
