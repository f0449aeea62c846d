//! Looking at every order there is: how many are allowed, best, or equivalent.

use std::collections::BTreeSet;

use crate::exact::ModelRun;
use crate::goals::Score;
use crate::search::state::{State, Tables};
use crate::search::{NoOrder, Problem};
use crate::set::ExtId;
use crate::setting::{Order, Setting};

/// Extensions whose orders are counted at most: 9! = 362 880.
pub const COUNTED_MAX: usize = 9;

/// What all orders together look like.
#[derive(Clone, PartialEq, Debug)]
pub struct Census {
    /// All orders that keep the constraints.
    pub allowed: u64,
    /// The best score among them.
    pub best: Score,
    /// The first order with that score, in the order of the text.
    pub first: Order,
    /// How many have the same ranks as the best one, however many extensions they starve.
    pub optimal: u64,
    /// In how many of the allowed orders each extension is starved.
    pub starved_in: Vec<u64>,
}

/// Counts all orders. Looks at no more than `looks_max` stacks and parts of stacks.
///
/// # Errors
/// More than [`COUNTED_MAX`] extensions, constraints that no order keeps, or more looks than that.
pub fn census(problem: &Problem<'_>, looks_max: u64) -> Result<Census, NoOrder> {
    check_count(problem.setting)?;
    problem.constraints.check(problem.setting)?;
    let tables = Tables::of(problem);
    let starved_in = vec![0; problem.setting.extensions.len()];
    let looks = Looks { left: looks_max, is_cut: false };
    let mut count = Count { tables: &tables, looks, upper: Vec::new(), starved: Vec::new(), found: None, starved_in };
    count.descend(&tables.start());
    if count.looks.is_cut {
        return Err(NoOrder::Uncounted(looks_max));
    }
    let starved_in = count.starved_in;
    let (best, first, optimal, allowed) = count.found.ok_or(NoOrder::Forbidden)?;
    Ok(Census { allowed, best, first, optimal, starved_in })
}

fn check_count(setting: &Setting) -> Result<(), NoOrder> {
    match setting.extensions.len() {
        count if count > COUNTED_MAX => Err(NoOrder::TooMany { count, max: COUNTED_MAX }),
        _ => Ok(()),
    }
}

/// What may still be looked at.
struct Looks {
    left: u64,
    /// Whether something was left out.
    is_cut: bool,
}

struct Count<'t> {
    tables: &'t Tables,
    looks: Looks,
    upper: Order,
    starved: Vec<ExtId>,
    found: Option<(Score, Order, u64, u64)>,
    starved_in: Vec<u64>,
}

impl Count<'_> {
    fn descend(&mut self, state: &State) {
        if state.rest.is_empty() {
            self.whole(state);
            return;
        }
        for id in self.tables.choices(state, self.upper.len(), self.upper.last().copied()).iter() {
            if self.looks.left == 0 {
                self.looks.is_cut = true;
                return;
            }
            self.looks.left -= 1;
            let mut state = state.clone();
            let is_starved = self.tables.place(&mut state, id);
            self.upper.push(id);
            if is_starved {
                self.starved.push(id);
            }
            if self.tables.constraints.starved_max.is_none_or(|max| self.starved.len() <= max) {
                self.descend(&state);
            }
            if is_starved {
                self.starved.pop();
            }
            self.upper.pop();
        }
    }

    fn whole(&mut self, state: &State) {
        let score = self.tables.bound(state, self.upper.len() - self.starved.len());
        for id in &self.starved {
            self.starved_in[crate::set::Member::index(*id)] += 1;
        }
        match &mut self.found {
            Some((best, first, optimal, allowed)) => {
                *allowed += 1;
                match score.ranks.cmp(&best.ranks) {
                    std::cmp::Ordering::Greater => *optimal = 1,
                    std::cmp::Ordering::Equal => *optimal += 1,
                    std::cmp::Ordering::Less => {}
                }
                if score > *best {
                    (*best, *first) = (score, self.upper.clone());
                }
            }
            None => self.found = Some((score, self.upper.clone(), 1, 1)),
        }
    }
}

/// How many classes of equivalent orders there are: orders are equivalent if every volume has the same last handlers.
/// With `merged`, all volumes with several last handlers, or with none, count as alike.
///
/// # Errors
/// More than [`COUNTED_MAX`] extensions.
pub fn classes(setting: &Setting, merged: bool) -> Result<usize, NoOrder> {
    check_count(setting)?;
    let mut seen = BTreeSet::new();
    each_order(setting, &mut |order| {
        let dominance = ModelRun::of(setting, order).dominance();
        seen.insert(match merged {
            false => dominance.iter().map(|handlers| (handlers.extensions, handlers.unhandled)).collect(),
            true => dominance
                .iter()
                .map(|handlers| (handlers.dominant().into_iter().collect(), handlers.is_empty()))
                .collect::<Vec<_>>(),
        });
    });
    Ok(seen.len())
}

/// Calls `visit` with each order of all extensions.
pub fn each_order(setting: &Setting, visit: &mut impl FnMut(&[ExtId])) {
    permute(&mut Vec::new(), &mut setting.ids().collect(), visit);
}

fn permute(upper: &mut Order, rest: &mut Order, visit: &mut impl FnMut(&[ExtId])) {
    if rest.is_empty() {
        visit(upper);
    }
    for at in 0..rest.len() {
        let id = rest.remove(at);
        upper.push(id);
        permute(upper, rest, visit);
        upper.pop();
        rest.insert(at, id);
    }
}
