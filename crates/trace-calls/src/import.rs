//! Foreign traces. A [`TraceSource`] cuts a format into calls with unnamed arguments; all that follows is shared: the
//! meaning of each call ([`decode`]) and its thread and process ([`assemble`]).
//!
//! Reading order: this file, [`lex`] (values as strace writes them), [`strace`], [`ibench`], [`decode`], [`assemble`].

pub mod assemble;
pub mod decode;
pub mod ibench;
pub mod lex;
pub mod strace;
mod text;

pub use assemble::read_trace;

use crate::trace::Platform;
use crate::warning::Warnings;
use esker_base::Errno;
use lex::Arg;

/// What is done about a line that cannot be read, or a path that the recorder cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBad {
    /// The trace is refused there.
    Fail,
    /// It is left out and counted.
    Skip,
}

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// A line is nothing that the format knows.
    #[error("line {line}, column {column}: {what}: \"{text}\"; --on-bad-line skip leaves such lines out")]
    BadLine {
        /// From 1.
        line: u64,
        /// From 1, in bytes.
        column: usize,
        /// What was expected.
        what: &'static str,
        /// The line, shortened.
        text: String,
    },
    /// The recorder cut a path, so the file is unknown.
    #[error("line {line}: the path \"{text}\" was cut by the recorder: record with a longer limit (strace -s 4096)")]
    CutPath {
        /// From 1.
        line: u64,
        /// What is left of it.
        text: String,
    },
    /// The lines have no times, or some of a kind that cannot be ordered.
    #[error("line {line}: no time at the start of \"{text}\": record with strace -f -ttt -T")]
    NoTime {
        /// From 1.
        line: u64,
        /// The line, shortened.
        text: String,
    },
    /// Nothing in it is a call.
    #[error("no call in {lines} lines: is this a trace of system calls?")]
    NoCalls {
        /// Lines that were read.
        lines: u64,
    },
    /// The bytes could not be read.
    #[error("line {line}: cannot be read: {source}")]
    Unreadable {
        /// The line before which it failed.
        line: u64,
        /// Why.
        source: std::io::Error,
    },
}

/// How a call ended, as a format tells it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ret {
    /// What was returned; `None` where its return was not seen.
    pub value: Option<i64>,
    /// Why it failed.
    pub errno: Option<Errno>,
    /// What the recorder noted beside the result: for a descriptor, what it is open on.
    pub note: Option<Vec<u8>>,
}

/// A call as a format tells it: its arguments have places, but no meaning yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawCall {
    /// The line on which it began, from 1.
    pub line: u64,
    /// Its process, where the format tells it.
    pub pid: Option<u32>,
    /// Its thread.
    pub tid: u32,
    /// When it began, in ns on the source's clock.
    pub enter: u64,
    /// When it returned.
    pub leave: u64,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: Vec<Arg>,
    /// How it ended.
    pub ret: Ret,
}

/// A format of traces.
pub trait TraceSource {
    /// The next call, in the order in which their last lines come; `None` at the end.
    ///
    /// # Errors
    /// The trace cannot be read on. What is only odd goes to `warnings`.
    fn next_call(&mut self, warnings: &mut Warnings) -> Result<Option<RawCall>, ParseError>;

    /// The platform it was recorded on.
    fn platform(&self) -> Platform;

    /// Its name.
    fn name(&self) -> &'static str;

    /// Lines that were read.
    fn lines(&self) -> u64;
}
