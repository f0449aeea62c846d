//! Which event ends what another began, and sums over all of them.

use std::collections::BTreeMap;

use esker_base::Nanos;
use esker_trace_block::{BlkStage, category};
use hdrhistogram::Histogram;

use super::wire::{Seen, Tracepoint};

/// More requests than this are under way on no device: beginnings whose ends were lost fill the table.
const UNDER_WAY_MAX: usize = 65_536;

/// Times above an hour count as that: ns.
const SERVICE_MAX: u64 = 3_600_000_000_000;

/// Requests that were queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads, and their bytes.
    pub reads: u64,
    /// Bytes of them.
    pub bytes_read: u64,
    /// Writes, with those of zeroes.
    pub writes: u64,
    /// Bytes of them.
    pub bytes_written: u64,
    /// Flushes, alone or before a write.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Writes of zeroes without data. The trace shows them as writes.
    pub zeroes: u64,
    /// Commands of the driver, which are in the trace and count for no reader.
    pub commands: u64,
}

/// What is known of a request between its two ends.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Nanos,
    process: u32,
    name: [u8; 16],
    /// Bytes that have not ended yet.
    left: u32,
}

/// Sums over a recording.
#[derive(Clone, Debug)]
pub struct Tally {
    /// What was queued.
    pub queued: Counts,
    /// Requests that went to the driver: queued ones may be merged.
    pub issued: u64,
    /// Requests that came back whole.
    pub completed: u64,
    /// Of these, with an error.
    pub failed: u64,
    /// Nanoseconds from the issue of a request, or of a bio from its queueing where the driver has no queues, to its
    /// end.
    pub service: Histogram<u64>,
    by_bio: bool,
    under_way: BTreeMap<u64, Begun>,
}

impl Tally {
    /// Of a device whose driver takes requests from queues, or bios as they come.
    pub(super) fn new(has_queues: bool) -> Tally {
        Tally {
            queued: Counts::default(),
            issued: 0,
            completed: 0,
            failed: 0,
            service: Histogram::new_with_max(SERVICE_MAX, 2).expect("the bounds are possible"),
            by_bio: !has_queues,
            under_way: BTreeMap::new(),
        }
    }

    /// Requests that have not come back.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Takes an event. A completion comes in any thread of the machine: it gets the process that began the request, or
    /// none.
    pub(super) fn take(&mut self, seen: &mut Seen) {
        let (event, address) = (&mut seen.event, seen.address);
        let begun = Begun { at: event.at, process: event.process, name: event.name, left: event.bytes };
        match event.stage {
            BlkStage::Queued => {
                self.count(seen);
                if self.by_bio {
                    self.begin(address, begun);
                }
            }
            BlkStage::Issued => {
                self.issued += 1;
                self.begin(address, begun);
            }
            BlkStage::Completed => {
                (event.process, event.name) = (0, [0; 16]);
                self.failed += u64::from(event.has_failed);
                let Some(begun) = self.under_way.get_mut(&address) else { return };
                (event.process, event.name) = (begun.process, begun.name);
                begun.left = begun.left.saturating_sub(event.bytes);
                if begun.left == 0 || seen.tracepoint == Tracepoint::BioCompleted {
                    let took = event.at.saturating_sub(begun.at);
                    self.completed += 1;
                    self.service.saturating_record(took.0);
                    self.under_way.remove(&address);
                }
            }
        }
    }

    fn begin(&mut self, address: u64, begun: Begun) {
        if self.under_way.len() >= UNDER_WAY_MAX {
            self.under_way.clear();
        }
        self.under_way.insert(address, begun);
    }

    fn count(&mut self, seen: &Seen) {
        let (categories, bytes) = (seen.event.categories, u64::from(seen.event.bytes));
        let (has, counts) = (|one| categories & one != 0, &mut self.queued);
        counts.flushes += u64::from(has(category::FLUSH));
        match bytes {
            _ if has(category::COMMAND) => counts.commands += 1,
            0 => {}
            _ if has(category::DISCARD) => counts.discards += 1,
            _ if has(category::WRITE) => {
                counts.writes += 1;
                counts.bytes_written += bytes;
                counts.zeroes += u64::from(seen.makes_zeroes);
            }
            _ => {
                counts.reads += 1;
                counts.bytes_read += bytes;
            }
        }
    }
}

impl Counts {
    /// All that a reader of the trace counts.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes + self.flushes + self.discards
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_trace_block::BlkEvent;

    fn seen(tracepoint: Tracepoint, at: u64, address: u64, bytes: u32) -> Seen {
        let stage = match tracepoint {
            Tracepoint::BioQueued => BlkStage::Queued,
            Tracepoint::Issued => BlkStage::Issued,
            Tracepoint::Completed | Tracepoint::BioCompleted => BlkStage::Completed,
        };
        let event = BlkEvent {
            stage,
            at: Nanos(at),
            device: (7, 0),
            categories: category::WRITE,
            sector: 0,
            bytes,
            process: at as u32,
            name: *b"writer\0\0\0\0\0\0\0\0\0\0",
            has_failed: false,
        };
        Seen { tracepoint, address, makes_zeroes: false, event }
    }

    #[test]
    fn a_request_ends_with_its_last_part_for_the_process_that_issued_it() {
        let mut tally = Tally::new(true);
        tally.take(&mut seen(Tracepoint::BioQueued, 1, 70, 4096));
        tally.take(&mut seen(Tracepoint::Issued, 2, 90, 8192));
        let mut part = seen(Tracepoint::Completed, 50, 90, 4096);
        tally.take(&mut part);
        assert_eq!((part.event.process, tally.completed, tally.under_way()), (2, 0, 1));
        tally.take(&mut seen(Tracepoint::Completed, 1_000_002, 90, 4096));
        assert_eq!((tally.completed, tally.under_way(), tally.service.max() / 10_000), (1, 0, 100));
        let mut stranger = seen(Tracepoint::Completed, 200, 91, 4096);
        tally.take(&mut stranger);
        assert_eq!((stranger.event.process, stranger.event.name, tally.completed), (0, [0; 16], 1));
    }

    #[test]
    fn without_queues_a_bio_is_the_request() {
        let mut tally = Tally::new(false);
        tally.take(&mut seen(Tracepoint::BioQueued, 1, 70, 4096));
        tally.take(&mut seen(Tracepoint::BioCompleted, 21, 70, 0));
        assert_eq!((tally.completed, tally.service.max(), tally.issued), (1, 20, 0));
    }

    #[test]
    fn ends_that_were_lost_do_not_fill_the_memory() {
        let mut tally = Tally::new(true);
        (0..2 * UNDER_WAY_MAX as u64).for_each(|at| tally.take(&mut seen(Tracepoint::Issued, at, at, 512)));
        assert!(tally.under_way() <= UNDER_WAY_MAX);
    }

    #[test]
    fn operations_are_counted_when_they_are_queued() {
        let mut tally = Tally::new(true);
        let mut queue = |categories, bytes, makes_zeroes| {
            let mut one = Seen { makes_zeroes, ..seen(Tracepoint::BioQueued, 1, 1, bytes) };
            one.event.categories = categories;
            tally.take(&mut one);
        };
        queue(category::READ | category::SYNC, 512, false);
        queue(category::WRITE | category::FLUSH | category::FUA, 1024, false);
        queue(category::WRITE | category::FLUSH, 0, false);
        queue(category::WRITE | category::DISCARD, 4096, false);
        queue(category::WRITE, 8192, true);
        queue(category::WRITE | category::COMMAND, 36, false);
        let expected = Counts {
            reads: 1,
            bytes_read: 512,
            writes: 2,
            bytes_written: 9216,
            flushes: 2,
            discards: 1,
            zeroes: 1,
            commands: 1,
        };
        assert_eq!((tally.queued, tally.queued.requests()), (expected, 6));
    }
}
