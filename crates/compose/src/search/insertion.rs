//! Putting one extension into a stack whose order stays as it is (mode 1 of the thesis): n + 1 places, and not always
//! as good as composing anew.

use crate::goals::Score;
use crate::search::{BestOrder, NoOrder, Problem};
use crate::set::ExtId;
use crate::setting::Order;

/// One place that the extension can take.
#[derive(Clone, PartialEq, Debug)]
pub struct InsertPoint {
    /// How many extensions stand above it.
    pub at: usize,
    /// The stack with the extension at that place, top first.
    pub order: Order,
    /// Its score; none if a constraint forbids this place.
    pub score: Option<Score>,
}

/// All places that `extension` can take in `live`, from the top to the bottom.
pub fn places(problem: &Problem<'_>, live: &[ExtId], extension: ExtId) -> Vec<InsertPoint> {
    each_place(problem, live, extension).collect()
}

fn each_place<'p>(
    problem: &'p Problem<'_>,
    live: &[ExtId],
    extension: ExtId,
) -> impl ExactSizeIterator<Item = InsertPoint> + use<'p> {
    let others: Order = live.iter().copied().filter(|id| *id != extension).collect();
    let count = others.len() + 1;
    (0..count).map(move |at: usize| {
        let mut order = others.clone();
        order.insert(at, extension);
        let score = problem.judge(&order);
        InsertPoint { at, order, score }
    })
}

/// The best place, the topmost of equally good ones. Looks at no more than `looks_max` places, from the top.
///
/// # Errors
/// If constraints forbid them all, or those that were looked at.
pub fn insert(problem: &Problem<'_>, live: &[ExtId], extension: ExtId, looks_max: u64) -> Result<BestOrder, NoOrder> {
    let places = each_place(problem, live, extension);
    let is_proven = places.len() as u64 <= looks_max;
    let (mut best, mut looked_at): (Option<(Score, Order)>, _) = (None, 0);
    for place in places.take(usize::try_from(looks_max).unwrap_or(usize::MAX)) {
        looked_at += 1;
        if let Some(score) = place.score.filter(|score| best.as_ref().is_none_or(|(best, _)| score > best)) {
            best = Some((score, place.order));
        }
    }
    match best {
        Some((score, order)) => Ok(BestOrder { order, score, looked_at, is_proven }),
        None if is_proven => Err(NoOrder::Forbidden),
        None => Err(NoOrder::GaveUp(looks_max)),
    }
}
