//! What came of a call, or why none was made.

use esker_trace_calls::words::FileKind;
use esker_trace_calls::{Call, Errno as Traced, Outcome};
use esker_trace_order::compiled::{Notes, Step};

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What it returned.
    pub result: Result<i64, Traced>,
    /// What a call of the `stat` family saw: type and size.
    pub seen: Option<(FileKind, u64)>,
    /// Why no call was made, if none was.
    pub skipped: Option<Skip>,
    /// Nanoseconds of the system call itself, where it was timed.
    pub call_ns: Option<u64>,
}

/// Why a call was not made. Its traced result stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// It is about a socket, a terminal, a timer or another process.
    Outside,
    /// It is about threads, memory or programs.
    NotFiles,
    /// A signal, another process, an empty or full pipe, or the source's rights and limits had it fail.
    Circumstance,
    /// Another thread of the replay holds the lock: this mode has no order in which locks are had.
    Contended,
    /// It failed because the source has several file systems, or one that shares no extents. Programs then copy.
    OtherSystems,
    /// Its arguments were not recorded.
    Unseen,
    /// It grants rights, which a foreign trace may not.
    Privileged,
}

impl Skip {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Skip::Outside => "calls on sockets, terminals and other things outside the tree were not made",
            Skip::NotFiles => "calls about threads, memory and programs were not made",
            Skip::Circumstance => {
                "calls that failed by a signal, another's lock, an empty or full pipe, or rights and limits of the source were \
                 not made"
            }
            Skip::Contended => {
                "locks that another thread of the replay held were not taken: this order has none for them"
            }
            Skip::OtherSystems => {
                "clones, links, renames and maps that failed because the source has several file systems, shares no extents \
                 or is no persistent memory were not made"
            }
            Skip::Privileged => crate::privilege::ATTRIBUTES,
            Skip::Unseen => "calls whose requests were not recorded (io_uring, drivers) were not made",
        }
    }
}

/// Why a call gave no result. `E` is the target's own form of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered<E> {
    /// The target's error.
    Errno(E),
    /// It was not made.
    Skip(Skip),
}

impl<E> From<E> for Unanswered<E> {
    fn from(errno: E) -> Unanswered<E> {
        Unanswered::Errno(errno)
    }
}

/// What a user may not do, or a machine has no room or no device for, which is another matter on the target.
const OF_THE_SOURCE: [Traced; 10] = [
    Traced::EPERM,
    Traced::EACCES,
    Traced::EROFS,
    Traced::EMFILE,
    Traced::ENFILE,
    Traced::ENXIO,
    Traced::ENOMEM,
    Traced::ENOSPC,
    Traced::EDQUOT,
    Traced::ETXTBSY,
];

/// Whether a call failed by what no replay repeats: a signal, a bad address, a lock of another process, or rights and
/// limits of the source that its files do not show. Made here it could succeed, and change what later calls find.
pub(crate) fn is_circumstance(step: &Step) -> bool {
    let Some(errno) = step.outcome.errno() else { return false };
    let contended = matches!(errno, Traced::EAGAIN | Traced::EACCES | Traced::EDEADLK);
    let of_the_source = step.notes.contains(Notes::FAILURE_UNEXPLAINED) && OF_THE_SOURCE.contains(&errno);
    // Here all buffers are sound.
    matches!(errno, Traced::EINTR | Traced::EFAULT)
        || matches!(step.call, Call::MakeFd { .. })
        || of_the_source
        || (contended && matches!(step.call, Call::RangeLock { .. } | Call::Flock { .. }))
}

/// Whether a call failed by the source's file systems: made on the one of the replay it could succeed, though the
/// program went on to copy.
pub(crate) fn is_of_other_systems(step: &Step) -> bool {
    let Some(errno) = step.outcome.errno() else { return false };
    let cannot_share = matches!(errno, Traced::EOPNOTSUPP | Traced::ENOTTY | Traced::ENOSYS);
    match step.call {
        Call::CloneRange { .. } | Call::CopyRange { .. } => cannot_share || errno == Traced::EXDEV,
        Call::Rename { .. } | Call::Link { .. } => errno == Traced::EXDEV,
        // A question for persistent memory (`MAP_SYNC`).
        Call::Map { .. } => errno == Traced::EOPNOTSUPP,
        // Sockets that are not made here fail by nothing but their names.
        Call::Bind { .. } => !matches!(errno, Traced::EADDRINUSE | Traced::ENOENT | Traced::ENOTDIR),
        _ => false,
    }
}

/// The traced result; a call that never returned gives 0.
pub(crate) fn as_traced(step: &Step) -> Result<i64, Traced> {
    match step.outcome {
        Outcome::Done(value) => Ok(value),
        Outcome::Failed(errno) => Err(errno),
        Outcome::Unknown => Ok(0),
    }
}
