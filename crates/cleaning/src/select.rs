//! The best victims of many segments, in bounded memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use esker_base::Stream;

use crate::{Policy, Situation, Summary, Worth};

/// Takes segments one by one, in any order, and keeps the best `count`. Each costs one comparison, and few of them a
/// step in a heap; memory is `count` entries. Scanners may offer segments as they come across them.
pub struct Selection<'a> {
    policy: &'a dyn Policy,
    situation: Situation,
    count: usize,
    /// Worst of the best on top.
    best: BinaryHeap<Reverse<(Worth, Reverse<u32>)>>,
}

impl<'a> Selection<'a> {
    /// An empty selection.
    pub fn new(policy: &'a dyn Policy, situation: Situation, count: usize) -> Selection<'a> {
        Selection { policy, situation, count, best: BinaryHeap::new() }
    }

    /// Takes the segment into account. It must be offered once, full, and not in use by anybody.
    pub fn offer(&mut self, segment: u32, summary: &Summary) {
        let worth = self.policy.worth(summary, &self.situation);
        if worth.is_none() {
            return;
        }
        let entry = Reverse((worth, Reverse(segment)));
        if self.best.len() < self.count {
            self.best.push(entry);
        } else if self.best.peek().is_some_and(|worst| entry < *worst) {
            self.best.pop();
            self.best.push(entry);
        }
    }

    /// The victims, best first; of equal ones that with the lower number.
    pub fn finish(self) -> Vec<u32> {
        self.best.into_sorted_vec().into_iter().map(|Reverse((_, Reverse(segment)))| segment).collect()
    }
}

/// Draws of segments that may not be cleaned, for each wanted one, after which a sample is as large as it is.
const DRAWS: u32 = 16;

/// `count` victims, each the best of `choices` segments drawn at random among `segments`; `look` says what is known of
/// a segment, or that it may not be cleaned. The cost does not depend on the number of segments. With greedy and ten
/// choices the result is near to looking at all of them ([`crate::analytic::choices`]). Fewer are found if hardly any
/// may be cleaned.
pub fn sampled(
    policy: &dyn Policy,
    situation: &Situation,
    segments: u32,
    look: &dyn Fn(u32) -> Option<Summary>,
    (choices, count): (u32, usize),
    rng: &mut Stream,
) -> Vec<u32> {
    let mut victims: Vec<u32> = Vec::with_capacity(count);
    for _ in 0..if segments == 0 { 0 } else { count } {
        let mut sample = Selection::new(policy, *situation, 1);
        let mut seen = 0;
        for _ in 0..choices * DRAWS {
            let segment = rng.below(segments.into()) as u32;
            if let Some(summary) = look(segment).filter(|_| !victims.contains(&segment)) {
                sample.offer(segment, &summary);
                seen += 1;
            }
            if seen == choices {
                break;
            }
        }
        victims.extend(sample.finish());
    }
    victims
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::{Greedy, NAMED};

    const NOW: Situation = Situation { now: 1_000, slack: 1.0 };

    fn full(live: u32, last: u64) -> Summary {
        Summary { blocks: 100, live, mappings: live.into(), first: last, last, died: None }
    }

    #[test]
    fn ties_go_to_the_lower_number_and_full_segments_to_nobody() {
        let mut selection = Selection::new(&Greedy, NOW, 3);
        for (segment, live) in [(7, 50), (9, 100), (3, 50), (5, 50), (1, 60)] {
            selection.offer(segment, &full(live, 1));
        }
        assert_eq!(selection.finish(), [3, 5, 7]);
        let mut nothing = Selection::new(&Greedy, NOW, 3);
        nothing.offer(1, &full(100, 1));
        assert_eq!(nothing.finish(), [0u32; 0]);
    }

    #[test]
    fn a_sample_as_large_as_the_store_finds_the_best() {
        let look = |segment: u32| (!segment.is_multiple_of(3)).then(|| full(segment, 1));
        let mut rng = Stream::named(1, "sampled");
        assert_eq!(sampled(&Greedy, &NOW, 10, &look, (200, 3), &mut rng), [1, 2, 4]);
        assert_eq!(sampled(&Greedy, &NOW, 10, &|_| None, (5, 3), &mut rng), [0u32; 0]);
        assert_eq!(sampled(&Greedy, &NOW, 0, &look, (5, 3), &mut rng), [0u32; 0]);
    }

    proptest! {
        #[test]
        fn a_selection_is_the_head_of_the_sorted_list(
            segments in prop::collection::vec((0u32..=100, 0u64..1_000), 0..40), count in 0usize..12, at in 0..NAMED.len(),
        ) {
            let policy = NAMED[at].1;
            let mut selection = Selection::new(policy, NOW, count);
            let mut all = Vec::new();
            for (segment, (live, last)) in segments.into_iter().enumerate() {
                let summary = full(live, last);
                selection.offer(segment as u32, &summary);
                all.push((Reverse(policy.worth(&summary, &NOW)), segment as u32));
            }
            all.retain(|(worth, _)| !worth.0.is_none());
            all.sort();
            let expected: Vec<u32> = all.into_iter().take(count).map(|(_, segment)| segment).collect();
            prop_assert_eq!(selection.finish(), expected);
        }

        #[test]
        fn a_sample_has_no_victim_twice_and_only_eligible_ones(seed: u64, choices in 1u32..6, count in 0usize..9) {
            let look = |segment: u32| segment.is_multiple_of(2).then(|| full(segment, 1));
            let mut found = sampled(&Greedy, &NOW, 20, &look, (choices, count), &mut Stream::seeded(seed));
            prop_assert!(found.len() <= count && found.iter().all(|segment| segment.is_multiple_of(2)));
            found.sort_unstable();
            prop_assert!(found.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
