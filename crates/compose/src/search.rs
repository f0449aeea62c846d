//! Finding the order that serves given goals best: from scratch, exactly ([`branch`]), by counting all orders
//! ([`census`]), or by putting one extension into an order that stays as it is ([`insertion`]).
//!
//! Reading order: this file, `state` (half-built stacks and what they can still become), then the three ways.

pub mod branch;
pub mod census;
pub mod insertion;
mod state;

use crate::constraint::{Constraints, Contradiction};
use crate::exact::ModelRun;
use crate::goals::{Priorities, Score};
use crate::set::ExtId;
use crate::setting::{Order, Setting};

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// Volumes and extensions.
    pub setting: &'a Setting,
    /// What is wanted.
    pub priorities: &'a Priorities,
    /// What must hold.
    pub constraints: &'a Constraints,
}

impl Problem<'_> {
    /// The score of an order, or none if the constraints forbid it.
    pub fn judge(&self, order: &[ExtId]) -> Option<Score> {
        let run = ModelRun::of(self.setting, order);
        let is_allowed = self.constraints.allow(order, run.starved().len());
        is_allowed.then(|| self.priorities.score(self.setting, &run))
    }
}

/// The answer to a search.
#[derive(Clone, PartialEq, Debug)]
pub struct BestOrder {
    /// The best order, top first: no allowed one has better ranks. Which of equally good ones it is depends on nothing
    /// but the problem; those that starve fewer extensions are looked at first.
    pub order: Order,
    /// Its score.
    pub score: Score,
    /// Half-built and whole stacks that were looked at.
    pub looked_at: u64,
    /// Whether nothing can be better. If not, the search reached its bound, and this is the best it met.
    pub is_proven: bool,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Debug)]
pub enum NoOrder {
    /// The constraints contradict each other.
    Contradiction(Contradiction),
    /// Every order breaks a constraint.
    Forbidden,
    /// The search reached its bound before it met an order that keeps the constraints.
    GaveUp(u64),
    /// The count of all orders reached its bound.
    Uncounted(u64),
    /// More extensions than all orders of which can be counted.
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
}

impl From<Contradiction> for NoOrder {
    fn from(contradiction: Contradiction) -> NoOrder {
        NoOrder::Contradiction(contradiction)
    }
}
