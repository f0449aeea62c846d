//! What a disk has read on: runs of bytes behind the last reads, the latest of which grows while the arm rests there.

use crate::service::Service;

/// Runs by use, the latest last.
#[derive(Default)]
pub(crate) struct ReadSegments {
    runs: Vec<Run>,
    /// The last of them still grows.
    is_growing: bool,
    /// How many there are at most.
    most: usize,
    /// Bytes behind a read after which reading on stops.
    ahead: u64,
    /// Nanoseconds for a byte of the medium.
    byte_ns: f64,
}

/// Bytes `[from, until)` of a device.
#[derive(Clone, Copy)]
struct Run {
    from: u64,
    /// The end of what was read at `at`, in nanoseconds.
    until: u64,
    at: f64,
    /// The end of what will be read if nothing calls the arm away.
    limit: u64,
}

impl ReadSegments {
    pub(crate) fn new(service: &Service) -> ReadSegments {
        let (most, ahead, byte_ns) = (service.segments as usize, service.read_ahead_bytes, service.transfer_ns(1));
        ReadSegments { runs: Vec::with_capacity(most), is_growing: false, most, ahead, byte_ns }
    }

    /// If a run has the bytes of a read, or will without the arm moving: when the last of them has been read, in
    /// nanoseconds.
    pub(crate) fn hold(&mut self, place: u64, bytes: u64, now: f64) -> Option<f64> {
        let end = place + bytes;
        let last = self.runs.last()?;
        if self.is_growing && (last.from..=last.limit).contains(&place) {
            return Some(self.grow(place, end, now));
        }
        let found = self.runs.iter().rposition(|run| run.from <= place && end <= run.until)?;
        // The run that grows stays the last.
        let ended = self.runs.len() - usize::from(self.is_growing);
        if found < ended {
            self.runs[found..ended].rotate_left(1);
        }
        Some(now)
    }

    /// Has the last run reach beyond `end`. Answers when it has that.
    fn grow(&mut self, place: u64, end: u64, now: f64) -> f64 {
        let run = self.runs.last_mut().expect("it grows");
        // If reading on has stopped at the limit, it begins again there.
        if run.at + (run.limit - run.until) as f64 * self.byte_ns <= now {
            (run.until, run.at) = (run.limit, now);
        }
        run.limit = run.limit.max(end + self.ahead);
        run.from = run.from.max(run.limit.saturating_sub(2 * self.ahead)).min(place);
        run.at + end.saturating_sub(run.until) as f64 * self.byte_ns
    }

    /// A read that the arm went for ended then. It reads on from there.
    pub(crate) fn begin(&mut self, place: u64, bytes: u64, at: f64) {
        if self.most == 0 {
            return;
        }
        let until = place + bytes;
        if self.runs.len() == self.most {
            self.runs.remove(0);
        }
        self.runs.push(Run { from: place, until, at, limit: until + self.ahead });
        self.is_growing = true;
    }

    /// The arm is called away then.
    pub(crate) fn leave(&mut self, at: f64) {
        if std::mem::take(&mut self.is_growing) {
            let run = self.runs.last_mut().expect("it grew");
            let read = ((at - run.at).max(0.0) / self.byte_ns) as u64;
            run.until = run.limit.min(run.until + read);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Segments of a disk that reads a byte in 4 ns, and a MiB ahead.
    fn segments(most: usize) -> ReadSegments {
        ReadSegments { most, ahead: MIB, byte_ns: 4.0, ..ReadSegments::default() }
    }

    #[test]
    fn a_resting_arm_reads_on_and_one_that_is_called_away_has_what_it_has_read() {
        let mut disk = segments(4);
        disk.begin(0, 4096, 0.0);
        assert_eq!(disk.hold(MIB / 2, 4096, 1e9), Some(1e9), "it was read while the arm rested");
        disk.begin(1 << 40, 4096, 2e9);
        disk.leave(2e9 + 4.0 * 8192.0);
        assert_eq!(disk.hold((1 << 40) + 4096, 8192, 3e9), Some(3e9));
        assert_eq!(disk.hold((1 << 40) + 8192, 8192, 3e9), None, "half of it was not read");
        assert_eq!(disk.hold((1 << 40) - 1, 1, 3e9), None, "nothing is read before a read");
    }

    #[test]
    fn a_stream_waits_for_the_medium_alone() {
        let mut disk = segments(4);
        disk.begin(0, 4096, 0.0);
        assert_eq!(disk.hold(4096, 4096, 0.0), Some(4.0 * 4096.0));
        assert_eq!(disk.hold(8192, MIB, 10.0), Some(4.0 * (MIB + 4096) as f64));
    }

    #[test]
    fn the_run_that_was_not_used_for_longest_goes_first() {
        let mut disk = segments(2);
        for number in 0..3 {
            disk.begin(number << 30, 4096, 0.0);
            disk.leave(0.0);
            assert_eq!(disk.hold(0, 4096, 1.0), Some(1.0), "{number}: the first run was used again");
        }
        assert_eq!(disk.hold(1 << 30, 4096, 1.0), None, "there is room for two");
        let mut none = segments(0);
        none.begin(0, 4096, 0.0);
        none.leave(1.0);
        assert_eq!(none.hold(0, 4096, 1.0), None);
    }
}
