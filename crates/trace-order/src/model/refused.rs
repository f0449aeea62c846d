//! Why a trace cannot be compiled.

use super::compile::{ACTIONS_MAX, THREADS_MAX};

/// A trace that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It names threads or processes that it does not list.
    #[error("action {action} is of thread {thread}, but the trace lists {threads} threads")]
    NoThread {
        /// Its number, from 0.
        action: usize,
        /// The thread.
        thread: u32,
        /// How many there are.
        threads: usize,
    },
    /// A thread of a process that it does not list.
    #[error("thread {thread} is of process {process}, but the trace lists {processes} processes")]
    NoProcess {
        /// The thread.
        thread: usize,
        /// The process.
        process: u32,
        /// How many there are.
        processes: usize,
    },
    /// Actions are not in the order of their entries.
    #[error("action {action} was entered before the one that precedes it: sort the trace by time")]
    Unsorted {
        /// Its number, from 0.
        action: usize,
    },
    /// More threads than a replay could ever play.
    #[error("{threads} threads are more than {THREADS_MAX}: compile parts of the trace")]
    TooManyThreads {
        /// How many there are.
        threads: usize,
    },
    /// More than can be compiled.
    #[error("{actions} actions are more than {ACTIONS_MAX}: compile parts of the trace")]
    TooLong {
        /// How many there are.
        actions: usize,
    },
}
