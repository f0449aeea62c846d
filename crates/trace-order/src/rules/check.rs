//! Whether a replay kept an order.

use super::Rules;
use super::outline::Outline;
use super::schedule::{Order, for_each};

/// An order that was not kept: `to` was issued before `from` was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The action that should have come first.
    pub from: u32,
    /// The one that did not wait.
    pub to: u32,
    /// The rules that ask for it.
    pub rules: Rules,
}

/// Every edge that a replay broke, given when it issued and completed each action. Edges between actions of one thread
/// are not looked at, nor those of [`Rules::TRACE_ORDER`], which speak of issues only.
pub fn violations(outline: &Outline, order: Order, stamps: &[(u64, u64)]) -> Vec<Violation> {
    let mut broken = Vec::new();
    for_each(outline, order, |to, candidates| {
        for candidate in candidates {
            let (from, rules) = (candidate.edge.from, candidate.edge.rules - Rules::TRACE_ORDER);
            if !rules.is_empty() && stamps[from as usize].1 > stamps[to as usize].0 {
                broken.push(Violation { from, to, rules });
            }
        }
    });
    broken
}
