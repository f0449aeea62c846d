//! Walks a snapshot of the map on workers.
//!
//! It goes by the numbers of leaves, so that it meets each leaf once, however many trees share it. Each scanner has a
//! range and takes pieces of a few leaves from its front; the rest of the range stays where others can reach it. A
//! worker that runs dry takes half of what the busiest one has left. ANViL stops all threads at a barrier for that;
//! here a range is shared out between two pieces, on the reactor, and only the two concerned notice.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use esker_base::Nanos;
use esker_rt::Rt;
use esker_rt::sync::join_all;

use crate::map::Snapshot;

/// How a pass is shared out.
#[derive(Clone, PartialEq, Debug)]
pub struct Sharing {
    /// A range of numbers for each scanner, in order: together those of all nodes.
    pub ranges: Vec<Range<u64>>,
    /// Whether a worker that runs dry takes from others.
    pub is_dynamic: bool,
}

/// What is done with a piece of the map, on any thread.
pub type Visit<T> = Arc<dyn Fn(&Snapshot, Range<u64>) -> T + Send + Sync>;

/// Extents of a piece, at most: so few that a worker is soon back, and so many that its way there does not matter.
const PIECE: u64 = 2048;
/// CPU time of one extent, charged in virtual time: an estimate (`esker lab run anvil-scanner-threads` tells
/// `ns_per_mapping`).
pub const EXTENT_COST: Nanos = Nanos(12);

impl Sharing {
    /// Parts of equal work, as far as numbers tell, and shared out anew when one is done.
    pub fn even(snapshot: &Snapshot, scanners: usize) -> Sharing {
        let cut = |i: usize| snapshot.end() * i as u64 / scanners as u64;
        Sharing { ranges: (0..scanners).map(|i| cut(i)..cut(i + 1)).collect(), is_dynamic: true }
    }
}

/// Calls `visit` with pieces of the map until each of its extents was in one, on as many workers at once as there are
/// ranges; `each` gets what it returns, on the reactor.
pub async fn sweep<T: Send + 'static>(
    rt: &Rt,
    snapshot: &Snapshot,
    sharing: Sharing,
    visit: Visit<T>,
    each: &impl AsyncFn(T),
) {
    let scanners = sharing.ranges.len();
    let shares = RefCell::new(sharing);
    let scan = |i: usize| {
        let (shares, visit) = (&shares, &visit);
        async move {
            loop {
                let next = shares.borrow_mut().next(i, snapshot);
                let Some((range, extents)) = next else { return };
                let (snapshot, visit) = (snapshot.clone(), visit.clone());
                each(rt.worker(EXTENT_COST * extents, move || visit(&snapshot, range)).await).await;
            }
        }
    };
    join_all((0..scanners).map(scan)).await;
}

impl Sharing {
    /// The next piece for a scanner, and how many extents it may hold.
    fn next(&mut self, scanner: usize, snapshot: &Snapshot) -> Option<(Range<u64>, u64)> {
        if self.ranges[scanner].is_empty() && self.is_dynamic {
            self.take_over(scanner, snapshot);
        }
        let range = &mut self.ranges[scanner];
        if range.is_empty() {
            return None;
        }
        let (end, extents) = snapshot.piece(range.start, PIECE);
        let piece = range.start..end.min(range.end);
        range.start = piece.end;
        Some((piece, extents))
    }

    /// Halves what the busiest scanner has left.
    fn take_over(&mut self, scanner: usize, snapshot: &Snapshot) {
        let left = self.ranges.iter().map(|range| range.end.saturating_sub(range.start)).enumerate();
        let Some((busiest, nodes)) = left.max_by_key(|(_, left)| *left) else { return };
        // Less than two pieces are not worth it.
        if nodes < 2 || nodes * snapshot.mappings() < 2 * PIECE * snapshot.end() {
            return;
        }
        let start = self.ranges[busiest].start;
        let end = std::mem::replace(&mut self.ranges[busiest].end, start + nodes / 2);
        self.ranges[scanner] = start + nodes / 2..end;
    }
}
