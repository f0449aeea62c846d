//! What a reader or recorder counts instead of refusing: how often, and where first.

use std::collections::BTreeMap;

use crate::wire::{structs, word_fields};
use crate::words::choices;

/// Places kept of each kind.
const PLACES_MAX: usize = 5;
/// Longest text of a place, in characters.
const TEXT_MAX: usize = 200;

choices! {
    /// What was odd.
    WarningKind {
        /// A line that is no call, signal or exit; it was left out.
        BadLine = 1 "bad-line",
        /// The last line stops in the middle; it was left out.
        CutLine = 2 "cut-line",
        /// A call that was still running at the end; it was left out.
        Unfinished = 3 "unfinished",
        /// A line that resumes a call without a beginning; it was left out.
        ResumedWithoutStart = 4 "resumed-without-start",
        /// An unknown call; kept as `Other`.
        UnknownCall = 5 "unknown-call",
        /// A call whose arguments are none of its; kept as `Other`.
        BadArguments = 6 "bad-arguments",
        /// Unknown flag words; the others were kept.
        UnknownFlag = 7 "unknown-flag",
        /// A path that the recorder cut; the call was kept as `Other`.
        CutPath = 8 "cut-path",
        /// A time before the one of an earlier line; it was set to that one.
        TimeBackwards = 9 "time-backwards",
        /// A call without a duration: the recorder was not told to note it, so the call seems to take no time.
        NoDuration = 10 "no-duration",
        /// A call that was interrupted and begun again; the two are one.
        Restarted = 11 "restarted",
        /// A descriptor that was opened although its number was taken: a lost `close`.
        FdReopened = 12 "fd-reopened",
        /// A descriptor that was used before anything opened it: inferred as inherited.
        FdInherited = 13 "fd-inherited",
        /// A thread that appeared although nothing made it.
        ThreadAppeared = 14 "thread-appeared",
        /// Events that the recorder lost.
        LostEvents = 15 "lost-events",
        /// Files mapped writable and shared: accesses through the map are not in the trace.
        MappedWrites = 16 "mapped-writes",
        /// Requests of an io_uring that the recorder did not see.
        UringUnseen = 17 "uring-unseen",
        /// A file that the snapshot could not read.
        SnapshotUnreadable = 18 "snapshot-unreadable",
        /// The recording's tail is missing or damaged; what came before was kept.
        CutTail = 19 "cut-tail",
        /// The recording was slowed on purpose (strace's delay injection).
        DelayInjected = 20 "delay-injected",
        /// Records of a damaged part that were left out.
        Damaged = 21 "damaged",
        /// Files mapped readable by a recorder that sees no page faults: reads through the map are not in the trace.
        MappedReads = 22 "mapped-reads",
        /// Rings of which the kernel takes requests by itself (`IORING_SETUP_SQPOLL`): no call tells of them.
        UringPolled = 23 "uring-polled",
    }
}

word_fields! { choices: WarningKind; flags: }
structs! {
    Tally { count, places }
    TracePosition { at, text }
}

/// Where something was: a line, an offset, and what stood there.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TracePosition {
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
    pub places: Vec<TracePosition>,
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
            let mut text = text.into();
            if let Some((end, _)) = text.char_indices().nth(TEXT_MAX) {
                text.truncate(end);
            }
            tally.places.push(TracePosition { at, text });
        }
    }

    /// Adds those of another reading.
    pub fn merge(&mut self, other: &Warnings) {
        for (kind, tally) in other.tallies() {
            let mine = self.tallies.entry(kind).or_default();
            mine.count = mine.count.saturating_add(tally.count);
            let room = PLACES_MAX.saturating_sub(mine.places.len());
            mine.places.extend(tally.places.iter().take(room).cloned());
        }
    }

    /// Adds what was tallied elsewhere.
    pub(crate) fn add_tally(&mut self, kind: WarningKind, tally: Tally) {
        let mut other = Warnings::default();
        other.tallies.insert(kind, tally);
        self.merge(&other);
    }

    /// Forgets where and what; the counts stay.
    pub fn forget_places(&mut self) {
        self.tallies.values_mut().for_each(|tally| tally.places.clear());
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
