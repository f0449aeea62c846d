//! What an administrator demands of an order, whatever it costs.

use std::collections::BTreeMap;

use crate::set::{ExtId, ExtSet, Member, Set};
use crate::setting::Setting;

/// Demands on an order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Constraints {
    /// The first stands somewhere above the second.
    pub above: Vec<(ExtId, ExtId)>,
    /// The extension has this place, counted from the top, from 0.
    pub pinned: BTreeMap<ExtId, usize>,
    /// The first never stands directly above the second.
    pub forbidden: Vec<(ExtId, ExtId)>,
    /// At most so many extensions may see no request.
    pub starved_max: Option<usize>,
}

/// Why no order can fulfil them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Contradiction {
    /// Extensions that must stand above each other; the first one is repeated at the end.
    Cycle(Vec<ExtId>),
    /// A place that the stack does not have.
    NoPlace(ExtId, usize),
    /// Two extensions at one place.
    SamePlace(ExtId, ExtId),
}

impl Constraints {
    /// Whether `order`, whose starved extensions number `starved`, fulfils them. What speaks of extensions that are
    /// not in it does not count.
    pub fn allow(&self, order: &[ExtId], starved: usize) -> bool {
        let place = |id: ExtId| order.iter().position(|other| *other == id);
        let fits = |pair: &(ExtId, ExtId)| !matches!((place(pair.0), place(pair.1)), (Some(a), Some(b)) if a > b);
        let at_place = |(id, at): (&ExtId, &usize)| place(*id).is_none_or(|found| found == *at);
        self.above.iter().all(fits)
            && self.pinned.iter().all(at_place)
            && !order.windows(2).any(|pair| self.forbidden.contains(&(pair[0], pair[1])))
            && self.starved_max.is_none_or(|max| starved <= max)
    }

    /// For each extension, those that must be placed before it.
    pub(crate) fn before(&self, setting: &Setting) -> Vec<ExtSet> {
        let of = |id: ExtId| self.above.iter().filter(|(_, below)| *below == id).map(|(above, _)| *above).collect();
        setting.ids().map(of).collect()
    }

    /// Finds demands that contradict each other, for a stack of all extensions.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self, setting: &Setting) -> Result<(), Contradiction> {
        let count = setting.extensions.len();
        for (at, (id, place)) in self.pinned.iter().enumerate() {
            if *place >= count {
                return Err(Contradiction::NoPlace(*id, *place));
            }
            if let Some((other, _)) = self.pinned.iter().take(at).find(|(_, other)| *other == place) {
                return Err(Contradiction::SamePlace(*other, *id));
            }
        }
        self.cycle(setting).map_or(Ok(()), |cycle| Err(Contradiction::Cycle(cycle)))
    }

    /// Extensions that must stand above each other.
    fn cycle(&self, setting: &Setting) -> Option<Vec<ExtId>> {
        let before = self.before(setting);
        let mut placed = ExtSet::EMPTY;
        loop {
            let next: ExtSet =
                setting.ids().filter(|id| !placed.has(*id) && before[id.index()].within(placed)).collect();
            if next.is_empty() {
                break;
            }
            placed |= next;
        }
        let all: ExtSet = setting.ids().collect();
        // Each one that is left has one before it that is left too, so going up must come back.
        let mut walk = vec![(all - placed).iter().next()?];
        loop {
            let last = *walk.last().expect("the walk has a start");
            let up = (before[last.index()] - placed).iter().next().expect("one before it is left");
            walk.push(up);
            if let Some(first) = walk[..walk.len() - 1].iter().position(|id| *id == up) {
                let mut cycle = walk.split_off(first);
                cycle.reverse();
                return Some(cycle);
            }
        }
    }

    pub(crate) fn forbidden_below(&self, above: Option<ExtId>) -> ExtSet {
        let of = |pair: &&(ExtId, ExtId)| Some(pair.0) == above;
        self.forbidden.iter().filter(of).fold(ExtSet::EMPTY, |set, pair| set | Set::one(pair.1))
    }
}
