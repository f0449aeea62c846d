//! What the compiler tells of a trace and of its own work.

use std::collections::BTreeMap;

use esker_trace_calls::name::Word;
use esker_trace_calls::trace::Platform;
use esker_trace_calls::warning::{WarningKind, Warnings};
use serde::Serialize;

/// Actions named for each kind of repair.
const PLACES_MAX: usize = 5;

/// What in a trace contradicts the files as the model knows them, and what was done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RepairKind {
    /// A file that no snapshot lists was there: it is added to the tree before the first action.
    EntryImplied,
    /// A file appeared though no action made it.
    EntryAppeared,
    /// A file was gone though no action removed it.
    EntryVanished,
    /// A name led to something of another type.
    TypeChanged,
    /// `O_EXCL` succeeded though the name was there: it is replayed without.
    ExclusiveDropped,
    /// A descriptor was used that nothing had opened: it is opened before the start.
    DescriptorInferred,
    /// A descriptor's number was given out though it was taken: a lost `close`.
    DescriptorReplaced,
    /// More was read than the file held: it was larger.
    SizeGrown,
    /// A call failed though nothing in the files speaks against its success; its errno is none that files explain.
    FailureForeign,
    /// A call failed though the files say that it succeeds, or fails otherwise.
    FailureUnexplained,
    /// A call succeeded, and no repair explains it.
    SuccessUnexplained,
    /// Two overlapping calls took effect in the order in which they were not entered.
    OrderChanged,
    /// A call whose effect on files or descriptors is not modelled.
    Unmodelled,
}

impl RepairKind {
    /// Every kind.
    pub const ALL: [RepairKind; 13] = [
        RepairKind::EntryImplied,
        RepairKind::EntryAppeared,
        RepairKind::EntryVanished,
        RepairKind::TypeChanged,
        RepairKind::ExclusiveDropped,
        RepairKind::DescriptorInferred,
        RepairKind::DescriptorReplaced,
        RepairKind::SizeGrown,
        RepairKind::FailureForeign,
        RepairKind::FailureUnexplained,
        RepairKind::SuccessUnexplained,
        RepairKind::OrderChanged,
        RepairKind::Unmodelled,
    ];

    /// What it means, in a few words.
    pub fn means(self) -> &'static str {
        match self {
            RepairKind::EntryImplied => "files that no snapshot lists, added to the tree at the start",
            RepairKind::EntryAppeared => "files that appeared without an action",
            RepairKind::EntryVanished => "files that vanished without an action",
            RepairKind::TypeChanged => "files that changed their type without an action",
            RepairKind::ExclusiveDropped => "O_EXCL dropped: it succeeded on a name that was there",
            RepairKind::DescriptorInferred => "descriptors that were open before the trace, told by their use",
            RepairKind::DescriptorReplaced => "descriptors opened on a number that was taken",
            RepairKind::SizeGrown => "files larger than known, told by reads",
            RepairKind::FailureForeign => "failures for reasons outside the files",
            RepairKind::FailureUnexplained => "failures that the files do not explain",
            RepairKind::SuccessUnexplained => "successes that no repair explains",
            RepairKind::OrderChanged => "overlapping calls that took effect in the other order",
            RepairKind::Unmodelled => "calls whose effect is not modelled",
        }
    }
}

/// How often, and at which actions first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RepairTally {
    /// How often.
    pub count: u64,
    /// The first actions, and what was repaired there.
    pub places: Vec<(u32, String)>,
}

/// All repairs of one compilation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Repairs {
    pub(crate) tallies: BTreeMap<RepairKind, RepairTally>,
}

impl Repairs {
    /// Counts one at an action.
    pub fn add(&mut self, kind: RepairKind, action: u32, what: impl FnOnce() -> String) {
        let tally = self.tallies.entry(kind).or_default();
        tally.count += 1;
        if tally.places.len() < PLACES_MAX {
            tally.places.push((action, what()));
        }
    }

    /// How often.
    pub fn count(&self, kind: RepairKind) -> u64 {
        self.tallies.get(&kind).map_or(0, |tally| tally.count)
    }

    /// All that were counted.
    pub fn tallies(&self) -> impl Iterator<Item = (RepairKind, &RepairTally)> {
        self.tallies.iter().map(|(kind, tally)| (*kind, tally))
    }

    /// Those that say that trace and snapshot do not belong together; what a trace can well imply is not counted.
    pub fn contradictions(&self) -> u64 {
        let harmless = [
            RepairKind::EntryImplied,
            RepairKind::DescriptorInferred,
            RepairKind::SizeGrown,
            RepairKind::FailureForeign,
            RepairKind::OrderChanged,
            RepairKind::Unmodelled,
        ];
        self.tallies().filter(|(kind, _)| !harmless.contains(kind)).map(|(_, tally)| tally.count).sum()
    }
}

/// What a recording has no more of what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Losses {
    /// Events that the recorder lost.
    pub events: u64,
    /// Records of damaged parts.
    pub records: u64,
    /// Ends that are missing.
    pub ends: u64,
}

impl Losses {
    /// What the warnings of a reading tell.
    pub fn of(warnings: &Warnings) -> Losses {
        let count = |kind| warnings.count(kind);
        let (events, records) = (count(WarningKind::LostEvents), count(WarningKind::Damaged));
        Losses { events, records, ends: count(WarningKind::CutTail) }
    }

    /// Whether nothing is.
    pub fn is_nothing(&self) -> bool {
        *self == Losses::default()
    }
}

/// What a compiled trace tells of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct About {
    /// The system that the trace is from.
    pub platform: Platform,
    /// What recorded it.
    pub source: Word,
    /// Time of the last return, in ns since the start.
    pub elapsed_ns: u64,
    /// What was repaired.
    pub repairs: Repairs,
    /// What the recording lost.
    pub lost: Losses,
}

impl Default for About {
    fn default() -> About {
        About {
            platform: Platform::Linux,
            source: Word::from("none"),
            elapsed_ns: 0,
            repairs: Repairs::default(),
            lost: Losses::default(),
        }
    }
}
