//! What a reader or recorder counts instead of refusing: how often, and where first.

use std::collections::BTreeMap;

/// Places kept of each kind.
const PLACES_MAX: usize = 5;

/// What was odd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarningKind {
    /// A line that is no call, signal or exit; it was left out.
    BadLine,
    /// The last line stops in the middle; it was left out.
    CutLine,
    /// A call that was still running at the end; it was left out.
    Unfinished,
    /// A line that resumes a call that nobody began; it was left out.
    ResumedWithoutStart,
    /// A call that nobody knows; kept as `Other`.
    UnknownCall,
    /// A call whose arguments are none of its; kept as `Other`.
    BadArguments,
    /// Flag words that nobody knows; the others were kept.
    UnknownFlag,
    /// A path that the recorder cut; the call was kept as `Other`.
    CutPath,
    /// A time before the one of an earlier line; it was set to that one.
    TimeBackwards,
    /// A call without a duration: the recorder was not told to note it, so the call seems to take no time.
    NoDuration,
    /// A call that was interrupted and begun again; the two are one.
    Restarted,
    /// A descriptor that was opened although its number was taken: a lost `close`.
    FdReopened,
    /// A descriptor that was used before anything opened it: inferred as inherited.
    FdInherited,
    /// A thread that appeared although nothing made it.
    ThreadAppeared,
    /// Events that the recorder lost.
    LostEvents,
    /// Files mapped writable and shared: accesses through the map are not in the trace.
    MappedWrites,
    /// Requests of an io_uring that the recorder did not see.
    UringUnseen,
    /// A file that the snapshot could not read.
    SnapshotUnreadable,
    /// The recording's tail is missing or damaged; what came before was kept.
    CutTail,
    /// The recording was slowed on purpose (strace's delay injection).
    DelayInjected,
    /// Records of a damaged part that were left out.
    Damaged,
}

/// Where something was: a line, an offset, and what stood there.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Place {
    /// Line from 1 (text) or byte offset (binary).
    pub at: u64,
    /// What stood there, shortened.
    pub text: String,
}

/// How often, and the first places.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Tally {
    /// How often.
    pub count: u64,
    /// The first places.
    pub places: Vec<Place>,
}

/// All warnings of one reading.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
#[serde(transparent)]
pub struct Warnings {
    tallies: BTreeMap<WarningKind, Tally>,
}

impl Warnings {
    /// Counts one.
    pub fn add(&mut self, kind: WarningKind, at: u64, text: impl Into<String>) {
        self.add_many(kind, 1, at, text);
    }

    /// Counts several with one place.
    pub fn add_many(&mut self, kind: WarningKind, count: u64, at: u64, text: impl Into<String>) {
        let tally = self.tallies.entry(kind).or_default();
        tally.count += count;
        if tally.places.len() < PLACES_MAX {
            tally.places.push(Place { at, text: text.into() });
        }
    }

    /// How often.
    pub fn count(&self, kind: WarningKind) -> u64 {
        self.tallies.get(&kind).map_or(0, |tally| tally.count)
    }

    /// All that were counted.
    pub fn tallies(&self) -> impl Iterator<Item = (WarningKind, &Tally)> {
        self.tallies.iter().map(|(kind, tally)| (*kind, tally))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tallies.is_empty()
    }
}
