//! What a disk has read on: runs of bytes behind the last reads, the latest of which grows while the arm rests there.

use std::collections::VecDeque;

use crate::service::Service;

/// Runs by use, the latest first.
#[derive(Default)]
pub(crate) struct ReadSegments {
    runs: VecDeque<Run>,
    /// The first of them still grows.
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
        ReadSegments { runs: VecDeque::with_capacity(most + 1), is_growing: false, most, ahead, byte_ns }
    }

    /// If a run has the bytes of a read, or will without the arm moving: when the last of them has been read, in
    /// nanoseconds.
    pub(crate) fn hold(&mut self, place: u64, bytes: u64, now: f64) -> Option<f64> {
        let end = place + bytes;
        let reaches = |(at, run): (usize, &Run)| match at == 0 && self.is_growing {
            true => place <= run.limit,
            false => end <= run.until,
        };
        let found = self.runs.iter().enumerate().position(|(at, run)| run.from <= place && reaches((at, run)))?;
        if found > 0 || !self.is_growing {
            let run = self.runs.remove(found).expect("it was found there");
            // The run that grows stays the first.
            self.runs.insert(usize::from(self.is_growing), run);
            return Some(now);
        }
        let (byte_ns, ahead) = (self.byte_ns, self.ahead);
        let run = &mut self.runs[0];
        let full = run.at + (run.limit - run.until) as f64 * byte_ns;
        let passed = run.at + end.saturating_sub(run.until) as f64 * byte_ns;
        // If reading on had stopped, it begins again where it stopped.
        if full <= now {
            (run.until, run.at) = (run.limit, now);
        }
        run.limit = run.limit.max(end + ahead);
        run.from = run.from.max(run.limit.saturating_sub(2 * ahead)).min(place);
        let late = run.at + end.saturating_sub(run.until) as f64 * byte_ns;
        Some(if full <= now { late } else { passed })
    }

    /// A read that the arm went for ended then. It reads on from there.
    pub(crate) fn begin(&mut self, place: u64, bytes: u64, at: f64) {
        if self.most == 0 {
            return;
        }
        let until = place + bytes;
        self.runs.push_front(Run { from: place, until, at, limit: until + self.ahead });
        self.runs.truncate(self.most);
        self.is_growing = true;
    }

    /// The arm is called away then.
    pub(crate) fn leave(&mut self, at: f64) {
        if std::mem::take(&mut self.is_growing) {
            let run = &mut self.runs[0];
            let read = ((at - run.at).max(0.0) / self.byte_ns) as u64;
            run.until = run.limit.min(run.until + read);
        }
    }

}
