//! One call of one thread, when it happened and how it ended.

use esker_base::Time;

use crate::call::Call;
use crate::wire::{Decoder, Encoder, Field, Malformed};
use esker_base::Errno;

/// A thread of a trace: an index into its list of threads. Numbers of the system may come twice, these may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct ThreadId(pub u32);

/// A process of a trace: an index into its list of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct ProcessId(pub u32);

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It returned this.
    Done(i64),
    /// It failed.
    Failed(Errno),
    /// It never returned, or its return was not seen: `exit`, an `execve` that another thread overtook, a thread that
    /// was killed.
    Unknown,
}

impl Outcome {
    /// What it returned, if it succeeded.
    pub fn value(self) -> Option<i64> {
        match self {
            Outcome::Done(value) => Some(value),
            _ => None,
        }
    }

    /// Why it failed, if it did.
    pub fn errno(self) -> Option<Errno> {
        match self {
            Outcome::Failed(errno) => Some(errno),
            _ => None,
        }
    }
}

/// One call. In a trace, actions are in the order of `enter`; of equal ones, in the order of the recording.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Action {
    /// Whose.
    pub thread: ThreadId,
    /// When it began, since the start of the trace.
    #[serde(serialize_with = "nanos")]
    pub enter: Time,
    /// When it returned; never before `enter`. For [`Outcome::Unknown`], `enter` or when the thread ended.
    #[serde(serialize_with = "nanos")]
    pub leave: Time,
    /// What it asked.
    #[serde(flatten)]
    pub call: Call,
    /// What came of it.
    pub outcome: Outcome,
}

impl Field for Outcome {
    fn put(&self, to: &mut Encoder<'_>) {
        match self {
            Outcome::Done(0) => to.byte(0),
            Outcome::Done(value) => {
                to.byte(1);
                value.put(to);
            }
            Outcome::Failed(errno) => {
                to.byte(2);
                errno.put(to);
            }
            Outcome::Unknown => to.byte(3),
        }
    }

    fn get(from: &mut Decoder<'_>) -> Result<Outcome, Malformed> {
        Ok(match from.byte()? {
            0 => Outcome::Done(0),
            1 => Outcome::Done(Field::get(from)?),
            2 => Outcome::Failed(Field::get(from)?),
            3 => Outcome::Unknown,
            _ => return Err(from.malformed("no kind of outcome")),
        })
    }

    fn render(&self, to: &mut String) {
        match self {
            Outcome::Done(value) => value.render(to),
            Outcome::Failed(errno) => errno.render(to),
            Outcome::Unknown => to.push('?'),
        }
    }
}

fn nanos<S: serde::Serializer>(time: &Time, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(time.0)
}
