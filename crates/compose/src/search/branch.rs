//! Composition from scratch: depth first from the top, with a bound on what each upper part can still become (Land and
//! Doig 1960), and one visit for each state. Swapping commuting neighbours leads to the same state, so such orders are
//! looked at once.

use std::collections::BTreeMap;

use crate::goals::Score;
use crate::search::state::{State, Tables};
use crate::search::{BestOrder, NoOrder, Problem};
use crate::set::ExtId;
use crate::setting::Order;

/// States after which a search ends unproven, unless its caller chooses otherwise.
pub const LOOKS_MAX: u64 = 2_000_000;
/// States that are remembered; later ones are looked at again if they return.
const REMEMBERED_MAX: usize = 200_000;

/// The best order of all extensions. Looks at no more than `looks_max` states; beyond them the best order met so far is
/// the answer, marked as not proven.
///
/// # Errors
/// Constraints that contradict each other, or that no order (met so far) keeps.
pub fn compose(problem: &Problem<'_>, looks_max: u64) -> Result<BestOrder, NoOrder> {
    compose_told(problem, looks_max, &|_| {})
}

/// The same. `tell` hears now and then how many states were looked at.
///
/// # Errors
/// As [`compose`].
pub fn compose_told(problem: &Problem<'_>, looks_max: u64, tell: &dyn Fn(u64)) -> Result<BestOrder, NoOrder> {
    problem.constraints.check(problem.setting)?;
    let tables = Tables::of(problem);
    let mut search = Search {
        tables: &tables,
        looks_max,
        looked_at: 0,
        upper: Vec::new(),
        known: BTreeMap::new(),
        best: None,
        tell,
    };
    search.descend(&tables.start(), 0);
    let is_proven = search.looked_at < looks_max;
    match search.best {
        Some((score, order)) => Ok(BestOrder { order, score, looked_at: search.looked_at, is_proven }),
        None if is_proven => Err(NoOrder::Forbidden),
        None => Err(NoOrder::GaveUp(looks_max)),
    }
}

struct Search<'t> {
    tables: &'t Tables,
    looks_max: u64,
    looked_at: u64,
    upper: Order,
    /// The most live extensions with which each state was reached. The last extension belongs to the state where a
    /// constraint speaks of neighbours.
    known: BTreeMap<(State, Option<ExtId>), usize>,
    best: Option<(Score, Order)>,
    tell: &'t dyn Fn(u64),
}

/// Looks between two reports.
const STRIDE: u64 = 4096;

/// An upper part with one extension more.
struct Child {
    id: ExtId,
    state: State,
    live: usize,
    bound: Score,
}

impl Search<'_> {
    fn descend(&mut self, state: &State, live: usize) {
        if state.rest.is_empty() {
            let score = self.tables.bound(state, live);
            if self.beats(&score) {
                self.best = Some((score, self.upper.clone()));
            }
            return;
        }
        for child in self.children(state, live) {
            if self.looked_at >= self.looks_max {
                return;
            }
            self.looked_at += 1;
            if self.looked_at.is_multiple_of(STRIDE) {
                (self.tell)(self.looked_at);
            }
            if self.may_beat(&child.bound) && self.is_new(&child) {
                self.upper.push(child.id);
                self.descend(&child.state, child.live);
                self.upper.pop();
            }
        }
    }

    fn beats(&self, score: &Score) -> bool {
        self.best.as_ref().is_none_or(|(best, _)| score > best)
    }

    /// Whether a part with this bound is worth a look. How many extensions starve decides only between orders that are
    /// met anyway: to prove that no equal order starves fewer, all equal orders would have to be looked at.
    fn may_beat(&self, bound: &Score) -> bool {
        self.best.as_ref().is_none_or(|(best, _)| bound.ranks > best.ranks)
    }

    /// Whether no upper part with the same future was met; with a limit on starving, none that starved as few.
    fn is_new(&mut self, child: &Child) -> bool {
        let counts = self.tables.constraints.starved_max.is_some();
        let neighbour = (!self.tables.constraints.forbidden.is_empty()).then_some(child.id);
        let key = (child.state.clone(), neighbour);
        if let Some(live) = self.known.get_mut(&key) {
            let is_better = counts && child.live > *live;
            *live = child.live.max(*live);
            return is_better;
        }
        if self.known.len() < REMEMBERED_MAX {
            self.known.insert(key, child.live);
        }
        true
    }

    /// The most promising first.
    fn children(&self, state: &State, live: usize) -> Vec<Child> {
        let place = self.upper.len();
        let starved_max = self.tables.constraints.starved_max.unwrap_or(usize::MAX);
        let child = |id: ExtId| {
            let mut state = state.clone();
            let live = live + usize::from(!self.tables.place(&mut state, id));
            let starved = place + 1 - live;
            let bound = self.tables.bound(&state, live);
            (starved <= starved_max).then_some(Child { id, state, live, bound })
        };
        let choices = self.tables.choices(state, place, self.upper.last().copied());
        let mut children: Vec<Child> = choices.iter().filter_map(child).collect();
        children.sort_by(|a, b| b.bound.cmp(&a.bound));
        children
    }
}
