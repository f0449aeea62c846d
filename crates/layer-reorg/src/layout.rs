//! From a plan to steps: which slot each page gets, and what moves for it.
//!
//! A piece of a chain that lies there in order stays where it is, if it is long enough. What is between such pieces
//! goes to gaps, in plan order, the first that is large enough. So a new plan that is like the old one moves little.

use std::collections::{BTreeMap, BTreeSet};

use crate::planner::Plan;

/// Slot of a page.
pub type Slot = u32;

/// A copy goes from one slot to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotMove {
    /// The page.
    pub page: u64,
    /// Where its copy is.
    pub from: Slot,
    /// Where it goes.
    pub to: Slot,
}

/// What a reconfiguration does, in three phases. Each step is safe by itself: behind any of them the map is whole.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Steps {
    /// Pages whose copy goes, in the order of their slots.
    pub out: Vec<u64>,
    /// Copies that change their slot, in rounds. The slots to which a round moves are free before it.
    pub moves: Vec<Vec<SlotMove>>,
    /// Pages that get a copy, in the order of their slots.
    pub fetched: Vec<(u64, Slot)>,
}

/// Pages of a piece that stays where it is: 64 KiB. To go there costs less than to move it.
const STAYS: usize = 16;

/// Slots for a plan: `0..reads`, of which the last is spare.
pub fn assign(plan: &Plan, now: &BTreeMap<u64, Slot>, reads: Slot) -> BTreeMap<u64, Slot> {
    let room = reads.saturating_sub(1);
    let mut gaps = Gaps::new(room);
    let mut slots = BTreeMap::new();
    let mut moving: Vec<Vec<u64>> = Vec::new();
    for chain in plan {
        let pages: Vec<u64> = chain.iter().flat_map(|run| run.page..run.page + run.pages).collect();
        let follows = |a: &u64, b: &u64| now.get(a).is_some_and(|slot| now.get(b) == Some(&(slot + 1)));
        let mut between = Vec::new();
        for piece in pages.chunk_by(follows) {
            let first = now.get(&piece[0]).copied().filter(|first| first + piece.len() as Slot <= room);
            match first.filter(|_| piece.len() >= STAYS || piece.len() == pages.len()) {
                Some(first) => {
                    gaps.take(first, piece.len() as Slot);
                    slots.extend(piece.iter().copied().zip(first..));
                    moving.push(std::mem::take(&mut between));
                }
                None => between.extend_from_slice(piece),
            }
        }
        moving.push(between);
    }
    for pages in moving {
        let found = gaps.find(pages.len() as u64);
        slots.extend(pages.into_iter().zip(found));
    }
    slots
}

/// Slots that are free: first ones and lengths.
struct Gaps(BTreeMap<Slot, Slot>);

impl Gaps {
    fn new(room: Slot) -> Gaps {
        Gaps((room > 0).then_some((0, room)).into_iter().collect())
    }

    fn take(&mut self, first: Slot, len: Slot) {
        let Some((from, size)) = self.0.range(..=first).next_back().map(|(from, size)| (*from, *size)) else { return };
        self.0.remove(&from);
        if first > from {
            self.0.insert(from, first - from);
        }
        if first + len < from + size {
            self.0.insert(first + len, from + size - first - len);
        }
    }

    /// So many slots: in one piece if there is such a gap, else from several.
    fn find(&mut self, want: u64) -> Vec<Slot> {
        let mut found = Vec::new();
        let whole = self.0.iter().find(|(_, size)| u64::from(**size) >= want).map(|(from, _)| *from);
        while (found.len() as u64) < want {
            let Some((from, size)) =
                whole.or_else(|| self.0.keys().next().copied()).and_then(|from| self.0.remove_entry(&from))
            else {
                break;
            };
            let taken = (want - found.len() as u64).min(u64::from(size)) as Slot;
            found.extend(from..from + taken);
            if taken < size {
                self.0.insert(from + taken, size - taken);
            }
        }
        found
    }
}

/// The steps from what lies aside to what should. A copy that no plan has goes if its slot is needed, or if `must_go`
/// says so: what stays may be asked for or written again. `spare`: a slot that no page of the new plan has.
pub fn steps(
    now: &BTreeMap<u64, Slot>,
    then: &BTreeMap<u64, Slot>,
    spare: Slot,
    must_go: impl Fn(Slot) -> bool,
) -> Steps {
    let needed: BTreeSet<Slot> = then.values().copied().chain([spare]).collect();
    let mut out: Vec<(Slot, u64)> = now
        .iter()
        .filter(|(page, slot)| !then.contains_key(page) && (needed.contains(slot) || must_go(**slot)))
        .map(|(page, slot)| (*slot, *page))
        .collect();
    out.sort_unstable();
    let mut fetched: Vec<(u64, Slot)> =
        then.iter().filter(|(page, _)| !now.contains_key(page)).map(|(page, slot)| (*page, *slot)).collect();
    fetched.sort_unstable_by_key(|(_, slot)| *slot);
    let waiting: Vec<SlotMove> = then
        .iter()
        .filter_map(|(page, to)| now.get(page).map(|from| SlotMove { page: *page, from: *from, to: *to }))
        .filter(|one| one.from != one.to)
        .collect();
    Steps { out: out.into_iter().map(|(_, page)| page).collect(), moves: rounds(waiting, spare), fetched }
}

/// Moves in rounds: each goes when its slot is free. A cycle is broken by one copy that waits in the spare slot.
fn rounds(mut waiting: Vec<SlotMove>, spare: Slot) -> Vec<Vec<SlotMove>> {
    let mut rounds = Vec::new();
    let mut is_spare_taken = false;
    while !waiting.is_empty() {
        let held: BTreeSet<Slot> = waiting.iter().map(|one| one.from).collect();
        let (mut ready, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|one| !held.contains(&one.to));
        waiting = later;
        if ready.is_empty() && !is_spare_taken {
            let first = &mut waiting[0];
            ready.push(SlotMove { to: spare, ..*first });
            first.from = spare;
            is_spare_taken = true;
        } else if ready.iter().any(|one| one.from == spare) {
            is_spare_taken = false;
        }
        assert!(!ready.is_empty(), "with the spare slot one move can always go");
        ready.sort_by_key(|one| one.to);
        rounds.push(ready);
    }
    rounds
}
