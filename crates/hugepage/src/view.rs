//! What the policy sees of processes and memory, and what it may do to them: of this machine, or of a simulated one.

use esker_base::Nanos;

use crate::utilisation::Util;

/// A process, or a virtual machine: the process that holds its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pid(pub u32);

/// Number of a region: virtual address divided by 2 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region(pub u64);

/// A region of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegionAddress {
    /// Whose.
    pub pid: Pid,
    /// Which.
    pub region: Region,
}

/// What holds the pages of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Base pages.
    Base,
    /// One huge page.
    Huge,
    /// One huge page in physical memory that is mapped in base pages: what was freed of it is not given back before it
    /// is demoted.
    Split,
}

/// Why a region is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// Its mapping, or its process, refuses huge pages.
    Advised,
    /// It holds a file, or is shared.
    File,
    /// No single mapping covers it.
    Partial,
    /// It belongs to a device or to the kernel.
    Special,
}

impl Skip {
    /// It in a word.
    pub fn word(self) -> &'static str {
        match self {
            Skip::Advised => "refuses_huge_pages",
            Skip::File => "file_or_shared",
            Skip::Partial => "not_one_mapping",
            Skip::Special => "special",
        }
    }
}

/// A region as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionView {
    /// Pages that hold memory. Pages that were only read before any write do not count.
    pub used: Util,
    /// What holds them.
    pub backing: Backing,
    /// Why it cannot have a huge page, if so.
    pub skip: Option<Skip>,
}

/// Why a region was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeError {
    /// Some of its pages are pinned; later it may work.
    Pinned,
    /// The limit of its group is reached.
    Limit,
    /// No free huge page can be had.
    NoContiguity,
    /// The mapping is no longer what it was.
    Changed,
    /// The call succeeded and the region is as before.
    NothingDone,
    /// The process is gone.
    Gone,
    /// This program may not.
    Denied,
    /// Its pages may be shared, and its process does not do what it is told about that.
    Mergeable,
}

impl ChangeError {
    /// It in a word.
    pub fn word(self) -> &'static str {
        match self {
            ChangeError::Pinned => "pinned",
            ChangeError::Limit => "group_limit",
            ChangeError::NoContiguity => "no_contiguity",
            ChangeError::Changed => "changed",
            ChangeError::NothingDone => "nothing_done",
            ChangeError::Gone => "gone",
            ChangeError::Denied => "denied",
            ChangeError::Mergeable => "still_mergeable",
        }
    }
}

/// How a change ended, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it was done, which was looked at afterwards.
    pub result: Result<(), ChangeError>,
    /// Time of the call.
    pub took: Nanos,
}

/// Processes, their memory, and the free contiguity that they share.
pub trait ProcView {
    /// The processes to manage, with their shares, by number.
    fn processes(&mut self) -> Vec<(Pid, u64)>;

    /// A region, or nothing if process or mapping are gone.
    fn look(&mut self, place: RegionAddress) -> Option<RegionView>;

    /// The next region at or after `from` that holds memory.
    fn next(&mut self, pid: Pid, from: Region) -> Option<(Region, RegionView)>;

    /// The regions that a huge page backs, in order.
    fn huge(&mut self, pid: Pid) -> Vec<Region>;

    /// Makes the region's memory one huge page.
    fn promote(&mut self, place: RegionAddress) -> Outcome;

    /// Makes it base pages, and gives back those that are not in use.
    fn demote(&mut self, place: RegionAddress) -> Outcome;

    /// A number that changes as soon as a process does anything; nothing where that cannot be told.
    fn activity(&mut self, pid: Pid) -> Option<u64>;

    /// Begins to watch regions: what is used from now on counts as accessed.
    fn clear_accessed(&mut self, pid: Pid, regions: &[Region]);

    /// Which regions have been used since they were last cleared; nothing where that cannot be told.
    fn accessed(&mut self, pid: Pid, regions: &[Region]) -> Vec<Option<bool>>;

    /// Regions whose use has crossed a threshold since the last call.
    fn signals(&mut self) -> Vec<RegionAddress>;

    /// How fragmented free memory is, from 0 to 1.
    fn fragmentation(&mut self) -> f64;

    /// Moves at most so many bytes to make contiguity, and returns how many.
    fn compact(&mut self, bytes_max: u64) -> u64;

    /// Free blocks that can back a huge page.
    fn free_blocks(&mut self) -> u64;

    /// Whether regions that come to be used well enough for a promotion are signalled, as they are at first. When that
    /// begins again, so is every one that is, unless some of its pages are shared: those are signalled by writes to
    /// them, always.
    fn listen(&mut self, on: bool);

    /// Whether faults take huge pages at once.
    fn set_greedy(&mut self, greedy: bool);

    /// The regions that hold memory, with whether a huge page backs them, of a process that can be told which of its
    /// pages may be shared; nothing of others.
    fn sharable(&mut self, pid: Pid) -> Option<Vec<(Region, bool)>>;

    /// The regions of a process whose pages may be shared.
    fn mergeable(&mut self, pid: Pid) -> Vec<Region>;

    /// Says that the pages of `count` regions may be shared, or may no longer, which makes them private again. False if
    /// that was not done.
    fn set_mergeable(&mut self, pid: Pid, from: Region, count: u64, mergeable: bool) -> bool;

    /// Whether pages of a region are shared.
    fn is_merged(&mut self, place: RegionAddress) -> bool;
}
