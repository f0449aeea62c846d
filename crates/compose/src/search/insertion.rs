//! Putting one extension into a stack whose order stays as it is (mode 1 of the thesis): n + 1 places, and not always
//! as good as composing anew.

use crate::goals::Score;
use crate::search::{Found, NoOrder, Problem};
use crate::set::ExtId;
use crate::setting::Order;

/// One place that the extension can take.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    /// How many extensions stand above it.
    pub at: usize,
    /// The stack with the extension at that place, top first.
    pub order: Order,
    /// Its score; none if a constraint forbids this place.
    pub score: Option<Score>,
}

/// All places that `extension` can take in `live`, from the top to the bottom.
pub fn places(problem: &Problem<'_>, live: &[ExtId], extension: ExtId) -> Vec<Place> {
    let others: Order = live.iter().copied().filter(|id| *id != extension).collect();
    let place = |at: usize| {
        let mut order = others.clone();
        order.insert(at, extension);
        let score = problem.judge(&order);
        Place { at, order, score }
    };
    (0..=others.len()).map(place).collect()
}

/// The best place, the topmost of equally good ones.
///
/// # Errors
/// If constraints forbid them all.
pub fn insert(problem: &Problem<'_>, live: &[ExtId], extension: ExtId) -> Result<Found, NoOrder> {
    let places = places(problem, live, extension);
    let looked_at = places.len() as u64;
    let mut best: Option<(Score, Order)> = None;
    for place in places {
        if let Some(score) = place.score.filter(|score| best.as_ref().is_none_or(|(best, _)| score > best)) {
            best = Some((score, place.order));
        }
    }
    let (score, order) = best.ok_or(NoOrder::Forbidden)?;
    Ok(Found { order, score, looked_at, is_proven: true })
}
