//! Requests that wait for their replies, by transaction id.

use std::collections::{BTreeMap, VecDeque};

use esker_base::Nanos;

use crate::request::NfsRequest;

/// Age of the trace's time at which a request has no reply any more.
pub const AGE_MAX: Nanos = Nanos::secs(300);

/// Estimated memory of a request beside its names, in bytes: its rows in the table and in the queue, with what the
/// allocator adds.
const PENDING_BYTES: u64 = 256;

struct Pending {
    number: u64,
    request: NfsRequest,
}

/// Requests without replies. The newest request of an id replaces an older one.
pub struct Transactions {
    pending: BTreeMap<u64, Pending>,
    /// Arrivals: time, id and number. Those of requests that are gone stay until they are due.
    arrivals: VecDeque<(Nanos, u64, u64)>,
    next_number: u64,
    bytes: u64,
    bytes_max: u64,
    counts: TransactionCounts,
}

/// What became of requests that got no reply.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TransactionCounts {
    /// They waited for more than [`AGE_MAX`].
    pub timed_out: u64,
    /// A newer request had the same id.
    pub replaced: u64,
    /// The table was full.
    pub evicted: u64,
}

impl Transactions {
    /// An empty table that takes at most so many bytes.
    pub fn new(bytes_max: u64) -> Transactions {
        Transactions {
            pending: BTreeMap::new(),
            arrivals: VecDeque::new(),
            next_number: 0,
            bytes: 0,
            bytes_max,
            counts: TransactionCounts::default(),
        }
    }

    /// A client asks.
    pub fn ask(&mut self, now: Nanos, xid: u64, request: NfsRequest) {
        self.expire(now);
        let number = self.next_number;
        self.next_number += 1;
        self.bytes += cost(&request);
        self.arrivals.push_back((now, xid, number));
        if let Some(old) = self.pending.insert(xid, Pending { number, request }) {
            self.bytes -= cost(&old.request);
            self.counts.replaced += 1;
        }
        while self.bytes > self.bytes_max || self.arrivals.len() as u64 > self.bytes_max / PENDING_BYTES {
            self.counts.evicted += u64::from(self.forget_oldest());
        }
    }

    /// The server answers: the request that it answers, if that still waits.
    pub fn answer(&mut self, now: Nanos, xid: u64) -> Option<NfsRequest> {
        self.expire(now);
        let found = self.pending.remove(&xid)?;
        self.bytes -= cost(&found.request);
        Some(found.request)
    }

    /// What became of requests without replies.
    pub fn counts(&self) -> TransactionCounts {
        self.counts
    }

    /// Requests that wait.
    pub fn waiting(&self) -> u64 {
        self.pending.len() as u64
    }

    fn expire(&mut self, now: Nanos) {
        while self.arrivals.front().is_some_and(|(asked, ..)| now.saturating_sub(*asked) > AGE_MAX) {
            self.counts.timed_out += u64::from(self.forget_oldest());
        }
    }

    /// Whether the oldest arrival still waited.
    fn forget_oldest(&mut self) -> bool {
        let Some((_, xid, number)) = self.arrivals.pop_front() else { return false };
        if self.pending.get(&xid).is_none_or(|pending| pending.number != number) {
            return false;
        }
        if let Some(gone) = self.pending.remove(&xid) {
            self.bytes -= cost(&gone.request);
        }
        true
    }
}

fn cost(request: &NfsRequest) -> u64 {
    PENDING_BYTES + request.name_bytes()
}
